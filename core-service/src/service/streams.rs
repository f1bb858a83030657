//! Opens streams: what was missed, then the positions at which live begins. And tails: one dataset's events for all
//! connections of an edge.

use thesis_proto::{
    cursor::{CursorEncoder, StreamCursor},
    error::{ApiError, ErrorCode},
    filter::CompiledFilter,
    time::format_millis,
    v1,
};

use super::{
    core::Core,
    error::{Error, Result},
    gate::Call,
    history::Backward,
    stream_slots::StreamSlot,
    writer::decode,
};
use crate::{convert, domain::dataset::Dataset, store::Consistency};

/// Missed events that are replayed at most.
pub const REPLAYED: usize = 1_000;
/// Entries that are read at most to find them.
const READ: usize = 200_000;
/// Entries read at once.
const PAGE: usize = 500;
/// Bytes of entries after which a page of a tail is full: a message is to fit where messages are limited.
const PAGE_BYTES: usize = 1024 * 1024;

/// A stream as it opens.
pub struct Opened {
    /// Its place among the project's open streams.
    pub slot: StreamSlot,
    /// What was missed and cannot be replayed.
    pub gap: Option<v1::StreamGap>,
    /// What was missed and is replayed, oldest first.
    pub replayed: Vec<v1::StreamEvent>,
    /// Where live begins.
    pub live: Vec<v1::DatasetPosition>,
}

/// Opens a stream.
///
/// # Errors
/// `INVALID_CURSOR`, `STREAM_LIMIT_REACHED`, or when the store does not answer.
pub async fn open(
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
    let mut positions = Vec::new();
    for dataset in view.datasets() {
        positions.push(core.datasets.refresh(dataset).await?);
    }
    let mut opened = Opened { slot, gap: None, replayed: Vec::new(), live: Vec::new() };
    if let Some(mut after) = cursor {
        for (index, after) in after.iter_mut().enumerate() {
            if *after > positions[index] {
                // Another replica may be ahead; beyond the log itself nothing was ever issued.
                let head = core.shared.log.head(&names[index], *after, Consistency::Serial).await?;
                if *after > head {
                    return Err(invalid());
                }
                positions[index] = *after;
            }
        }
        replay(core, call, filter, path, &names, &after, &positions, &mut opened).await?;
    }
    opened.live = names
        .into_iter()
        .zip(&positions)
        .map(|(dataset, position)| v1::DatasetPosition { dataset, position: *position })
        .collect();
    Ok(opened)
}

#[expect(clippy::too_many_arguments, reason = "one step of `open`, apart only to be read apart")]
async fn replay(
    core: &Core,
    call: &Call,
    filter: &CompiledFilter,
    path: &str,
    names: &[String],
    after: &[u64],
    positions: &[u64],
    opened: &mut Opened,
) -> Result<()> {
    let before: Vec<u64> = positions.iter().map(|position| position + 1).collect();
    let mut reader = Backward::new(core, &call.caller.view, &before, after, PAGE);
    let floor = call.history_floor(None)?;
    let mut newest_first = Vec::new();
    // Where the replay starts, and whether something before that is skipped.
    let mut frontier = None;
    let mut skipped = false;
    for read in 0.. {
        let full = newest_first.len() == REPLAYED;
        if full && frontier.is_none() {
            frontier = Some(reader.positions());
        }
        if read == READ {
            skipped = true;
            break;
        }
        let Some((index, taken)) = reader.next().await? else { break };
        let Some(event) = reader.event(index, &taken.entry).filter(|event| filter.matches(event)) else {
            continue;
        };
        if full || taken.entry.created_at < floor.of(&call.caller.view.datasets()[index]) {
            skipped = true;
            frontier.get_or_insert_with(|| {
                let mut at = reader.positions();
                at[index] = taken.seq + 1;
                at
            });
            break;
        }
        newest_first.push((index, taken.seq, taken.entry.created_at, event));
    }
    let encoder = CursorEncoder::new(names);
    let mut at = after.to_vec();
    if skipped {
        let start = frontier.unwrap_or_else(|| reader.positions());
        at = start.iter().zip(after).map(|(before, after)| before.saturating_sub(1).max(*after)).collect();
        let until = newest_first.last().map_or(call.now_ms, |(_, _, created_at, _)| *created_at);
        let separator = if path.contains('?') { '&' } else { '?' };
        opened.gap = Some(v1::StreamGap {
            first_cursor: encoder.encode(after),
            last_cursor: encoder.encode(&at),
            path: format!("{path}{separator}created_before={}", format_millis(until)),
        });
    }
    for (index, seq, _, event) in newest_first.into_iter().rev() {
        at[index] = seq;
        opened.replayed.push(v1::StreamEvent { cursor: encoder.encode(&at), event: Some(event) });
    }
    Ok(())
}

/// Reads the events of a dataset after a position, up to what is projected.
///
/// # Errors
/// When the store does not answer.
pub async fn read_on(core: &Core, dataset: &Dataset, after: u64, upto: u64) -> Result<v1::TailResponse> {
    let rows = core.shared.log.read(&dataset.to_string(), after, upto, PAGE).await?;
    let mut answer = v1::TailResponse { events: Vec::new(), position: after };
    let mut bytes = 0;
    for (seq, body) in rows {
        if bytes >= PAGE_BYTES {
            break;
        }
        bytes += body.len();
        answer.position = seq;
        let event = convert::entry::event(dataset, &decode(body)?);
        answer.events.extend(event.map(|event| v1::TailEvent { position: seq, event: Some(event) }));
    }
    Ok(answer)
}
