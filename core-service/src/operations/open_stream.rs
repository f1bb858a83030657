//! Opens a stream: takes its place and finds where it begins.

use thesis_proto::{
    cursor::{CursorEncoder, StreamCursor},
    error::{ApiError, ErrorCode},
    filter::CompiledFilter,
    v1,
};

use self::missed::Missed;
use super::Core;
use crate::{
    access::gate::Call,
    domain::dataset::Dataset,
    error::{Error, Result},
    replicas::stream_slots::StreamSlot,
    store::Consistency,
};

mod missed;

/// A stream as it opens.
pub struct Opened {
    /// Its place among the project's open streams.
    pub slot: StreamSlot,
    /// Where it begins.
    pub begin: v1::StreamBegin,
}

/// Opens a stream.
///
/// # Errors
/// `INVALID_CURSOR`, `STREAM_LIMIT_REACHED`, or when the store does not answer.
pub async fn open_stream(
    core: &Core,
    call: &Call,
    filter: &CompiledFilter,
    path: &str,
    cursor: Option<&str>,
) -> Result<Opened> {
    let view = &call.caller.view;
    let names: Vec<String> = view.datasets().iter().map(Dataset::to_string).collect();
    let invalid =
        || Error::from(ApiError::new(ErrorCode::InvalidCursor, "this cursor was never issued").with_param("cursor"));
    let cursor = match cursor {
        Some(text) => Some(StreamCursor::decode(text, &names).ok_or_else(invalid)?.positions),
        None => None,
    };
    let limit = call.caller.plan.concurrent_streams;
    let slot = core.slots.take(&call.caller.project.id, limit).await?;
    let mut live = Vec::new();
    for dataset in view.datasets() {
        live.push(core.datasets.refresh(dataset).await?);
    }
    for (index, after) in cursor.iter().flatten().enumerate() {
        if *after > live[index] {
            // Another replica may be ahead, but no cursor was ever issued beyond the log's end.
            let head = core.shared.log.head(&names[index], *after, Consistency::Serial).await?;
            if *after > head {
                return Err(invalid());
            }
            live[index] = *after;
        }
    }
    let (positions, gap) = match cursor {
        None => (live.clone(), None),
        Some(after) => {
            let missed = Missed { core, call, filter, after, live: &live, floor: call.history_floor(None)? };
            match missed.gap().await? {
                None => (missed.after, None),
                Some(gap) => {
                    let encoder = CursorEncoder::new(&names);
                    let told = v1::StreamGap {
                        first_cursor: encoder.encode(&missed.after),
                        last_cursor: encoder.encode(&gap.begin),
                        skipped: gap.skipped,
                        path: missed.path(path, &gap).await?,
                    };
                    (gap.begin, Some(told))
                }
            }
        }
    };
    let named = |positions: &[u64]| {
        let named = names.iter().zip(positions);
        named.map(|(dataset, at)| v1::DatasetPosition { dataset: dataset.clone(), position: *at }).collect()
    };
    let begin = v1::StreamBegin { positions: named(&positions), live: named(&live), gap };
    Ok(Opened { slot, begin })
}
