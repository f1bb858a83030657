//! A webhook delivery and its state after an attempt.

use super::{
    id,
    retry::{MAX_ATTEMPTS, delay_after},
    window::DAY_MS,
};

/// A webhook is given up after this many consecutive failures.
const HOPELESS_FAILURES: i64 = 50;
/// These failures must span at least this long, in milliseconds.
const HOPELESS_MS: i64 = DAY_MS;

/// States of a delivery, as numbers of `thesis.v1.DeliveryStatus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Status {
    /// Not tried yet.
    Pending = 1,
    /// The endpoint accepted it.
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
    /// HTTP status, if the endpoint responded.
    #[prost(int32, optional, tag = "3")]
    pub response_status: Option<i32>,
    /// Duration in milliseconds.
    #[prost(int32, tag = "4")]
    pub latency_ms: i32,
    /// Reason for a missing response.
    #[prost(string, optional, tag = "5")]
    pub failure: Option<String>,
}

impl Attempt {
    /// True if the endpoint accepted the event.
    #[must_use]
    pub fn has_succeeded(&self) -> bool {
        self.response_status.is_some_and(|status| (200..300).contains(&status))
    }
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
    /// Time of the next attempt, if there is one.
    #[prost(int64, optional, tag = "9")]
    pub next_attempt_at: Option<i64>,
    /// Unix milliseconds.
    #[prost(int64, tag = "10")]
    pub created_at: i64,
    /// Unix milliseconds.
    #[prost(int64, optional, tag = "11")]
    pub delivered_at: Option<i64>,
    /// The body of a test, or of a replay of one, as JSON, since these refer to no entry of a log. All others have
    /// none.
    #[prost(bytes = "vec", tag = "12")]
    pub body: Vec<u8>,
    /// True for a test send, or a replay of one.
    #[prost(bool, tag = "13")]
    pub is_test: bool,
    /// The first original, when this is a replay.
    #[prost(string, optional, tag = "14")]
    pub replay_of: Option<String>,
    /// Trace and span of the request that caused the event, if its trace is sampled.
    #[prost(bytes = "vec", tag = "15")]
    pub trace: Vec<u8>,
}

/// Reference to the event of a delivery.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EventRef {
    /// The event's id.
    #[prost(string, tag = "1")]
    pub event_id: String,
    /// Number of its type.
    #[prost(int32, tag = "2")]
    pub event_type: i32,
    /// Its dataset; empty for a test, which has its own body.
    #[prost(string, tag = "3")]
    pub dataset: String,
    /// Its sequence number there.
    #[prost(uint64, tag = "4")]
    pub seq: u64,
    /// Trace and span of the request that caused it, if its trace is sampled.
    #[prost(bytes = "vec", tag = "5")]
    pub trace: Vec<u8>,
}

/// Milliseconds in an id take this many characters of 5 bits.
const TIME_CHARS: usize = 10;
/// Characters of an id that distinguish a webhook's deliveries of the same millisecond: 80 bits.
const HASH_CHARS: usize = 16;

/// Derives the id of a webhook's delivery. It contains the webhook and the time, which are the key of its row. Being
/// derived, it makes creating a delivery idempotent.
#[must_use]
pub fn delivery_id(webhook: &str, created_at: i64, parts: &[&str]) -> String {
    let webhook = webhook.strip_prefix("wh_").unwrap_or(webhook);
    let hash = id::derive("", parts);
    format!("del_{webhook}_{}{}", id::number(created_at, TIME_CHARS), &hash[..HASH_CHARS])
}

/// Parses the webhook and the time from a delivery's id; none if the id has another form.
#[must_use]
pub fn parse_delivery_id(delivery: &str) -> Option<(String, i64)> {
    let (webhook, rest) = delivery.strip_prefix("del_")?.rsplit_once('_')?;
    let time = rest.get(..TIME_CHARS).filter(|_| rest.len() == TIME_CHARS + HASH_CHARS)?;
    Some((format!("wh_{webhook}"), id::read_number(time)?))
}

impl Delivery {
    /// Creates a webhook's delivery before its first attempt. Its times are those of its event.
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

    /// Returns the reference to its event.
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

    /// True for a test or a replay, which a client requested. These are sent whatever the webhook's status, and count
    /// in no streak.
    #[must_use]
    pub const fn is_requested(&self) -> bool {
        self.is_test || self.replay_of.is_some()
    }

    /// True if no attempt follows.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.status(), Status::Delivered | Status::Failed)
    }

    /// Number of attempts so far.
    #[must_use]
    pub fn attempt_count(&self) -> i32 {
        i32::try_from(self.attempts.len()).unwrap_or(MAX_ATTEMPTS)
    }

    /// Returns this delivery after one more attempt, which ended at `now_ms`. Any 2xx delivers it, 410 ends it. After
    /// any other result the table gives the next attempt, up to the last.
    #[must_use]
    pub fn after(&self, attempt: Attempt, now_ms: i64) -> Self {
        let mut next = self.clone();
        let (answered, number, succeeded) = (attempt.response_status, attempt.number, attempt.has_succeeded());
        next.attempts.push(attempt);
        next.next_attempt_at = None;
        if succeeded {
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

    /// Returns this delivery given up, whatever the result of its last attempt.
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
    /// Their number, up to the one that gives a webhook up: counting on would only cost a write per failure.
    #[prost(int64, tag = "1")]
    pub failures: i64,
    /// End of the first of them, in unix milliseconds.
    #[prost(int64, tag = "2")]
    pub since: i64,
}

impl Streak {
    /// Returns the streak after one more failure.
    #[must_use]
    pub fn longer(self, now_ms: i64) -> Self {
        let failures = (self.failures + 1).min(HOPELESS_FAILURES);
        Self { failures, since: if self.failures == 0 { now_ms } else { self.since } }
    }

    /// True if its webhook is given up.
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

    #[test]
    fn only_2xx_delivers() {
        for status in [199, 300, 409, 411] {
            let after = Delivery::default().after(attempt(1, Some(status)), 9);
            assert_eq!((after.status(), after.delivered_at), (Status::Retrying, None), "{status}");
            assert_eq!(after.next_attempt_at, Some(9 + 60_000));
        }
    }

    #[test]
    fn a_pending_delivery_has_all_of_its_event() {
        let (event_id, dataset, trace) = ("evt_1".to_owned(), "live".to_owned(), vec![1]);
        let event = EventRef { event_id, event_type: 3, dataset, seq: 7, trace };
        let delivery = Delivery::pending("del_1".to_owned(), "wh_1".to_owned(), 5, event.clone());
        assert_eq!(delivery.event_ref(), event);
        assert_eq!((delivery.id.as_str(), delivery.webhook_id.as_str()), ("del_1", "wh_1"));
        let state = (delivery.status(), delivery.next_attempt_at, delivery.created_at, delivery.attempt_count());
        assert_eq!(state, (Status::Pending, Some(5), 5, 0));
    }

    #[test]
    fn a_delivery_is_over_once_no_attempt_follows() {
        let is_over = |status: Status| Delivery { status: status.into(), ..Delivery::default() }.is_over();
        let states = [Status::Pending, Status::Retrying, Status::Delivered, Status::Failed];
        assert_eq!(states.map(is_over), [false, false, true, true]);
    }

    #[test]
    fn a_test_and_a_replay_are_requested() {
        let is_requested = |is_test: bool, replay_of: Option<&str>| {
            Delivery { is_test, replay_of: replay_of.map(str::to_owned), ..Delivery::default() }.is_requested()
        };
        let requested = [is_requested(false, None), is_requested(true, None), is_requested(false, Some("del_1"))];
        assert_eq!(requested, [false, true, true]);
    }

    #[test]
    fn a_cancelled_delivery_has_failed_whatever_its_last_attempt_was() {
        for status in [200, 500] {
            let cancelled = Delivery::default().after(attempt(1, Some(status)), 9).cancelled();
            let state = (cancelled.status(), cancelled.next_attempt_at, cancelled.delivered_at);
            assert_eq!(state, (Status::Failed, None, None));
            assert_eq!(cancelled.attempt_count(), 1);
        }
    }
}
