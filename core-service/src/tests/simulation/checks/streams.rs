//! Each stream has every event once and in order, across its connections.

use std::collections::HashMap;

/// An event of a log.
#[derive(Debug)]
pub(in crate::tests::simulation) struct LoggedEvent {
    pub(in crate::tests::simulation) id: String,
    /// The place of the request that caused it; none if a core derived it.
    pub(in crate::tests::simulation) requested: Option<usize>,
}

/// A message of a stream.
#[derive(Debug)]
pub(in crate::tests::simulation) enum Message {
    /// The first message of a connection, at this place in the history.
    Opened(usize),
    Event(String),
    /// Events were skipped.
    Gap(i64),
}

/// The end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tests::simulation) enum End {
    /// It was open until nothing more happened.
    Open,
    /// It ended at some time.
    Early,
}

/// Checks the messages of a stream against the events of its logs. A stream begins at the present: it may have events
/// of earlier requests, and must have those of later ones.
pub(in crate::tests::simulation) fn check(
    logs: &[Vec<LoggedEvent>],
    messages: &[Message],
    end: End,
) -> Result<(), String> {
    let mut places = HashMap::new();
    for (log, events) in logs.iter().enumerate() {
        places.extend(events.iter().enumerate().map(|(place, event)| (event.id.as_str(), (log, place))));
    }
    let Some(mut began) = messages.iter().find_map(|message| match message {
        Message::Opened(at) => Some(*at),
        _ => None,
    }) else {
        return if end == End::Open { Err("it was never open".to_owned()) } else { Ok(()) };
    };
    let must_have = |event: &LoggedEvent, began: usize| event.requested.is_some_and(|requested| requested > began);
    let mut opened = began;
    // The place of the next event in each log; none before the first event.
    let mut next: Vec<Option<usize>> = logs.iter().map(|_| None).collect();
    for message in messages {
        match message {
            Message::Opened(at) => opened = *at,
            Message::Event(id) => {
                let (log, place) = *places.get(id.as_str()).ok_or_else(|| format!("{id} is in no log"))?;
                let expected = next[log];
                let missed = match expected {
                    Some(expected) if place < expected => return Err(format!("{id} came twice, or too late")),
                    Some(expected) => logs[log].get(expected..place).and_then(<[_]>::first),
                    None => logs[log][..place].iter().find(|event| must_have(event, began)),
                };
                if let Some(missed) = missed {
                    return Err(format!("{} did not come before {id}", missed.id));
                }
                next[log] = Some(place + 1);
            }
            // Only the first log grows by itself, so all skipped events are there.
            Message::Gap(skipped) => {
                let skipped = usize::try_from(*skipped).map_err(|_| format!("a gap of {skipped}"))?;
                match next[0] {
                    Some(place) => next[0] = Some(place + skipped),
                    // Nothing shows where it begins. It ends before the events of later requests.
                    None => began = opened,
                }
            }
        }
    }
    for (events, next) in logs.iter().zip(next) {
        let missed = match next {
            Some(next) => events.get(next..).ok_or("a gap of more events than there are")?.first(),
            None => events.iter().find(|event| must_have(event, began)),
        };
        if let (Some(missed), End::Open) = (missed, end) {
            return Err(format!("{} did not come", missed.id));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(ids: &[&str], first: usize) -> Vec<LoggedEvent> {
        let event = |(place, id): (usize, &&str)| LoggedEvent { id: (*id).to_owned(), requested: Some(first + place) };
        ids.iter().enumerate().map(event).collect()
    }

    fn messages(events: &[&str]) -> Vec<Message> {
        let events = events.iter().map(|id| Message::Event((*id).to_owned()));
        [Message::Opened(2)].into_iter().chain(events).collect()
    }

    /// Checks a stream of a log with four events. The last two are requested after its beginning.
    fn judge(events: &[&str]) -> Result<(), String> {
        check(&[log(&["a", "b", "c", "d"], 1)], &messages(events), End::Open)
    }

    #[test]
    fn a_stream_has_the_log_from_the_present_on() {
        for begin in [&["c", "d"][..], &["b", "c", "d"], &["a", "b", "c", "d"]] {
            assert_eq!(judge(begin), Ok(()));
        }
    }

    #[test]
    fn events_that_miss_come_twice_or_in_another_order_are_found() {
        for wrong in [&["d"][..], &["c"], &[], &["b", "d"], &["c", "d", "d"], &["c", "d", "c"], &["d", "c"], &["x"]] {
            judge(wrong).unwrap_err();
        }
    }

    #[test]
    fn a_stream_that_ended_early_has_no_hole_either() {
        let logs = [log(&["a", "b", "c", "d"], 1)];
        assert_eq!(check(&logs, &messages(&["b", "c"]), End::Early), Ok(()));
        check(&logs, &messages(&["b", "d"]), End::Early).unwrap_err();
        assert_eq!(check(&logs, &[], End::Early), Ok(()));
        check(&logs, &[], End::Open).unwrap_err();
    }

    #[test]
    fn the_number_of_skipped_events_is_right() {
        let logs = [log(&["a", "b", "c", "d"], 1)];
        let skipping = |skipped| {
            let (a, d) = (Message::Event("a".to_owned()), Message::Event("d".to_owned()));
            check(&logs, &[Message::Opened(0), a, Message::Gap(skipped), d], End::Open)
        };
        assert_eq!(skipping(2), Ok(()));
        for wrong in [-1, 0, 1, 3, 9] {
            skipping(wrong).unwrap_err();
        }
    }

    #[test]
    fn a_gap_before_the_first_event_ends_with_the_connection() {
        let logs = [log(&["a", "b", "c", "d"], 1)];
        let after_gap = |opened, events: &[&str]| {
            let gap = [Message::Opened(0), Message::Opened(opened), Message::Gap(2)];
            let events = events.iter().map(|id| Message::Event((*id).to_owned()));
            check(&logs, &gap.into_iter().chain(events).collect::<Vec<_>>(), End::Open)
        };
        assert_eq!(after_gap(2, &["c", "d"]), Ok(()));
        after_gap(2, &["d"]).unwrap_err();
        after_gap(2, &[]).unwrap_err();
    }

    #[test]
    fn each_log_has_its_own_order() {
        let logs = [log(&["a", "b"], 3), log(&["x", "y"], 3)];
        assert_eq!(check(&logs, &messages(&["x", "a", "b", "y"]), End::Open), Ok(()));
        check(&logs, &messages(&["y", "a", "b", "x"]), End::Open).unwrap_err();
        check(&logs, &messages(&["a", "b"]), End::Open).unwrap_err();
    }
}
