//! The state of the feed and the lookups for operators.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use thesis_net::metric::seconds;
use thesis_proto::{time::from_millis, v1};

use super::{objects::Refusal, pace::Breaker};
use crate::metrics::{CONNECTED, FEED_LAG, FRAMES, LOOKUPS, UPSTREAM_REFUSED};

/// Time without a byte from which the feed counts as down, in milliseconds.
pub const SILENCE_MS: i64 = 30_000;

#[derive(Default)]
struct FeedCounts {
    connected: bool,
    received_at: i64,
    last_frame_at: Option<i64>,
    position: Option<String>,
    lag_ms: Option<i64>,
    last_error: Option<String>,
    frames: BTreeMap<&'static str, u64>,
    refused: BTreeMap<&'static str, u64>,
    lookups: v1::LookUps,
}

/// Counts since the start of this core, and the state of the feed.
#[derive(Default)]
pub struct Status(Mutex<FeedCounts>);

impl Status {
    pub(super) fn set_connected(&self, connected: bool) {
        self.0.lock().connected = connected;
        CONNECTED.one().set(f64::from(u8::from(connected)));
        if !connected {
            // Another core may follow the feed from now on, and this one no longer knows the lag.
            FEED_LAG.one().set(0.0);
        }
    }

    /// Notes bytes of the feed at `now_ms`.
    pub(super) fn received(&self, now_ms: i64) {
        self.0.lock().received_at = now_ms;
    }

    pub(super) fn count_frame(&self, kind: &'static str, now_ms: i64) {
        let mut state = self.0.lock();
        *state.frames.entry(kind).or_default() += 1;
        state.last_frame_at = Some(now_ms);
        FRAMES.at(kind).increment(1);
    }

    pub(super) fn count_refused(&self, refusal: Refusal) {
        *self.0.lock().refused.entry(refusal.kind()).or_default() += 1;
        UPSTREAM_REFUSED.at(refusal.kind()).increment(1);
        tracing::debug!(%refusal, "something of the upstream was refused");
    }

    /// Notes that the feed is applied up to a position, `lag_ms` after the upstream's time.
    pub(super) fn applied_up_to(&self, position: Option<&str>, lag_ms: Option<i64>) {
        let mut state = self.0.lock();
        if let Some(position) = position {
            state.position = Some(position.to_owned());
        }
        if let Some(lag_ms) = lag_ms {
            state.lag_ms = Some(lag_ms);
            FEED_LAG.one().set(seconds(lag_ms));
        }
    }

    pub(super) fn failed(&self, what: &str, why: &str) {
        tracing::warn!(why, "{what} failed");
        self.0.lock().last_error = Some(format!("{what}: {why}"));
    }

    pub(super) fn count_lookup(&self, count: impl FnOnce(&mut v1::LookUps), outcome: &'static str) {
        count(&mut self.0.lock().lookups);
        LOOKUPS.at(outcome).increment(1);
    }

    /// The state of the feed: whether it is up, and the time of its last frame.
    pub(super) fn feed(&self, now_ms: i64) -> (bool, Option<i64>) {
        let state = self.0.lock();
        (state.connected && now_ms - state.received_at < SILENCE_MS, state.last_frame_at)
    }

    /// The state and the counts as a message for operators.
    pub(super) fn to_message(&self, breaker: Breaker, now_ms: i64) -> v1::IngestStatus {
        let (is_up, _) = self.feed(now_ms);
        let state = self.0.lock();
        let counts = |counts: &BTreeMap<&'static str, u64>| {
            counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        v1::IngestStatus {
            state: if is_up { v1::IngestState::Up } else { v1::IngestState::Down }.into(),
            position: state.position.clone(),
            last_frame_at: state.last_frame_at.map(from_millis),
            lag_ms: state.lag_ms,
            last_error: state.last_error.clone(),
            breaker: match breaker {
                Breaker::Closed => v1::Breaker::Closed,
                Breaker::Open => v1::Breaker::Open,
                Breaker::HalfOpen => v1::Breaker::HalfOpen,
            }
            .into(),
            frames: counts(&state.frames),
            refused: counts(&state.refused),
            look_ups: Some(state.lookups),
        }
    }
}
