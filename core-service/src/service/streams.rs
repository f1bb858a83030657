//! Opens streams: where one begins, and what lies before that and is not replayed. And reads a log onward, for all
//! connections of an edge or for one that is behind.

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
    history::{Backward, Stretch},
    selection::{Selection, select},
    stream_slots::StreamSlot,
    writer::decode,
};
use crate::{
    convert,
    domain::{dataset::Dataset, window::Floor},
    store::{Consistency, events::Between},
};

/// Most missed events that are replayed.
pub const MOST_REPLAYED: usize = 1_000;
/// Most events not replayed that are counted.
const MOST_COUNTED: i64 = 10_000;
/// Most entries that are looked at to find where a stream begins.
const MOST_LOOKED_AT: usize = 200_000;
/// Entries read at once.
const PAGE: usize = 500;
/// Bytes of entries after which a page of a tail is full: a message is to fit where messages are limited.
const PAGE_BYTES: usize = 1024 * 1024;

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
    let mut live = Vec::new();
    for dataset in view.datasets() {
        live.push(core.datasets.refresh(dataset).await?);
    }
    for (index, after) in cursor.iter().flatten().enumerate() {
        if *after > live[index] {
            // Another replica may be ahead; beyond the log itself nothing was ever issued.
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

/// What a client missed: the matching events after its cursor, up to the present.
struct Missed<'a> {
    core: &'a Core,
    call: &'a Call,
    filter: &'a CompiledFilter,
    after: Vec<u64>,
    live: &'a [u64],
    /// What lies before it has left the history window.
    floor: Floor,
}

/// Missed events that are not replayed.
struct Gap {
    /// The stream begins after these.
    begin: Vec<u64>,
    /// How many they are, as far as they are counted.
    skipped: Option<i64>,
    /// When the newest of them was made, and the oldest one if they were all looked at.
    newest: Option<i64>,
    oldest: Option<i64>,
}

impl Missed<'_> {
    /// Whether the missed events that an index or the distance shows are few and none has left the window.
    async fn are_few(&self, selection: &Selection) -> Result<bool> {
        let mut left = MOST_REPLAYED;
        for (index, dataset) in self.call.caller.view.datasets().iter().enumerate() {
            let (name, after, live) = (dataset.to_string(), self.after[index], self.live[index]);
            let oldest = match selection {
                Selection::All => {
                    let missed = usize::try_from(live - after).unwrap_or(usize::MAX);
                    if missed > left {
                        return Ok(false);
                    }
                    left -= missed;
                    (missed > 0).then_some(after + 1)
                }
                Selection::Scopes(scopes) => {
                    let between = Between { after, before: live + 1 };
                    let found = self.core.shared.events.positions(&name, scopes, between, false, left + 1).await?;
                    if found.len() > left {
                        return Ok(false);
                    }
                    left -= found.len();
                    found.first().copied()
                }
            };
            if let Some(oldest) = oldest
                && let Some(body) = self.core.shared.log.get(&name, oldest).await?
                && decode(body)?.created_at < self.floor.of(dataset)
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The events that are not replayed, if there are any: all but the newest, and those that have left the window.
    async fn gap(&self) -> Result<Option<Gap>> {
        let view = &self.call.caller.view;
        let selection = select(&self.core.shared, view, self.filter).await?;
        if self.are_few(&selection).await? {
            return Ok(None);
        }
        let stretches = view.datasets().iter().enumerate().map(|(index, dataset)| Stretch {
            dataset: dataset.clone(),
            before: self.live[index] + 1,
            after: self.after[index],
            from: i64::MIN,
        });
        let mut reader = Backward::new(self.core, selection, stretches.collect(), PAGE);
        let mut begin: Vec<Option<u64>> = vec![None; self.after.len()];
        let (mut replayed, mut skipped, mut newest, mut oldest) = (0, 0, None, None);
        for _ in 0..MOST_LOOKED_AT {
            if skipped > MOST_COUNTED {
                break;
            }
            tokio::task::coop::consume_budget().await;
            let Some((index, taken)) = reader.next().await? else { break };
            let at = taken.entry.created_at;
            if !reader.event(index, &taken.entry).is_some_and(|event| self.filter.matches(&event)) {
                continue;
            }
            if replayed < MOST_REPLAYED && at >= self.floor.of(&view.datasets()[index]) {
                replayed += 1;
                continue;
            }
            skipped += 1;
            begin[index].get_or_insert(taken.seq);
            newest = newest.or(Some(at));
            oldest = Some(at);
        }
        let all = !reader.has_more();
        // The search may have stopped before it saw everything: then replaying too much is better than a false gap.
        if skipped == 0 {
            return Ok(None);
        }
        // What was not looked at is not replayed either.
        let unseen = reader.positions().into_iter().map(|position| if all { 0 } else { position - 1 });
        let begin = begin.into_iter().zip(unseen).zip(&self.after);
        Ok(Some(Gap {
            begin: begin
                .map(|((skipped, unseen), after)| skipped.unwrap_or_default().max(unseen).max(*after))
                .collect(),
            skipped: (all && skipped <= MOST_COUNTED).then_some(skipped),
            newest,
            oldest: oldest.filter(|_| all),
        }))
    }

    /// The list of what lies in a gap, under `/v1/events`: bounded by its oldest and newest event. What has left the
    /// window is bounded by that alone, since a bound before it is refused.
    async fn path(&self, list: &str, gap: &Gap) -> Result<String> {
        let oldest = match gap.oldest {
            Some(oldest) => oldest,
            None => self.first_unseen().await?,
        };
        let window = self.call.caller.plan.window_start(self.call.now_ms);
        let from = if oldest > window { format!("created_after={}&", format_millis(oldest)) } else { String::new() };
        let to = format_millis(gap.newest.unwrap_or(self.call.now_ms));
        let separator = if list.contains('?') { '&' } else { '?' };
        Ok(format!("{list}{separator}{from}created_before={to}"))
    }

    /// The time of the oldest entry that the client has not seen.
    async fn first_unseen(&self) -> Result<i64> {
        let mut oldest = self.call.now_ms;
        for (dataset, after) in self.call.caller.view.datasets().iter().zip(&self.after) {
            let body = self.core.shared.log.get(&dataset.to_string(), *after + 1).await?;
            oldest = oldest.min(body.map(decode).transpose()?.map_or(i64::MAX, |entry| entry.created_at));
        }
        Ok(oldest)
    }
}

/// Reads the matching events of a dataset after a position, up to what is projected.
///
/// # Errors
/// When the store does not answer.
pub async fn read_on(
    core: &Core,
    dataset: &Dataset,
    filter: &CompiledFilter,
    after: u64,
    upto: u64,
) -> Result<v1::TailResponse> {
    let (name, log) = (dataset.to_string(), &core.shared.log);
    let (rows, whole) = match select(&core.shared, &dataset.counted_with(), filter).await? {
        Selection::All => (log.read(&name, after, upto, PAGE).await?, after),
        Selection::Scopes(scopes) => {
            let between = Between { after, before: upto + 1 };
            let seqs = core.shared.events.positions(&name, &scopes, between, false, PAGE).await?;
            let whole = if seqs.len() < PAGE { upto } else { after };
            (log.get_many(&name, &seqs).await?, whole)
        }
    };
    let (mut events, mut position, mut bytes) = (Vec::new(), after, 0);
    for (seq, body) in rows {
        if bytes >= PAGE_BYTES {
            // The rest is read the next time.
            return Ok(v1::TailResponse { events, position });
        }
        bytes += body.len();
        position = seq;
        let event = convert::entry::event(dataset, &decode(body)?);
        let event = event.filter(|event| filter.matches(event));
        events.extend(event.map(|event| v1::TailEvent { position: seq, event: Some(event) }));
    }
    Ok(v1::TailResponse { events, position: position.max(whole) })
}

#[cfg(test)]
mod tests;
