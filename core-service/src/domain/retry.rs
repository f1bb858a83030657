//! The retry table of failed delivery attempts.
//!
//! # Recipe: another retry table
//!
//! 1. `DELAYS`, in growing order, and its length. The number of attempts and the range in which queues are read follow.
//!    Assertions limit both: marks and rows must outlast the longest delay (`tables/queue.rs`,
//!    `tables/delivery_buckets.rs`), and `tables/delivery_rows.rs` has bits for at most seven attempts.
//! 2. What tells customers the number, also in words (`six`, `sixth`), the delays and their sum:
//!    `docs/guides/webhook-deliveries.md` (Retries, the delivery's JSON, Replay),
//!    `proto/thesis/v1/webhook_service.proto`, `max_attempts` in `proto/views.json`, `rest-edge/src/openapi/webhooks.rs`,
//!    `rest-edge/src/v1/webhook_deliveries.rs`, `max_attempts` in `rest-edge/examples/`; `CHANGELOG.md`.
//!
//! Deliveries that wait keep the time that they have. During an upgrade an older core gives a delivery up by its own
//! table. A delivery also ends when its webhook is disabled for a day (`Webhook::GRACE_PERIOD_MS`).
//!
//! Tests: below, in `domain/delivery.rs`, in `delivery/dispatch/tests.rs`; `max_attempts` in
//! `tests/system/deliveries.rs`; the snapshot `openapi_schemas` of `proto/src/json`.

use super::window::{HOUR_MS, MINUTE_MS};

/// Milliseconds from each failed attempt to the next. They grow.
const DELAYS: [i64; 5] = [MINUTE_MS, 5 * MINUTE_MS, 30 * MINUTE_MS, 2 * HOUR_MS, 12 * HOUR_MS];
/// Maximum time until the next attempt, in milliseconds.
pub const MAX_DELAY_MS: i64 = DELAYS[DELAYS.len() - 1];

/// Attempts of a delivery.
#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "the table is short")]
pub const MAX_ATTEMPTS: i32 = DELAYS.len() as i32 + 1;

/// Returns the milliseconds from a failed attempt to the next; none after the last.
pub fn delay_after(attempt: i32) -> Option<i64> {
    DELAYS.get(usize::try_from(attempt - 1).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_attempts_by_the_table() {
        let minutes: Vec<_> = (1..=MAX_ATTEMPTS).map(|attempt| delay_after(attempt).map(|ms| ms / MINUTE_MS)).collect();
        assert_eq!(minutes, [Some(1), Some(5), Some(30), Some(120), Some(720), None]);
    }
}
