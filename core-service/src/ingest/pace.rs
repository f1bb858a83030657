//! The budget of lookups: a bucket, a circuit breaker, and the pauses that the upstream requests.

#[cfg(test)]
mod tests;

/// Number of failures in a row that opens the breaker.
const MAX_FAILURES: u32 = 5;
/// Time without lookups after the breaker has opened, in milliseconds.
const OPEN_MS: i64 = 5_000;
/// Time limit for the result of the trial lookup that follows, in milliseconds. Its caller may be gone.
const TRIAL_MS: i64 = 10_000;
/// Maximum pause that the upstream may request: an hour, in milliseconds.
const MAX_PAUSE_MS: i64 = 3_600_000;
/// Parts of a token. At one lookup a second, the bucket gains one part in a millisecond.
const TOKEN_PARTS: i64 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupPurpose {
    /// A request waits for the lookup.
    OnDemand,
    /// No request waits. A quarter of the bucket stays free for on-demand lookups.
    Backfill,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The lookup may be made. Its result must be noted.
    Go,
    Spent {
        /// Milliseconds until the next token.
        ms: i64,
    },
    /// The breaker or the upstream holds lookups back.
    Held {
        /// Milliseconds until the next try.
        ms: i64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breaker {
    Closed,
    Open,
    /// One trial lookup is made.
    HalfOpen,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Closed { failures: u32 },
    Open { until: i64 },
    Trying { since: i64 },
}

/// The budget of lookups for the whole installation. Times are in unix milliseconds. A clock that goes back costs at
/// most one pause.
#[derive(Debug)]
pub struct Pace {
    rps: i64,
    /// Parts of tokens in the bucket.
    level: i64,
    filled_at: i64,
    state: State,
    paused_until: i64,
}

impl Pace {
    /// Creates a full bucket for `rps` lookups a second, at least one.
    pub fn new(rps: u32, now_ms: i64) -> Self {
        let rps = i64::from(rps.max(1));
        Self {
            rps,
            level: rps * TOKEN_PARTS,
            filled_at: now_ms,
            state: State::Closed { failures: 0 },
            paused_until: i64::MIN,
        }
    }

    pub fn admit(&mut self, purpose: LookupPurpose, now_ms: i64) -> Admission {
        self.fill(now_ms);
        let held = self.held(now_ms);
        if held > 0 {
            return Admission::Held { ms: held };
        }
        let left = match purpose {
            LookupPurpose::OnDemand => 0,
            LookupPurpose::Backfill => self.rps / 4 * TOKEN_PARTS,
        };
        let missing = left + TOKEN_PARTS - self.level;
        if missing > 0 {
            return Admission::Spent { ms: (missing + self.rps - 1) / self.rps };
        }
        self.level -= TOKEN_PARTS;
        if !matches!(self.state, State::Closed { .. }) {
            self.state = State::Trying { since: now_ms };
        }
        Admission::Go
    }

    /// Notes a lookup with a result; "not found" is a result.
    pub fn succeeded(&mut self, _now_ms: i64) {
        // The result of an earlier lookup does not close the breaker: a trial comes first.
        if !matches!(self.state, State::Open { .. }) {
            self.state = State::Closed { failures: 0 };
        }
    }

    /// Notes a failed lookup, and the pause that the upstream requests.
    pub fn failed(&mut self, retry_after_s: Option<u64>, now_ms: i64) {
        if let Some(seconds) = retry_after_s {
            let ms = i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX).min(MAX_PAUSE_MS);
            self.paused_until = self.paused_until.max(now_ms.saturating_add(ms));
        }
        let open = State::Open { until: now_ms.saturating_add(OPEN_MS) };
        self.state = match self.state {
            State::Closed { failures } if failures + 1 < MAX_FAILURES => State::Closed { failures: failures + 1 },
            State::Closed { .. } | State::Trying { .. } => open,
            // This was an earlier lookup.
            State::Open { until } => State::Open { until },
        };
    }

    pub const fn breaker(&self, now_ms: i64) -> Breaker {
        match self.state {
            State::Closed { .. } => Breaker::Closed,
            State::Open { until } if now_ms < until => Breaker::Open,
            State::Open { .. } | State::Trying { .. } => Breaker::HalfOpen,
        }
    }

    fn fill(&mut self, now_ms: i64) {
        let passed = now_ms.saturating_sub(self.filled_at).clamp(0, 1_000);
        self.level = (self.level + passed * self.rps).min(self.rps * TOKEN_PARTS);
        self.filled_at = now_ms;
    }

    /// Milliseconds for which all lookups are held back.
    fn held(&mut self, now_ms: i64) -> i64 {
        self.paused_until = self.paused_until.min(now_ms.saturating_add(MAX_PAUSE_MS));
        let (state, until) = match self.state {
            State::Closed { failures } => (State::Closed { failures }, now_ms),
            State::Open { until } => {
                let until = until.min(now_ms.saturating_add(OPEN_MS));
                (State::Open { until }, until)
            }
            State::Trying { since } => {
                let since = since.min(now_ms);
                (State::Trying { since }, since.saturating_add(TRIAL_MS))
            }
        };
        self.state = state;
        until.max(self.paused_until).saturating_sub(now_ms)
    }
}
