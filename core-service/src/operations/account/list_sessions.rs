//! Lists the user's sessions, the last used first.

use thesis_proto::v1;

use crate::{
    accounts::{Person, sessions},
    error::Result,
    service::Core,
};

pub async fn list_sessions(
    core: &Core,
    person: &Person,
    _: &v1::ListSessionsRequest,
) -> Result<v1::ListSessionsResponse> {
    Ok(v1::ListSessionsResponse { data: sessions::list(&core.shared, person).await? })
}
