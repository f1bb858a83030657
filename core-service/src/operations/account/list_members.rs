//! Lists the members of an organization, by e-mail.

use thesis_proto::v1;

use crate::{
    access::rights,
    accounts::Person,
    convert,
    domain::account::{Role, folded_email},
    error::Result,
    service::Core,
};

pub async fn list_members(
    core: &Core,
    person: &Person,
    message: &v1::ListMembersRequest,
) -> Result<v1::ListMembersResponse> {
    core.shared.control.refresh().await?;
    let state = core.shared.control.state();
    rights::organization(&state, &person.actor, &message.organization_id, Role::Viewer)?;
    let people = state.people();
    let members = people.members(&message.organization_id);
    let mut data: Vec<v1::Member> =
        members.map(|row| convert::account::member(row, people.user(&row.user_id).map(|user| &**user))).collect();
    data.sort_by_cached_key(|member| member.user.as_ref().map(|user| folded_email(&user.email)));
    Ok(v1::ListMembersResponse { data })
}
