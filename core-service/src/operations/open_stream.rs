//! Opens a stream, adds a subscription to one, or both: reserves the slot, and finds where the subscription starts.
//! Fails with `INVALID_CURSOR`, `STREAM_LIMIT_REACHED`, or `INVALID_API_KEY` if another connection has just used the
//! ticket.

use std::sync::Arc;

use futures::future::try_join_all;
use thesis_proto::{
    cursor::CursorEncoder,
    error::{ApiError, ErrorCode},
    filter::CompiledFilter,
    names::event_type_name,
    v1::{self, OpenKind},
};
use url::form_urlencoded;

use self::{
    missed::MissedEvents,
    replay::{Replay, begin_replay},
    resume::read_cursor,
};
use super::{
    fields::{CURSOR, Fields},
    stream_tickets::{FoundTicket, use_ticket},
};
use crate::{
    access::{gate::Call, open_streams::HeldStream},
    domain::dataset::View,
    error::{Error, Result},
    log::selection::has_types,
    service::Core,
    store::Consistency,
};

mod missed;
mod replay;
mod resume;
#[cfg(test)]
mod tests;

/// Maximum number of entries between a cursor and a position of the last second. A stream that is further behind, and
/// one whose missed events are counted, needs the present position.
const MAX_DISTANCE: u64 = 500;

pub async fn open_stream(
    core: &Arc<Core>,
    call: &Call,
    message: v1::OpenRequest,
    ticket: Option<FoundTicket>,
) -> Result<v1::OpenResponse> {
    let mut fields = Fields::default();
    // Field names of the transports.
    let added = message.kind() == OpenKind::Subscription;
    let (prefix, cursor) = if added { ("filters.", "cursor") } else { ("", "from_cursor") };
    let filter = fields.filter(&message.types, message.filters.as_ref(), prefix);
    fields.optional_length(cursor, message.cursor.as_deref(), CURSOR);
    let replay = Replay::read(&mut fields, &message, call.now_ms);
    fields.finish()?;
    call.charge().await?;
    let logs = call.logs_for(&filter);
    let names = core.shared.generation.log_names(&logs);
    let after = match message.cursor.as_deref() {
        Some(cursor) => Some(read_cursor(core, call, &logs, cursor).await?),
        None => None,
    };
    if let Some(replay) = &replay {
        // This check comes before the request takes a slot.
        replay.floor(call, after.is_some())?;
    }
    let held = match message.kind() {
        OpenKind::Subscription | OpenKind::Check => None,
        OpenKind::Unspecified | OpenKind::Place => Some(HeldStream {
            key_id: call.caller.key_id().into(),
            expires_at: call.caller.key.expires_at,
            slot: core.slots.take_slot(&call.caller.stream_name(), call.caller.plan.concurrent_streams).await?,
            ticket: ticket.as_ref().map(|ticket| ticket.hash.clone()),
        }),
    };
    let begun = match (message.kind(), &replay) {
        (OpenKind::Place | OpenKind::Check, _) => v1::OpenResponse::default(),
        (_, None) => begin(core, (call, &logs), &message, &filter, after, &names).await?,
        (_, Some(replay)) => {
            let (name, streams) = (call.caller.stream_name(), call.caller.plan.concurrent_streams);
            let slot = core.slots.take_replay_slot(&name, streams).await?;
            let begun = begin_replay(core, (call, &logs), &message, (replay, &filter), after, &names).await?;
            let added = core.open_streams.add_replay(&message.session, message.replay, slot);
            added.map_err(|_| Error::from(ApiError::unavailable()))?;
            begun
        }
    };
    if let Some(held) = held {
        let is_ticketed = ticket.is_some();
        let adding = add(Arc::clone(core), message.session, message.stream, ticket, held);
        if is_ticketed {
            // A used ticket needs the stream or its closing, although the caller may give up.
            core.run_to_end(adding).await?;
        } else {
            adding.await?;
        }
    }
    Ok(begun)
}

/// Uses the ticket of a stream, if it has one, and adds the stream to its session.
async fn add(
    core: Arc<Core>,
    session: String,
    stream: u64,
    ticket: Option<FoundTicket>,
    held: HeldStream,
) -> Result<()> {
    let hash = held.ticket.clone();
    let adding = async {
        if let Some(ticket) = ticket
            && !use_ticket(&core, ticket, &session, stream).await?
        {
            return Err(Error::new(
                ErrorCode::InvalidApiKey,
                "another connection has just used this ticket; make another one with POST /v1/stream/tickets",
            ));
        }
        core.open_streams.add(&session, stream, held).map_err(|_| Error::from(ApiError::unavailable()))
    };
    let added = adding.await;
    if let (Err(_), Some(hash)) = (&added, hash) {
        // The ticket may name this stream, even if its write failed.
        core.open_streams.add_closing(hash, (session.as_str().into(), stream));
    }
    added
}

fn invalid_cursor() -> Error {
    ApiError::new(
        ErrorCode::InvalidCursor,
        "this cursor was never issued, or is older than a restore of the service; take the id of an event of a stream, or \
         leave it out",
    )
    .with_param("cursor")
    .into()
}

/// The path of the list of the same events, under `/v1/events`.
fn history_path(message: &v1::OpenRequest) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    let types: Vec<&str> = message.types().map(event_type_name).collect();
    let filters = message.filters.clone().unwrap_or_default();
    for (name, values) in [
        ("types", types.join(",")),
        ("token", filters.token.join(",")),
        ("handle", filters.handle.join(",")),
        ("chain", filters.chain.join(",")),
    ] {
        if !values.is_empty() {
            query.append_pair(name, &values);
        }
    }
    for text in &filters.text {
        query.append_pair("text", text);
    }
    let query = query.finish();
    if query.is_empty() { "/v1/events".to_owned() } else { format!("/v1/events?{query}") }
}

/// Finds where a subscription starts. For one that is added to a stream, it also counts the events to replay.
async fn begin(
    core: &Core,
    (call, logs): (&Call, &View),
    message: &v1::OpenRequest,
    filter: &CompiledFilter,
    mut after: Option<Vec<u64>>,
    names: &[String],
) -> Result<v1::OpenResponse> {
    let resumed = after.as_ref().filter(|_| message.kind() != OpenKind::Subscription);
    let reads = logs.datasets().iter().enumerate().map(|(index, dataset)| async move {
        match resumed.and_then(|after| after.get(index)) {
            // Many streams resume at once when an edge or a core ends.
            Some(after) => core.datasets.recent_position(dataset, *after, MAX_DISTANCE).await,
            None => core.datasets.refresh(dataset).await,
        }
    });
    let mut live = try_join_all(reads).await?;
    if let Some(after) = &mut after {
        refuse_beyond(core, logs, after, &mut live).await?;
        for ((dataset, after), live) in logs.datasets().iter().zip(after).zip(&live) {
            if !has_types(dataset, filter) {
                *after = *live;
            }
        }
    }
    let (mut positions, mut gap, mut replayed) = (live.clone(), None, 0);
    if let Some(after) = after {
        let missed = MissedEvents { core, call, filter, logs, after, live: &live, floor: call.history_floor(None)? };
        positions.clone_from(&missed.after);
        if let Some(found) = missed.gap().await? {
            let encoder = CursorEncoder::new(names);
            gap = Some(v1::StreamGap {
                first_cursor: encoder.encode(&missed.after),
                last_cursor: encoder.encode(&found.begin),
                skipped: found.skipped,
                path: missed.path(&history_path(message), &found).await?,
            });
            positions = found.begin;
        }
        if message.kind() == OpenKind::Subscription {
            (replayed, _) = missed.count(&positions).await?;
        }
    }
    let (positions, live) = (named_positions(names, &positions), named_positions(names, &live));
    Ok(v1::OpenResponse { positions, live, gap, replayed, replay: None })
}

/// Refuses a cursor beyond the end of a log. Other replicas may be ahead of the `live` positions. Then this moves
/// `live` up to the cursor.
async fn refuse_beyond(core: &Core, logs: &View, after: &[u64], live: &mut [u64]) -> Result<()> {
    for ((dataset, after), live) in logs.datasets().iter().zip(after).zip(live) {
        if *after > *live {
            let head = core.shared.log.head(dataset.name(), *after, Consistency::Serial).await?;
            if *after > head {
                return Err(invalid_cursor());
            }
            *live = *after;
        }
    }
    Ok(())
}

/// Returns positions with the names of their logs.
fn named_positions(names: &[String], positions: &[u64]) -> Vec<v1::DatasetPosition> {
    let named = names.iter().zip(positions);
    named.map(|(dataset, at)| v1::DatasetPosition { dataset: dataset.clone(), position: *at }).collect()
}
