//! Ends the session of the caller.

use thesis_proto::v1;

use crate::{
    accounts::{Person, sessions},
    error::Result,
    service::Core,
};

pub async fn sign_out(core: &Core, person: &Person, _: &v1::SignOutRequest) -> Result<v1::SignOutResponse> {
    // A concurrent call may have ended it.
    sessions::end(&core.shared, person, &person.session_id, "session.ended").await?;
    Ok(v1::SignOutResponse {})
}
