//! Reads the session's user and their organizations, by name.

use thesis_proto::{time::from_millis, v1};

use crate::{
    accounts::{
        Person,
        sessions::{self, CONFIRMED_MS},
    },
    convert,
    error::Result,
    operations::admin::grantable,
    service::Core,
};

pub async fn get_account(core: &Core, person: &Person, _: &v1::GetAccountRequest) -> Result<v1::GetAccountResponse> {
    let shared = &core.shared;
    shared.control.refresh().await?;
    let session = sessions::current(shared, person).await?;
    let state = shared.control.state();
    let people = state.people();
    let user = people.user(&person.user.id).unwrap_or(&person.user);
    let mut joined: Vec<_> = people
        .memberships(&user.id)
        .filter_map(|member| Some((state.organization(&member.organization_id)?, member)))
        .collect();
    joined.sort_by(|(one, _), (other, _)| (&one.name, &one.id).cmp(&(&other.name, &other.id)));
    let memberships = joined.into_iter().map(|(of, member)| convert::account::membership(member, of)).collect();
    Ok(v1::GetAccountResponse {
        user: Some(convert::account::user(user)),
        memberships,
        session,
        sends_mail: core.accounts.mail.is_some(),
        invites_strangers: core.accounts.may_invite_strangers(Some(&**user)),
        grantable_scopes: grantable(core).map(|scope| scope.as_str().to_owned()).collect(),
        confirmed_until: Some(from_millis(person.confirmed_at + CONFIRMED_MS)),
    })
}
