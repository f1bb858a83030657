//! Reads the cursor of a stream. A cursor names a position in each log that its stream reads. A client may resume with
//! other types of events, so that its cursor lacks the position in the log of alerts, or has one too many.

use thesis_proto::cursor::StreamCursor;

use super::invalid_cursor;
use crate::{
    access::gate::Call,
    domain::{
        dataset::{Dataset, View},
        window::CLOCK_SKEW_MS,
    },
    error::Result,
    service::Core,
    tables::log::outline,
};

/// The positions of a cursor in the logs of a stream, in their order.
pub(super) async fn read_cursor(core: &Core, call: &Call, logs: &View, text: &str) -> Result<Vec<u64>> {
    let decode = |view: &View| StreamCursor::decode(text, &core.shared.generation.log_names(view));
    if let Some(cursor) = decode(logs) {
        return Ok(cursor.positions);
    }
    let view = &call.caller.view;
    let all = view.with_alerts(&call.caller.project.id);
    if logs == view {
        let mut positions = decode(&all).ok_or_else(invalid_cursor)?.positions;
        positions.truncate(logs.datasets().len());
        return Ok(positions);
    }
    let mut positions = decode(view).ok_or_else(invalid_cursor)?.positions;
    for dataset in logs.datasets().get(positions.len()..).unwrap_or_default() {
        let position = position_beside(core, view, &positions, dataset).await?;
        positions.push(position);
    }
    Ok(positions)
}

/// The position of another log at the time of a cursor. That is not before the newest entry that the cursor names, so
/// no later event is left out.
async fn position_beside(core: &Core, view: &View, positions: &[u64], other: &Dataset) -> Result<u64> {
    let mut newest = None;
    for (dataset, position) in view.datasets().iter().zip(positions) {
        if let Some(body) = core.shared.log.get(dataset.name(), *position).await? {
            newest = newest.max(Some(outline(&body)?.created_at));
        }
    }
    let Some(newest) = newest else { return Ok(0) };
    let projected = core.datasets.refresh(other).await?;
    Ok(core.shared.log.last_at(other.name(), projected, newest - CLOCK_SKEW_MS).await?)
}
