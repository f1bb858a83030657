//! Ends the session that calls.

use thesis_proto::v1;

use crate::{
    accounts::{Person, sessions},
    error::Result,
    operations::Core,
};

/// Ends the session that calls.
///
/// # Errors
/// When the store does not answer.
pub async fn sign_out(core: &Core, person: &Person, _: &v1::SignOutRequest) -> Result<v1::SignOutResponse> {
    // Another call may have ended it meanwhile.
    sessions::end(&core.shared, person, &person.session_id, "session.ended").await?;
    Ok(v1::SignOutResponse {})
}
