//! What an operator is told of the feed and the look-ups.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use thesis_net::metric::seconds;
use thesis_proto::{time::from_millis, v1};

use super::{objects::Refusal, pace::Breaker};
use crate::figures::{CONNECTED, FEED_LAG, FRAMES, LOOKUPS, UPSTREAM_REFUSED};

/// Longest time without a byte in which the feed counts as up, in milliseconds.
pub const SILENCE_MS: i64 = 30_000;

#[derive(Default)]
struct Seen {
    connected: bool,
    received_at: i64,
    last_frame_at: Option<i64>,
    position: Option<String>,
    lag_ms: Option<i64>,
    last_error: Option<String>,
    frames: BTreeMap<&'static str, u64>,
    refused: BTreeMap<&'static str, u64>,
    look_ups: v1::LookUps,
}

/// Counts since the start of this core, and the state of the feed.
#[derive(Default)]
pub struct Status(Mutex<Seen>);

impl Status {
    pub(super) fn connected(&self, connected: bool) {
        self.0.lock().connected = connected;
        CONNECTED.one().set(f64::from(u8::from(connected)));
        if !connected {
            // Another core may follow from now on, and this one no longer knows.
            FEED_LAG.one().set(0.0);
        }
    }

    /// Something came, at `now_ms`.
    pub(super) fn heard(&self, now_ms: i64) {
        self.0.lock().received_at = now_ms;
    }

    pub(super) fn frame(&self, kind: &'static str, now_ms: i64) {
        let mut seen = self.0.lock();
        *seen.frames.entry(kind).or_default() += 1;
        seen.last_frame_at = Some(now_ms);
        FRAMES.at(kind).increment(1);
    }

    pub(super) fn refused(&self, refusal: Refusal) {
        *self.0.lock().refused.entry(refusal.kind()).or_default() += 1;
        UPSTREAM_REFUSED.at(refusal.kind()).increment(1);
        tracing::debug!(%refusal, "something of the upstream was refused");
    }

    /// The feed was taken in up to here, `lag_ms` after the upstream's time.
    pub(super) fn taken(&self, position: Option<&str>, lag_ms: Option<i64>) {
        let mut seen = self.0.lock();
        if let Some(position) = position {
            seen.position = Some(position.to_owned());
        }
        if let Some(lag_ms) = lag_ms {
            seen.lag_ms = Some(lag_ms);
            FEED_LAG.one().set(seconds(lag_ms));
        }
    }

    pub(super) fn failed(&self, what: &str, why: &str) {
        tracing::warn!(why, "{what} failed");
        self.0.lock().last_error = Some(format!("{what}: {why}"));
    }

    pub(super) fn lookup(&self, count: impl FnOnce(&mut v1::LookUps), outcome: &'static str) {
        count(&mut self.0.lock().look_ups);
        LOOKUPS.at(outcome).increment(1);
    }

    /// Whether the feed is up, and when its last frame came.
    pub(super) fn feed(&self, now_ms: i64) -> (bool, Option<i64>) {
        let seen = self.0.lock();
        (seen.connected && now_ms - seen.received_at < SILENCE_MS, seen.last_frame_at)
    }

    /// All of it, as an operator is told.
    pub(super) fn tell(&self, breaker: Breaker, now_ms: i64) -> v1::IngestStatus {
        let (is_up, _) = self.feed(now_ms);
        let seen = self.0.lock();
        let counts = |counts: &BTreeMap<&'static str, u64>| {
            counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        v1::IngestStatus {
            state: if is_up { v1::IngestState::Up } else { v1::IngestState::Down }.into(),
            position: seen.position.clone(),
            last_frame_at: seen.last_frame_at.map(from_millis),
            lag_ms: seen.lag_ms,
            last_error: seen.last_error.clone(),
            breaker: match breaker {
                Breaker::Closed => v1::Breaker::Closed,
                Breaker::Open => v1::Breaker::Open,
                Breaker::HalfOpen => v1::Breaker::HalfOpen,
            }
            .into(),
            frames: counts(&seen.frames),
            refused: counts(&seen.refused),
            look_ups: Some(seen.look_ups),
        }
    }
}
