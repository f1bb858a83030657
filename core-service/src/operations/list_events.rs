//! Lists past events, newest first.

use thesis_proto::{filter::CompiledFilter, v1};

use crate::{
    access::gate::Call,
    domain::list_cursor::{HistoryPosition, list_name},
    error::{Error, Result},
    log::{
        backward::{Backward, LogSlice, Positions},
        selection::{Selection, select},
    },
    service::Core,
    tables::log::decode,
};

/// Entries that one page scans. If no index serves its filter, a page is short instead of slow.
const MAX_LOOKED_AT: usize = 2_500;

/// A request for a list of events, with checked shape.
pub struct EventQuery {
    /// The filter of the events.
    pub filter: CompiledFilter,
    /// All parameters of the filter as text, which is part of the name of the list.
    pub filter_text: String,
    /// Inclusive, unix milliseconds.
    pub created_after: Option<i64>,
    /// Inclusive, unix milliseconds.
    pub created_before: Option<i64>,
    /// Rows of a page.
    pub limit: usize,
    /// Cursor of the page.
    pub cursor: Option<String>,
}

/// A page of events.
#[derive(Debug)]
pub struct EventPage {
    /// The events.
    pub events: Vec<v1::Event>,
    /// Cursor of the next page, if entries remain.
    pub next_cursor: Option<String>,
}

/// Finds the first sequence number whose entry is younger than `at`, at most `head + 1`.
async fn first_after(core: &Core, dataset: &str, head: u64, at: i64) -> Result<u64> {
    let (mut low, mut high) = (1, head + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        let body = core.shared.log.get(dataset, middle).await?;
        let older = match body {
            Some(body) => decode(body)?.created_at <= at,
            None => false,
        };
        if older { low = middle + 1 } else { high = middle }
    }
    Ok(low)
}

/// Lists events.
///
/// # Errors
/// `INVALID_CURSOR`, `HISTORY_LIMIT`, or when the store does not answer.
pub async fn list_events(core: &Core, call: &Call, query: &EventQuery) -> Result<EventPage> {
    let view = &call.caller.view;
    let mut floor = call.history_floor(query.created_after.filter(|_| query.cursor.is_none()))?;
    let signer = core.shared.keys.cursor_signer();
    // The name contains every field of a query, except those of the page. The filter is in it as text.
    let EventQuery { filter: _, filter_text, created_after, created_before, limit: _, cursor: _ } = query;
    let number = |number: &Option<i64>| number.map(|number| number.to_string()).unwrap_or_default();
    // A cursor of this list has positions, so it belongs to the generation of the logs.
    let logs = core.shared.generation.log_names(view);
    let (after, before) = (number(created_after), number(created_before));
    let name = list_name(&["events", &logs.join(","), filter_text, &after, &before]);
    let before: Positions = match &query.cursor {
        Some(cursor) => {
            let position: Option<HistoryPosition> = signer.read(&name, cursor);
            let whole = position.filter(|position| position.before.len() == view.datasets().len());
            let position = whole.ok_or_else(Error::invalid_cursor)?;
            floor = call.later_floor(position.from, query.created_after.is_some());
            position.before
        }
        None => {
            let mut positions = Vec::new();
            for dataset in view.datasets() {
                let head = core.datasets.refresh(dataset).await?;
                positions.push(match query.created_before {
                    Some(at) if at < call.now_ms => first_after(core, &dataset.to_string(), head, at).await?,
                    _ => head + 1,
                });
            }
            positions
        }
    };
    let slices = view.datasets().iter().zip(before).map(|(dataset, before)| LogSlice {
        dataset: dataset.clone(),
        before,
        after: 0,
        from: floor.bound_for(dataset),
    });
    let selection = select(&core.shared, view, &query.filter).await?;
    // Most events in an index match, while perhaps few of a whole log do.
    let page = if selection == Selection::All { query.limit.max(50) * 2 } else { query.limit + 1 };
    let mut reader = Backward::new(&core.shared, selection, slices.collect(), page);
    let mut events = Vec::new();
    for _ in 0..MAX_LOOKED_AT {
        if events.len() == query.limit {
            break;
        }
        // A read that never waits must still yield to other requests.
        tokio::task::coop::consume_budget().await;
        let Some((index, taken)) = reader.next().await? else { break };
        let event = reader.event(index, &taken.entry).filter(|event| query.filter.matches(event));
        events.extend(event);
    }
    let next_cursor = reader.has_more().then(|| {
        let from = query.created_after.map_or(0, |_| floor.carried());
        let position = HistoryPosition { before: reader.positions(), from };
        signer.sign(&name, &position)
    });
    Ok(EventPage { events, next_cursor })
}
