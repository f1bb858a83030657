//! Lists all users by e-mail.

use thesis_proto::v1;

use crate::{convert, domain::account::Actor, error::Result, service::Core};

pub async fn list_users(core: &Core, _: &Actor, _: &v1::ListUsersRequest) -> Result<v1::ListUsersResponse> {
    core.shared.control.refresh().await?;
    let state = core.shared.control.state();
    Ok(v1::ListUsersResponse { data: state.people().users().map(|row| convert::account::user(row)).collect() })
}
