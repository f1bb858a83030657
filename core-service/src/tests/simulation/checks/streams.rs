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
    let mut gaps = Gaps::new(logs.len());
    for message in messages {
        match message {
            Message::Opened(at) => opened = *at,
            Message::Event(id) => {
                let (log, place) = *places.get(id.as_str()).ok_or_else(|| format!("{id} is in no log"))?;
                let missed = match next[log] {
                    Some(expected) if place < expected => return Err(format!("{id} came twice, or too late")),
                    Some(expected) => gaps.take(log, &logs[log][expected..place])?,
                    None => logs[log][..place].iter().find(|event| must_have(event, began)),
                };
                if let Some(missed) = missed {
                    return Err(format!("{} did not come before {id}", missed.id));
                }
                (next[log], gaps.may_skip[log]) = (Some(place + 1), false);
            }
            Message::Gap(skipped) => {
                gaps.add(*skipped)?;
                if next.contains(&None) {
                    // Nothing shows where the gap begins. It ends before the events of later requests.
                    (began, gaps.are_exact) = (opened, false);
                }
            }
        }
    }
    if end == End::Early {
        return Ok(());
    }
    for (log, events) in logs.iter().enumerate() {
        let missed = match next[log] {
            Some(next) => gaps.take(log, &events[next..])?,
            None => events.iter().find(|event| must_have(event, began)),
        };
        if let Some(missed) = missed {
            return Err(format!("{} did not come", missed.id));
        }
    }
    if gaps.are_exact && gaps.left > 0 {
        return Err(format!("the gaps have {} events too many", gaps.left));
    }
    Ok(())
}

/// The gaps of a stream. A gap names the number of its events, and not how they are divided between the logs.
struct Gaps {
    /// The events of all gaps that are not found yet.
    left: usize,
    /// By log, whether it has had no event since the last gap.
    may_skip: Vec<bool>,
    are_exact: bool,
}

impl Gaps {
    fn new(logs: usize) -> Self {
        Self { left: 0, may_skip: vec![false; logs], are_exact: true }
    }

    fn add(&mut self, skipped: i64) -> Result<(), String> {
        self.left += usize::try_from(skipped).map_err(|_| format!("a gap of {skipped}"))?;
        self.may_skip.fill(true);
        Ok(())
    }

    /// Takes events of a log that did not come. Returns the first one if no gap has them.
    fn take<'e>(&mut self, log: usize, missed: &'e [LoggedEvent]) -> Result<Option<&'e LoggedEvent>, String> {
        if !self.may_skip[log] {
            return Ok(missed.first());
        }
        self.left = self.left.checked_sub(missed.len()).ok_or("more events are skipped than the gaps have")?;
        Ok(None)
    }
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
    fn a_gap_may_be_in_several_logs() {
        let logs = [log(&["a", "b", "c"], 3), log(&["x", "y", "z"], 3)];
        let skipping = |skipped| {
            let [a, x, c, z] = ["a", "x", "c", "z"].map(|id| Message::Event(id.to_owned()));
            check(&logs, &[Message::Opened(0), a, x, Message::Gap(skipped), c, z], End::Open)
        };
        assert_eq!(skipping(2), Ok(()));
        for wrong in [0, 1, 3] {
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
