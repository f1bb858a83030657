//! The budget of look-ups: a bucket, a circuit breaker, and the pauses that the upstream asks for.

#[cfg(test)]
mod tests;

/// Failures in a row that open the breaker.
const MAX_FAILURES: u32 = 5;
/// Longest time without a look-up after that, in milliseconds.
const OPEN_MS: i64 = 5_000;
/// Longest wait for the report of the look-up that is tried after that, in milliseconds. Its caller may be gone.
const TRIAL_MS: i64 = 10_000;
/// Longest pause that the upstream may ask for: an hour, in milliseconds.
const MAX_PAUSE_MS: i64 = 3_600_000;
/// Parts of a token. At one look-up a second, one part comes in a millisecond.
const TOKEN_PARTS: i64 = 1_000;

/// Why something is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupPurpose {
    /// Somebody waits for it.
    OnDemand,
    /// Nobody does. A quarter of the bucket is left to the others.
    Backfill,
}

/// True if a look-up may be made now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is made, and its end has to be told.
    Go,
    /// The budget is spent.
    Spent {
        /// Milliseconds until the next token.
        ms: i64,
    },
    /// The breaker or the upstream holds look-ups back.
    Held {
        /// Milliseconds until the next try.
        ms: i64,
    },
}

/// The state of the circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breaker {
    /// Look-ups are made.
    Closed,
    /// None is.
    Open,
    /// One is tried.
    HalfOpen,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Closed { failures: u32 },
    Open { until: i64 },
    Trying { since: i64 },
}

/// The budget of look-ups for the whole installation. Times are unix milliseconds; a clock that goes back costs at most
/// one pause.
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
    /// A full bucket for `rps` look-ups a second, at least one.
    #[must_use]
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

    /// Asks for one look-up.
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

    /// Notes that a look-up was answered; "there is none" is an answer.
    pub fn succeeded(&mut self, _now_ms: i64) {
        // An answer to a look-up from before does not close the breaker: one is tried first.
        if !matches!(self.state, State::Open { .. }) {
            self.state = State::Closed { failures: 0 };
        }
    }

    /// Notes that a look-up failed, and the pause that the upstream asked for.
    pub fn failed(&mut self, retry_after_s: Option<u64>, now_ms: i64) {
        if let Some(seconds) = retry_after_s {
            let ms = i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX).min(MAX_PAUSE_MS);
            self.paused_until = self.paused_until.max(now_ms.saturating_add(ms));
        }
        let open = State::Open { until: now_ms.saturating_add(OPEN_MS) };
        self.state = match self.state {
            State::Closed { failures } if failures + 1 < MAX_FAILURES => State::Closed { failures: failures + 1 },
            State::Closed { .. } | State::Trying { .. } => open,
            // A look-up from before.
            State::Open { until } => State::Open { until },
        };
    }

    /// The state of the breaker.
    #[must_use]
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

    /// Milliseconds for which all look-ups are held back.
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
