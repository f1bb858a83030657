//! Ends one of the user's sessions, immediately and on all cores.

use thesis_proto::{error::ErrorCode, v1};

use crate::{
    accounts::{Person, sessions},
    error::{Error, Result},
    service::Core,
};

pub async fn revoke_session(
    core: &Core,
    person: &Person,
    message: &v1::RevokeSessionRequest,
) -> Result<v1::RevokeSessionResponse> {
    if !sessions::end(&core.shared, person, &message.id, "session.revoked").await? {
        return Err(Error::new(ErrorCode::SessionNotFound, "there is no such session; list yours"));
    }
    Ok(v1::RevokeSessionResponse {})
}
