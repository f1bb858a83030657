//! What this core knows of the failures of webhooks in a row, so that the usual success reads no row of them.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use super::Dispatcher;
use crate::{store::StoreResult, tables::queue::shard_of};

/// Time for which this core trusts that a webhook has no streak of failures, in milliseconds. Another core that had
/// the shard may count a failure late.
const KNOWN_MS: i64 = 600_000;
/// Number of webhooks beyond which those without a streak are forgotten.
const MAX_STREAKS: usize = 100_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Streak {
    /// A failure was counted, or nobody knows.
    Unknown,
    /// A success ends it just now.
    Ending,
    /// There is none since this time, in unix milliseconds.
    None(i64),
}

/// The streaks of webhooks.
#[derive(Default)]
pub(super) struct Streaks {
    known: Mutex<HashMap<Arc<str>, Streak>>,
}

impl Streaks {
    fn get(&self, webhook: &str) -> Option<Streak> {
        self.known.lock().get(webhook).copied()
    }

    fn set(&self, webhook: &str, streak: Streak) {
        let mut known = self.known.lock();
        if known.len() >= MAX_STREAKS {
            // The next success of a webhook with a forgotten failure might leave its streak.
            known.retain(|_, streak| !matches!(streak, Streak::None(_)));
        }
        known.insert(webhook.into(), streak);
    }

    /// Notes that the streak has ended, unless a failure was counted in the meantime.
    fn note_end(&self, webhook: &str, now_ms: i64) {
        if let Some(streak) = self.known.lock().get_mut(webhook).filter(|streak| **streak == Streak::Ending) {
            *streak = Streak::None(now_ms);
        }
    }

    /// Notes that a failure is or may be counted.
    pub(super) fn note_failure(&self, webhook: &str) {
        self.set(webhook, Streak::Unknown);
    }
}

impl Dispatcher {
    /// Ends a webhook's streak of failures, if there may be one.
    pub(super) async fn end_streak(&self, webhook: &str, now_ms: i64) -> StoreResult<()> {
        let none_since = match self.streaks.get(webhook) {
            Some(Streak::None(since)) => Some(since),
            Some(Streak::Unknown | Streak::Ending) => None,
            None => self.created_here(webhook, now_ms),
        };
        if none_since.is_some_and(|since| now_ms - since < KNOWN_MS) {
            return Ok(());
        }
        // This comes before the write: a failure that is written later must find the entry and change it.
        self.streaks.set(webhook, Streak::Ending);
        if let Err(error) = self.shared.deliveries.note_outcomes(webhook, &[true], now_ms).await {
            self.streaks.set(webhook, Streak::Unknown);
            return Err(error);
        }
        self.streaks.note_end(webhook, now_ms);
        Ok(())
    }

    /// The time of a webhook's creation, if this core has owned its attempts since then.
    fn created_here(&self, webhook: &str, now_ms: i64) -> Option<i64> {
        let created_at = self.shared.control.state().webhook(webhook)?.created_at;
        let tenure = self.shards.tenure(shard_of(webhook), now_ms)?;
        (created_at >= tenure.taken_at).then_some(created_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_not_forgotten() {
        let streaks = Streaks::default();
        streaks.note_failure("wh_failing");
        streaks.set("wh_ending", Streak::Ending);
        (0..MAX_STREAKS).for_each(|number| streaks.set(&format!("wh_{number}"), Streak::None(0)));
        assert_eq!(streaks.get("wh_failing"), Some(Streak::Unknown));
        assert_eq!(streaks.get("wh_ending"), Some(Streak::Ending));
        assert_eq!(streaks.get("wh_0"), None);
        assert!(streaks.known.lock().len() < MAX_STREAKS);
    }
}
