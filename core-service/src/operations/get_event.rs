//! Reads one event that the caller sees, within its history window. Fails with `EVENT_NOT_FOUND` or `HISTORY_LIMIT`.

use thesis_proto::{error::ErrorCode, v1};

use super::missing::missing;
use crate::{access::gate::Call, convert, error::Result, service::Core, tables::log::decode};

pub async fn get_event(core: &Core, call: &Call, message: v1::GetEventRequest) -> Result<v1::GetEventResponse> {
    call.charge().await?;
    let id = &message.id;
    let not_found = || missing(ErrorCode::EventNotFound, id);
    for dataset in call.caller.view.with_alerts(&call.caller.project.id).datasets() {
        let name = dataset.name();
        let Some(seq) = core.shared.event_positions.position_of(name, id).await? else { continue };
        let entry = core.shared.log.get_present(name, seq).await?.map(|body| decode(seq, body)).transpose()?;
        let Some(entry) = entry.filter(|entry| entry.id == *id) else { continue };
        let event = convert::entry::event(dataset, &entry).ok_or_else(not_found)?;
        call.demand_in_history(dataset, entry.created_at)?;
        return Ok(v1::GetEventResponse { event: Some(event) });
    }
    Err(not_found())
}
