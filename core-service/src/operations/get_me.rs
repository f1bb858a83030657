//! Reads the caller's key, with its project and organization.

use thesis_proto::v1;

use crate::{access::gate::Call, convert, error::Result, service::Core};

pub async fn get_me(_core: &Core, call: &Call, _message: v1::GetMeRequest) -> Result<v1::GetMeResponse> {
    call.charge().await?;
    let caller = &call.caller;
    let key = convert::control::key_info(&caller.key, &caller.project, &caller.organization);
    Ok(v1::GetMeResponse { key: Some(key) })
}
