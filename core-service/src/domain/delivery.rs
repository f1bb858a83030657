//! A webhook delivery and its state after an attempt.

use super::{
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
    /// `del_…`, derived from event and webhook.
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
}

impl Delivery {
    /// Whether nothing more will be tried.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.status(), Status::Delivered | Status::Failed)
    }

    /// Attempts made so far.
    #[must_use]
    pub fn attempts_made(&self) -> i32 {
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
        assert_eq!(delivery.attempts_made(), 6);
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
