//! Reads the public status. It needs no key and no store, so that it answers while nothing else does.

use thesis_proto::v1;

use crate::service::Core;

/// Reads the state of the service.
pub fn get_status(core: &Core, _: v1::GetStatusRequest) -> v1::GetStatusResponse {
    v1::GetStatusResponse { status: Some(core.processes.status(core.shared.clock.now_ms())) }
}
