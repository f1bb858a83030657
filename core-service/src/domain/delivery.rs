//! A webhook delivery and its state after an attempt.

use super::{
    id,
    retry::{MAX_ATTEMPTS, delay_after},
    window::DAY_MS,
};

/// Least failures in a row for which a webhook is given up.
const HOPELESS_FAILURES: i64 = 50;
/// Least time that these failures must span.
const HOPELESS_MS: i64 = DAY_MS;

/// States of a delivery, as numbers of `thesis.v1.DeliveryStatus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Status {
    /// Not tried yet.
    Pending = 1,
    /// The endpoint took it.
    Delivered = 2,
    /// Given up.
    Failed = 3,
    /// Waits for another attempt.
    Retrying = 4,
}

/// One attempt.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Attempt {
    /// From 1.
    #[prost(int32, tag = "1")]
    pub number: i32,
    /// Unix milliseconds.
    #[prost(int64, tag = "2")]
    pub started_at: i64,
    /// HTTP status, when one came.
    #[prost(int32, optional, tag = "3")]
    pub response_status: Option<i32>,
    /// Milliseconds it took.
    #[prost(int32, tag = "4")]
    pub latency_ms: i32,
    /// Why no answer came.
    #[prost(string, optional, tag = "5")]
    pub failure: Option<String>,
}

/// An event on its way to a webhook.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Delivery {
    /// `del_…`; see [`delivery_id`].
    #[prost(string, tag = "1")]
    pub id: String,
    /// The webhook.
    #[prost(string, tag = "2")]
    pub webhook_id: String,
    /// The event's id.
    #[prost(string, tag = "3")]
    pub event_id: String,
    /// Number of its type.
    #[prost(int32, tag = "4")]
    pub event_type: i32,
    /// The event's dataset.
    #[prost(string, tag = "5")]
    pub dataset: String,
    /// The event's sequence number there.
    #[prost(uint64, tag = "6")]
    pub seq: u64,
    /// State.
    #[prost(enumeration = "Status", tag = "7")]
    pub status: i32,
    /// Attempts made, oldest first.
    #[prost(message, repeated, tag = "8")]
    pub attempts: Vec<Attempt>,
    /// When the next attempt is due, while there is one.
    #[prost(int64, optional, tag = "9")]
    pub next_attempt_at: Option<i64>,
    /// Unix milliseconds.
    #[prost(int64, tag = "10")]
    pub created_at: i64,
    /// Unix milliseconds.
    #[prost(int64, optional, tag = "11")]
    pub delivered_at: Option<i64>,
    /// The body of a test or a replay, as JSON; these refer to no entry of a log. Empty for all others.
    #[prost(bytes = "vec", tag = "12")]
    pub body: Vec<u8>,
    /// Whether it is a test send, or a replay of one.
    #[prost(bool, tag = "13")]
    pub is_test: bool,
    /// The first original, when this is a replay.
    #[prost(string, optional, tag = "14")]
    pub replay_of: Option<String>,
    /// Where the request that caused the event stands in its trace, if that is sampled.
    #[prost(bytes = "vec", tag = "15")]
    pub trace: Vec<u8>,
}

/// The event that a delivery tells, as the log row and the first queue row of the delivery name it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EventRef {
    /// The event's id.
    #[prost(string, tag = "1")]
    pub event_id: String,
    /// Number of its type.
    #[prost(int32, tag = "2")]
    pub event_type: i32,
    /// Its dataset; empty for tests and replays, whose own row has everything.
    #[prost(string, tag = "3")]
    pub dataset: String,
    /// Its sequence number there.
    #[prost(uint64, tag = "4")]
    pub seq: u64,
    /// Where the request that caused it stands in its trace, if that is sampled.
    #[prost(bytes = "vec", tag = "5")]
    pub trace: Vec<u8>,
}

/// Milliseconds in an id take this many characters of 5 bits.
const TIME_CHARS: usize = 10;
/// Characters of an id that tell a webhook's deliveries of the same millisecond apart: 80 bits.
const HASH_CHARS: usize = 16;

/// The id of a webhook's delivery: it tells the webhook and the time, so that the log row can be found before there is
/// any other, and is derived, so that making the delivery twice makes it once.
#[must_use]
pub fn delivery_id(webhook: &str, created_at: i64, parts: &[&str]) -> String {
    let webhook = webhook.strip_prefix("wh_").unwrap_or(webhook);
    let hash = id::derive("", parts);
    format!("del_{webhook}_{}{}", id::number(created_at, TIME_CHARS), &hash[..HASH_CHARS])
}

/// The webhook and the time that a delivery's id tells; none if it was made otherwise.
#[must_use]
pub fn parse_delivery_id(delivery: &str) -> Option<(String, i64)> {
    let (webhook, rest) = delivery.strip_prefix("del_")?.rsplit_once('_')?;
    let time = rest.get(..TIME_CHARS).filter(|_| rest.len() == TIME_CHARS + HASH_CHARS)?;
    Some((format!("wh_{webhook}"), id::read_number(time)?))
}

impl Delivery {
    /// A webhook's delivery before its first attempt. Its times are its event's.
    #[must_use]
    pub fn pending(id: String, webhook_id: String, created_at: i64, event: EventRef) -> Self {
        Self {
            id,
            webhook_id,
            event_id: event.event_id,
            event_type: event.event_type,
            dataset: event.dataset,
            seq: event.seq,
            trace: event.trace,
            status: Status::Pending.into(),
            next_attempt_at: Some(created_at),
            created_at,
            ..Self::default()
        }
    }

    /// The event that it tells.
    #[must_use]
    pub fn event_ref(&self) -> EventRef {
        let (dataset, seq) = (self.dataset.clone(), self.seq);
        EventRef {
            event_id: self.event_id.clone(),
            event_type: self.event_type,
            dataset,
            seq,
            trace: self.trace.clone(),
        }
    }

    /// Whether somebody asked for it: a test or a replay. These go out whatever the webhook's status, and count in no
    /// streak.
    #[must_use]
    pub const fn is_requested(&self) -> bool {
        self.is_test || self.replay_of.is_some()
    }

    /// Whether it has a row of its own: from its first attempt on; tests and replays always.
    #[must_use]
    pub const fn has_row(&self) -> bool {
        !self.body.is_empty() || !self.attempts.is_empty()
    }

    /// Whether nothing more will be tried.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.status(), Status::Delivered | Status::Failed)
    }

    /// Attempts made so far.
    #[must_use]
    pub fn attempt_count(&self) -> i32 {
        i32::try_from(self.attempts.len()).unwrap_or(MAX_ATTEMPTS)
    }

    /// This delivery after one more attempt, which ended at `now_ms`. Any 2xx delivers it, 410 ends it; after any other
    /// result it is tried again by the table, up to the sixth attempt.
    #[must_use]
    pub fn after(&self, attempt: Attempt, now_ms: i64) -> Self {
        let mut next = self.clone();
        let answered = attempt.response_status;
        let number = attempt.number;
        next.attempts.push(attempt);
        next.next_attempt_at = None;
        if answered.is_some_and(|status| (200..300).contains(&status)) {
            next.set_status(Status::Delivered);
            next.delivered_at = Some(now_ms);
        } else if answered == Some(410) {
            next.set_status(Status::Failed);
        } else if let Some(delay) = delay_after(number) {
            next.set_status(Status::Retrying);
            next.next_attempt_at = Some(now_ms + delay);
        } else {
            next.set_status(Status::Failed);
        }
        next
    }

    /// This delivery when it is given up, whatever the result of its last attempt.
    #[must_use]
    pub fn cancelled(&self) -> Self {
        let mut next = self.clone();
        next.set_status(Status::Failed);
        next.next_attempt_at = None;
        next.delivered_at = None;
        next
    }
}

/// Failed attempts at a webhook since its last success.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Streak {
    /// How many, up to the number that gives a webhook up: to count on would cost a write per failure for nothing.
    #[prost(int64, tag = "1")]
    pub failures: i64,
    /// When the first of them ended.
    #[prost(int64, tag = "2")]
    pub since: i64,
}

impl Streak {
    /// The streak after one more failure.
    #[must_use]
    pub fn longer(self, now_ms: i64) -> Self {
        let failures = (self.failures + 1).min(HOPELESS_FAILURES);
        Self { failures, since: if self.failures == 0 { now_ms } else { self.since } }
    }

    /// Whether its webhook is given up.
    #[must_use]
    pub const fn is_hopeless(self, now_ms: i64) -> bool {
        self.failures >= HOPELESS_FAILURES && now_ms - self.since >= HOPELESS_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(number: i32, status: Option<i32>) -> Attempt {
        Attempt { number, response_status: status, ..Attempt::default() }
    }

    #[test]
    fn an_id_tells_webhook_and_time() {
        let id = delivery_id("wh_7x_y", 1_780_315_200_123, &["evt_1"]);
        assert_eq!(parse_delivery_id(&id), Some(("wh_7x_y".to_owned(), 1_780_315_200_123)));
        assert_ne!(id, delivery_id("wh_7x_y", 1_780_315_200_123, &["evt_2"]));
        for other in
            ["", "del_", "del_7x", "del_83atr5fdxf22ddvwyw4p6y6g", "del_a_b", "wh_a_00000000000000000000000000"]
        {
            assert_eq!(parse_delivery_id(other), None, "{other}");
        }
    }

    #[test]
    fn any_2xx_delivers() {
        for status in [200, 204, 299] {
            let after = Delivery::default().after(attempt(1, Some(status)), 9);
            assert_eq!((after.status(), after.delivered_at, after.next_attempt_at), (Status::Delivered, Some(9), None));
        }
    }

    #[test]
    fn failures_are_retried_by_the_table_and_given_up_at_the_sixth() {
        let mut delivery = Delivery::default();
        let mut dues = Vec::new();
        for number in 1..=6 {
            delivery = delivery.after(attempt(number, [None, Some(500), Some(301)][number as usize % 3]), 0);
            dues.push(delivery.next_attempt_at);
        }
        assert_eq!(dues, [Some(60_000), Some(300_000), Some(1_800_000), Some(7_200_000), Some(43_200_000), None]);
        assert_eq!(delivery.status(), Status::Failed);
        assert_eq!(delivery.attempt_count(), 6);
    }

    #[test]
    fn gone_ends_a_delivery_at_once() {
        let after = Delivery::default().after(attempt(1, Some(410)), 0);
        assert_eq!((after.status(), after.next_attempt_at), (Status::Failed, None));
    }

    #[test]
    fn fifty_failures_over_a_day_are_hopeless() {
        let of = |failures, every: i64| (0..failures).fold(Streak::default(), |streak, n| streak.longer(1 + n * every));
        let soon = of(60, DAY_MS / 60);
        assert_eq!((soon.failures, soon.since), (50, 1));
        assert!(!soon.is_hopeless(DAY_MS) && soon.is_hopeless(1 + DAY_MS));
        assert!(!of(49, DAY_MS).is_hopeless(50 * DAY_MS) && of(50, DAY_MS).is_hopeless(50 * DAY_MS));
    }
}
