//! Lists past events, newest first. Fails with `INVALID_CURSOR` or `HISTORY_LIMIT`.

use prost::Message as _;
use thesis_proto::{filter::CompiledFilter, json::RenderedRows, v1};

use super::fields::Fields;
use crate::{
    access::gate::Call,
    domain::{
        list_cursor::{HistoryPosition, list_name},
        window::Floor,
    },
    error::{Error, Result},
    log::{
        backward::{Backward, LogSlice},
        selection::select,
    },
    service::Core,
    tables::theses::RowReader,
};

/// Entries that one page scans. If no index serves its filter, a page is short instead of slow.
const MAX_LOOKED_AT: usize = 2_500;

pub async fn list_events(core: &Core, call: &Call, message: v1::ListEventsRequest) -> Result<v1::ListEventsResponse> {
    let mut fields = Fields::default();
    let filter = fields.filter(&message.types, message.filters.as_ref(), "");
    let limit = fields.page(message.limit, message.cursor.as_deref());
    let (after, before) = fields.window(message.created_after.as_ref(), message.created_before.as_ref());
    fields.finish()?;
    call.charge().await?;

    let view = &call.caller.view;
    let signer = core.shared.keys.cursor_signer();
    let name = name(core, call, &message, [after, before]);
    let PageStart { reader, floor, positions } = page_start(core, call, &message, &name, [after, before]).await?;
    let projected: Vec<u64> = positions.iter().map(|(_, projected)| *projected).collect();
    let slices = view.datasets().iter().zip(positions).map(|(dataset, (before, projected))| LogSlice {
        dataset: dataset.clone(),
        before,
        after: 0,
        projected,
        from: floor.bound_for(dataset),
    });
    let selection = select(&reader, view, &filter).await?;
    let mut entries = Backward::new(&core.shared, selection, slices.collect(), limit + 1);
    // Filters match messages, so the rows of a filtered list are messages.
    let renders = call.meta.renders && filter == CompiledFilter::default();
    if renders {
        entries = entries.rendering();
    }
    let (mut data, mut rows) = (Vec::new(), Vec::new());
    for _ in 0..MAX_LOOKED_AT {
        if data.len() + rows.len() == limit {
            break;
        }
        // A read that never waits must still yield to other requests.
        tokio::task::coop::consume_budget().await;
        let Some((index, taken)) = entries.next().await? else { break };
        if renders {
            rows.extend(entries.rendered(index, taken)?);
        } else {
            data.extend(entries.event(index, taken, &filter)?);
        }
    }
    *call.rendered.lock() = renders.then_some(RenderedRows(rows));
    let next_cursor = entries.has_more().then(|| {
        let from = after.map_or(0, |_| floor.carried());
        let position = HistoryPosition { before: entries.positions(), projected, from };
        signer.sign(&name, &position)
    });
    Ok(v1::ListEventsResponse { data, has_more: next_cursor.is_some(), next_cursor })
}

/// Names a list, the same for all its pages and page sizes.
fn name(core: &Core, call: &Call, message: &v1::ListEventsRequest, window: [Option<i64>; 2]) -> [u8; 32] {
    // The name contains every field of a request, except those of the page. The filter is in it as text.
    let v1::ListEventsRequest { types, filters, created_after: _, created_before: _, limit: _, cursor: _ } = message;
    // A cursor of this list has positions, so it belongs to the generation of the logs.
    let logs = core.shared.generation.log_names(&call.caller.view).join(",");
    let filters = filters.as_ref().map(v1::EventFilters::encode_to_vec).unwrap_or_default();
    let filter = format!("{types:?}{}", hex::encode(filters));
    let [after, before] = window.map(|number| number.map(|number| number.to_string()).unwrap_or_default());
    list_name(&["events", &logs, &filter, &after, &before])
}

/// Where a page starts.
struct PageStart<'a> {
    /// A reader of names.
    reader: RowReader<'a>,
    floor: Floor,
    /// For each dataset, the position below which the page starts, and the projected position of the first page.
    positions: Vec<(u64, u64)>,
}

/// Finds where a page starts: at its cursor, or at the newest entry of the window.
async fn page_start<'a>(
    core: &'a Core,
    call: &Call,
    message: &v1::ListEventsRequest,
    name: &[u8; 32],
    [after, before]: [Option<i64>; 2],
) -> Result<PageStart<'a>> {
    let (theses, datasets) = (&core.shared.theses, call.caller.view.datasets());
    if let Some(cursor) = &message.cursor {
        let position: Option<HistoryPosition> = core.shared.keys.cursor_signer().read(name, cursor);
        let HistoryPosition { before, projected, from } = position.ok_or_else(Error::invalid_cursor)?;
        if [before.len(), projected.len()] != [datasets.len(); 2] {
            return Err(Error::invalid_cursor());
        }
        let (floor, positions) = (call.later_floor(from, after.is_some()), before.into_iter().zip(projected).collect());
        // If other cores write too, this reads the checkpoints. So this core knows each erasure before it uses events
        // in memory.
        return Ok(PageStart { reader: theses.reader(&call.caller.view).await?, floor, positions });
    }
    let floor = call.history_floor(after)?;
    let reader = theses.reader(&call.caller.view).await?;
    let mut positions = Vec::with_capacity(datasets.len());
    for dataset in datasets {
        let projected = match reader.projected(dataset) {
            Some(projected) => {
                core.datasets.advance_position(dataset, projected);
                projected
            }
            None => core.datasets.refresh(dataset).await?,
        };
        let below = match before {
            Some(at) if at < call.now_ms => core.shared.log.last_at(dataset.name(), projected, at).await? + 1,
            _ => projected + 1,
        };
        positions.push((below, projected));
    }
    Ok(PageStart { reader, floor, positions })
}
