//! Finds where a replay of past events starts and ends.
//!
//! The times of a log never decrease, so a binary search finds both. A replay may have any number of events. Its client
//! resumes it with a cursor and the same request, perhaps long after `from` has left the history window. The cursor
//! takes precedence over `from`, and the client gets a gap only if the events after the cursor have left the window
//! too.

use std::ops::RangeInclusive;

use futures::future::try_join_all;
use prost_types::Timestamp;
use thesis_proto::{
    cursor::CursorEncoder,
    filter::CompiledFilter,
    time::{format_millis, from_millis, is_time, to_millis},
    v1,
};

use super::{
    history_path,
    missed::{MAX_COUNTED, MissedEvents},
    named_positions, refuse_beyond,
};
use crate::{
    access::gate::Call,
    domain::{dataset::View, window::Floor},
    error::{Error, Result},
    operations::fields::Fields,
    service::Core,
    tables::log::outline,
};

/// Speeds of a paced replay.
const SPEEDS: RangeInclusive<f64> = 0.1..=3_600.0;

/// The requested part of the past.
pub(super) struct Replay {
    /// The inclusive bounds, in unix milliseconds.
    from: i64,
    to: Option<i64>,
    speed: Option<f64>,
}

impl Replay {
    /// Reads the replay of a request; none if it requests none.
    pub(super) fn read(fields: &mut Fields, message: &v1::OpenRequest, now_ms: i64) -> Option<Self> {
        let v1::OpenRequest { from, to, speed, .. } = message;
        for (name, time, rule) in [
            ("from", from, "must not be in the future"),
            ("to", to, "must not be in the future; leave it out to go on live"),
        ] {
            match time {
                Some(time) if !is_time(time) => fields.reject(name, "must be a time of the years 1 to 9999"),
                Some(time) if to_millis(time) > now_ms => fields.reject(name, rule),
                _ => {}
            }
        }
        for (name, is_given) in [("to", to.is_some()), ("speed", speed.is_some())] {
            if is_given && from.is_none() {
                fields.reject(name, "is for replays; give from, the time at which the replay begins");
            }
        }
        if speed.is_some_and(|speed| !SPEEDS.contains(&speed)) {
            fields.reject("speed", "must be max, or a number from 0.1 to 3600");
        }
        // The lower bound is rounded up, the upper one down.
        let up = |time: &Timestamp| to_millis(time).saturating_add(i64::from(time.nanos % 1_000_000 != 0));
        let replay = Self { from: up(from.as_ref()?), to: to.as_ref().map(to_millis), speed: *speed };
        if replay.to.is_some_and(|to| to < replay.from) {
            fields.reject("to", "must not be earlier than from");
        }
        Some(replay)
    }

    /// Returns the earliest time of its events. Fails with `HISTORY_LIMIT` if `from` is before the history window and
    /// the request has no cursor.
    pub(super) fn floor(&self, call: &Call, has_cursor: bool) -> Result<Floor> {
        call.history_floor((!has_cursor).then_some(self.from))
    }
}

/// Finds where a replay starts and ends.
pub(super) async fn begin_replay(
    core: &Core,
    (call, logs): (&Call, &View),
    message: &v1::OpenRequest,
    (replay, filter): (&Replay, &CompiledFilter),
    after: Option<Vec<u64>>,
    names: &[String],
) -> Result<v1::OpenResponse> {
    let ends = match replay.to {
        Some(to) => find_ends(core, logs, to).await?,
        None => Vec::new(),
    };
    let mut live = try_join_all(logs.datasets().iter().map(|dataset| core.datasets.refresh(dataset))).await?;
    if let Some(after) = &after {
        refuse_beyond(core, logs, after, &mut live).await?;
    }
    let floor = replay.floor(call, after.is_some())?;
    let earliest = logs.datasets().iter().zip(&live).map(|(dataset, live)| {
        // A bound before 1970 has no effect.
        let bound = floor.bound_for(dataset).max(0);
        core.shared.log.last_at(dataset.name(), *live, bound - 1)
    });
    let (mut positions, mut gap) = (try_join_all(earliest).await?, None);
    // If the end itself has left the window, the replay has only a gap: it must send no events after its end.
    positions.iter_mut().zip(&ends).for_each(|(position, end)| *position = (*position).min(*end));
    if let Some(after) = &after {
        gap = find_gap(core, (call, logs), message, filter, (after, &positions), names).await?;
        positions.iter_mut().zip(after).for_each(|(position, after)| *position = (*position).max(*after));
    }
    let is_at_end = |after: &Vec<u64>| after.iter().zip(&ends).all(|(after, end)| after >= end);
    let is_complete = !ends.is_empty() && after.as_ref().is_some_and(is_at_end);
    let start = match after {
        Some(_) => last_time(core, logs, &positions, &ends).await?.max(replay.from),
        None => floor.carried(),
    };
    let begun = v1::StreamReplay {
        start: Some(from_millis(start)),
        opened_at: Some(from_millis(core.shared.clock.now_ms())),
        ends,
        is_complete,
        speed: replay.speed,
    };
    let (positions, live) = (named_positions(names, &positions), named_positions(names, &live));
    Ok(v1::OpenResponse { positions, live, gap, replayed: 0, replay: Some(begun) })
}

/// Finds the last position of each dataset up to `to`. Every replay with this `to` ends there, because the time is
/// closed.
async fn find_ends(core: &Core, logs: &View, to: i64) -> Result<Vec<u64>> {
    let ends = logs.datasets().iter().map(|dataset| async move {
        let projected = core.datasets.close_time(dataset, to).await?;
        Ok::<_, Error>(core.shared.log.last_at(dataset.name(), projected, to).await?)
    });
    try_join_all(ends).await
}

/// Finds the gap: the matching events between a cursor and the earliest positions within the history window.
async fn find_gap(
    core: &Core,
    (call, logs): (&Call, &View),
    message: &v1::OpenRequest,
    filter: &CompiledFilter,
    (after, earliest): (&[u64], &[u64]),
    names: &[String],
) -> Result<Option<v1::StreamGap>> {
    let begin: Vec<u64> = earliest.iter().zip(after).map(|(earliest, after)| *earliest.max(after)).collect();
    if begin == after {
        return Ok(None);
    }
    let missed = MissedEvents { core, call, filter, logs, after: after.to_vec(), live: &begin, floor: Floor::NONE };
    let (skipped, has_scanned_all) = missed.count(after).await?;
    if skipped == 0 && has_scanned_all {
        return Ok(None);
    }
    let (list, encoder) = (history_path(message), CursorEncoder::new(names));
    let separator = if list.contains('?') { '&' } else { '?' };
    let window_start = call.caller.plan.window_start(call.now_ms);
    Ok(Some(v1::StreamGap {
        first_cursor: encoder.encode(after),
        last_cursor: encoder.encode(&begin),
        skipped: (has_scanned_all && skipped <= MAX_COUNTED).then_some(skipped),
        path: format!("{list}{separator}created_before={}", format_millis(window_start)),
    }))
}

/// Returns the time of the newest entry at these positions, or 0 if there is none. It ignores logs at their end: a log
/// without more matching events reaches its end early.
async fn last_time(core: &Core, logs: &View, positions: &[u64], ends: &[u64]) -> Result<i64> {
    let unfinished = logs.datasets().iter().zip(positions).enumerate();
    let unfinished = unfinished.filter(|(index, (_, position))| ends.get(*index).is_none_or(|end| *position < end));
    let reads = unfinished.map(|(_, (dataset, position))| core.shared.log.get(dataset.name(), *position));
    let mut newest = 0;
    for body in try_join_all(reads).await?.into_iter().flatten() {
        newest = newest.max(outline(&body)?.created_at);
    }
    Ok(newest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000_000;

    fn read(from: Option<i64>, to: Option<i64>, speed: Option<f64>) -> (Option<[Option<i64>; 2]>, Vec<String>) {
        let (from, to) = (from.map(from_millis), to.map(from_millis));
        let message = v1::OpenRequest { from, to, speed, ..v1::OpenRequest::default() };
        let mut fields = Fields::default();
        let replay = Replay::read(&mut fields, &message, NOW);
        let wrong = fields.finish().err().map(|error| error.api.field_errors().map(|error| error.param).collect());
        (replay.map(|replay| [Some(replay.from), replay.to]), wrong.unwrap_or_default())
    }

    #[test]
    fn a_request_without_from_is_no_replay() {
        assert_eq!(read(None, None, None), (None, vec![]));
        assert_eq!(read(None, Some(1), Some(1.0)), (None, vec!["to".to_owned(), "speed".to_owned()]));
    }

    #[test]
    fn bounds_lie_in_the_past_and_in_order() {
        assert_eq!(read(Some(5), None, None), (Some([Some(5), None]), vec![]));
        assert_eq!(read(Some(NOW), Some(NOW), None), (Some([Some(NOW), Some(NOW)]), vec![]));
        assert_eq!(read(Some(6), Some(5), None).1, ["to"]);
        assert_eq!(read(Some(NOW + 1), None, None).1, ["from"]);
        assert_eq!(read(Some(5), Some(NOW + 1), None).1, ["to"]);
        assert_eq!(read(Some(i64::MAX / 2), None, None).1, ["from"]);
    }

    #[test]
    fn a_speed_has_its_range() {
        for speed in [0.1, 1.0, 3_600.0] {
            assert_eq!(read(Some(5), None, Some(speed)).1, Vec::<String>::new(), "{speed}");
        }
        for speed in [0.0, -1.0, 0.09, 3_600.5, f64::NAN, f64::INFINITY] {
            assert_eq!(read(Some(5), None, Some(speed)).1, ["speed"], "{speed}");
        }
    }

    #[test]
    fn the_lower_bound_is_rounded_up_and_the_upper_one_down() {
        let time = |nanos| Some(Timestamp { seconds: 1, nanos });
        let message = v1::OpenRequest { from: time(1), to: time(1_999_999), ..v1::OpenRequest::default() };
        let replay = Replay::read(&mut Fields::default(), &message, NOW).unwrap();
        assert_eq!((replay.from, replay.to), (1_001, Some(1_001)));
    }
}
