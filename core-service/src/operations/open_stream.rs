//! Opens a stream: reserves its slot, and finds where a subscription starts.

use thesis_proto::{
    cursor::{CursorEncoder, StreamCursor},
    error::{ApiError, ErrorCode},
    filter::CompiledFilter,
    v1,
};

use self::missed::MissedEvents;
use crate::{
    access::gate::Call,
    error::{Error, Result},
    replicas::stream_slots::StreamSlot,
    service::Core,
    store::Consistency,
};

mod missed;

/// A subscription to open; its shape was checked.
pub struct StreamQuery {
    filter: CompiledFilter,
    /// The path of the list of the same events.
    path: String,
    /// Positions after which it resumes.
    after: Option<Vec<u64>>,
    /// The names of the logs of the view's datasets.
    names: Vec<String>,
}

impl StreamQuery {
    /// Reads the cursor of a subscription.
    ///
    /// # Errors
    /// `INVALID_CURSOR`.
    pub fn read(core: &Core, call: &Call, filter: CompiledFilter, path: String, cursor: Option<&str>) -> Result<Self> {
        let names = core.shared.generation.log_names(&call.caller.view);
        let after = cursor.map(|text| StreamCursor::decode(text, &names).ok_or_else(invalid)).transpose()?;
        Ok(Self { filter, path, after: after.map(|cursor| cursor.positions), names })
    }
}

fn invalid() -> Error {
    ApiError::new(
        ErrorCode::InvalidCursor,
        "this cursor was never issued, or is older than a restore of the service; take the id of an event of a stream, or \
         leave it out",
    )
    .with_param("cursor")
    .into()
}

/// Reserves a slot among the open streams of the project.
///
/// # Errors
/// `STREAM_LIMIT_REACHED`, or when the store does not answer.
pub async fn take_place(core: &Core, call: &Call) -> Result<StreamSlot> {
    core.slots.take_slot(&call.caller.project.id, call.caller.plan.concurrent_streams).await
}

/// Finds where a subscription starts. With `counted`, it also counts the events to replay.
///
/// # Errors
/// `INVALID_CURSOR`, or when the store does not answer.
pub async fn begin(core: &Core, call: &Call, query: StreamQuery, counted: bool) -> Result<v1::OpenResponse> {
    let StreamQuery { filter, path, after, names } = query;
    let mut live = Vec::new();
    for dataset in call.caller.view.datasets() {
        live.push(core.datasets.refresh(dataset).await?);
    }
    for (index, after) in after.iter().flatten().enumerate() {
        if *after > live[index] {
            // Another replica may be ahead, but no cursor points beyond the end of the log.
            let dataset = call.caller.view.datasets()[index].to_string();
            let head = core.shared.log.head(&dataset, *after, Consistency::Serial).await?;
            if *after > head {
                return Err(invalid());
            }
            live[index] = *after;
        }
    }
    let (positions, gap, replayed) = match after {
        None => (live.clone(), None, 0),
        Some(after) => {
            let missed =
                MissedEvents { core, call, filter: &filter, after, live: &live, floor: call.history_floor(None)? };
            let (positions, gap) = match missed.gap().await? {
                None => (missed.after.clone(), None),
                Some(gap) => {
                    let encoder = CursorEncoder::new(&names);
                    let message = v1::StreamGap {
                        first_cursor: encoder.encode(&missed.after),
                        last_cursor: encoder.encode(&gap.begin),
                        skipped: gap.skipped,
                        path: missed.path(&path, &gap).await?,
                    };
                    (gap.begin, Some(message))
                }
            };
            let replayed = if counted { missed.replayed(&positions).await? } else { 0 };
            (positions, gap, replayed)
        }
    };
    let named = |positions: &[u64]| {
        let named = names.iter().zip(positions);
        named.map(|(dataset, at)| v1::DatasetPosition { dataset: dataset.clone(), position: *at }).collect()
    };
    Ok(v1::OpenResponse { positions: named(&positions), live: named(&live), gap, replayed })
}
