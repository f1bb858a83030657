//! The rules of clients.

use super::{
    run::{Opening, Run},
    script::{HALF, LAST, RETRY, RETRY_AFTER, cursor, event_id},
};
use crate::{
    Miss,
    verdict::{Verdict, ensure},
};

/// Timers may be this much early, in percent of the wait.
const EARLY_PERCENT: u32 = 10;

/// The records of both scripts.
pub(super) struct Runs {
    pub(super) breaks: Run,
    pub(super) refusal: Run,
}

impl Runs {
    /// An opening of the script of breaks.
    fn opening(&self, number: usize) -> Result<&Opening, Miss> {
        let opened = self.breaks.openings.len();
        self.breaks.openings.get(number).ok_or_else(|| format!("only {opened} openings of the stream").into())
    }

    /// Demands that an opening of the script of breaks has a cursor.
    fn resumes(&self, number: usize, after: u32) -> Verdict {
        let (given, expected) = (&self.opening(number)?.cursor, cursor(after));
        ensure!(given.as_ref() == Some(&expected), "the cursor is {given:?} instead of {expected}");
        Ok(())
    }

    /// The number of times that an event was handled.
    fn times(&self, id: &str) -> usize {
        self.breaks.handled.iter().filter(|handled| *handled == id).count()
    }
}

/// A rule.
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    /// The rule in words.
    pub text: &'static str,
    check: fn(&Runs) -> Verdict,
}

impl Rule {
    /// Judges the records of a client.
    pub(super) fn check(&self, runs: &Runs) -> Verdict {
        (self.check)(runs)
    }
}

macro_rules! rules {
    ($($name:literal, $text:literal, $check:expr;)+) => {
        &[$(Rule { name: $name, text: $text, check: $check }),+]
    };
}

/// The rules.
pub const RULES: &[Rule] = rules! {
    "key-in-header", "Every opening has the key in the `Authorization` header, and not in the address.",
    |runs| {
        ensure!(!runs.breaks.openings.is_empty(), "the stream was never opened");
        ensure!(runs.breaks.openings.iter().all(|opening| opening.is_authorized), "an opening without the header");
        Ok(())
    };
    "first-opening", "The first opening has no cursor.",
    |runs| {
        let given = &runs.opening(0)?.cursor;
        ensure!(given.is_none(), "the cursor is {given:?}");
        Ok(())
    };
    "pieces", "An event that arrives byte by byte is handled as one.",
    |runs| {
        ensure!(runs.times(&event_id(2)) > 0, "the event was not handled");
        Ok(())
    };
    "half-event", "An event that breaks off in its middle is not handled.",
    |runs| {
        runs.opening(1)?;
        ensure!(runs.times(HALF) == 0, "the event was handled");
        Ok(())
    };
    "exact-resume", "After a break the client resumes with the cursor of the last whole event.",
    |runs| runs.resumes(1, 2);
    "repeated-event", "An event whose id was there before is not handled again.",
    |runs| {
        runs.opening(2)?;
        let times = runs.times(&event_id(2));
        ensure!(times == 1, "the event was handled {times} times");
        Ok(())
    };
    "quiet-cursor", "A cursor without an event, from `stream.cursor`, is kept like that of an event.",
    |runs| runs.resumes(2, 6);
    "retry", "The client waits as long as `retry` says before it opens the stream again.",
    |runs| {
        let waited = runs.opening(1)?.waited;
        ensure!(waited >= RETRY - RETRY * EARLY_PERCENT / 100, "it waited {waited:?} instead of {RETRY:?}");
        Ok(())
    };
    "retry-after", "After 503 the client waits as long as `Retry-After` says, then resumes with the same cursor.",
    |runs| {
        let waited = runs.opening(3)?.waited;
        let least = RETRY_AFTER - RETRY_AFTER * EARLY_PERCENT / 100;
        ensure!(waited >= least, "it waited {waited:?} instead of {RETRY_AFTER:?}");
        runs.resumes(3, 6)
    };
    "gap", "A gap is not passed over in silence: the client reads its path, or writes the path to its output.",
    |runs| {
        ensure!(runs.breaks.knows_gap, "the path of the gap is neither read nor written");
        runs.resumes(4, 10)
    };
    "unknown-type", "An event of a type that the client does not know does not keep it from handling later ones.",
    |runs| {
        ensure!(runs.times(&event_id(LAST)) == 1, "the event after it was not handled");
        Ok(())
    };
    "order", "Every event of the stream is handled, in the order of the stream.",
    |runs| {
        let expected = [1, 2, 3, 4, 10, LAST].map(event_id);
        let handled: Vec<&String> = runs.breaks.handled.iter().filter(|id| expected.contains(id)).collect();
        let mut first: Vec<&String> = Vec::new();
        for id in handled {
            if !first.contains(&id) {
                first.push(id);
            }
        }
        ensure!(first.iter().copied().eq(&expected), "the events were handled as {first:?}");
        Ok(())
    };
    "refusal", "A 401 when the stream is opened again ends the client: it does not try again.",
    |runs| {
        let opened = runs.refusal.openings.len();
        ensure!(opened == 2, "the stream was opened {opened} times instead of twice");
        ensure!(runs.refusal.has_ended, "the program did not end");
        Ok(())
    };
};
