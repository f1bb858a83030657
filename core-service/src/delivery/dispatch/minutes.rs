//! The webhooks with something due, by the minutes in which they were made ready; and attempts out for too long.

use super::Dispatcher;
use crate::{
    error::Result,
    tables::deliveries::{SHARDS, minute_of, shard_of},
};

/// Least time out before this looks for a report to another replica.
const UNREPORTED_MS: i64 = 1_000;
/// Most minutes before now that are read again, since a hint may be written late.
pub(super) const LATE_MINUTES: i64 = 2;
/// Most minutes to look back where nothing is known.
const LOOK_BACK_MINUTES: i64 = 24 * 60;

impl Dispatcher {
    pub(super) fn activate(&self, webhooks: impl IntoIterator<Item = String>, minute: i64) {
        let mut state = self.state.lock();
        for webhook in webhooks {
            state.activate(webhook, minute);
        }
    }

    /// Reads which webhooks have something due, and notes the minutes that are done.
    pub(super) async fn look(&self, now_ms: i64) -> Result<()> {
        let now = minute_of(now_ms);
        self.settle_late(now_ms).await?;
        // Once a second suffices for past minutes.
        let second = now_ms.div_euclid(1_000);
        let late = std::mem::replace(&mut self.state.lock().second, second) != second;
        for shard in 0..SHARDS {
            if !self.leases.holds(shard, now_ms) {
                let mut state = self.state.lock();
                state.done.remove(&shard);
                state.active.retain(|webhook, _| shard_of(webhook) != shard);
                continue;
            }
            let known = self.state.lock().done.get(&shard).copied();
            // The first look reads every minute that is not done; later ones those that may have changed since.
            let (done, read) = match known {
                Some(known) => known,
                None => {
                    let stored = self.shared.deliveries.ready_done(shard).await?;
                    // Where nothing is stored, nothing was due before the service first started.
                    let first_start = self.shared.control.state().seed().map_or(0, |seed| minute_of(seed.at));
                    let done = stored.unwrap_or((first_start - LATE_MINUTES).max(now - LOOK_BACK_MINUTES));
                    (done, done)
                }
            };
            let from = if late || known.is_none() { (read - LATE_MINUTES).max(done) + 1 } else { now };
            for minute in from..=now {
                let webhooks = self.shared.deliveries.ready(shard, minute).await?;
                self.activate(webhooks, minute);
            }
            let oldest = {
                let state = self.state.lock();
                let active = state.active.iter().map(|(webhook, minute)| (webhook, *minute));
                let out = state.out.values().map(|out| (&out.webhook, out.minute));
                let mine = active.chain(out).filter(|(webhook, _)| shard_of(webhook) == shard);
                mine.map(|(_, minute)| minute - 1).min()
            };
            let finished = oldest.unwrap_or(i64::MAX).min(now - LATE_MINUTES - 1).max(done);
            if finished > done {
                self.shared.deliveries.set_ready_done(shard, finished).await?;
            }
            self.state.lock().done.insert(shard, (finished, now));
        }
        Ok(())
    }

    /// Takes back attempts that are late, and settles those that were reported to another replica.
    async fn settle_late(&self, now_ms: i64) -> Result<()> {
        let mut unreported: Vec<(String, i32)> = Vec::new();
        {
            let mut state = self.state.lock();
            let late: Vec<String> =
                state.out.iter().filter(|(_, out)| out.until <= now_ms).map(|(id, _)| id.clone()).collect();
            late.iter().for_each(|delivery| state.give_back(delivery));
            if !self.shared.backend.is_exclusive() {
                let old = state.out.iter().filter(|(_, out)| now_ms - out.since >= UNREPORTED_MS);
                unreported.extend(old.map(|(id, out)| (id.clone(), out.attempt)));
            }
        }
        let ids: Vec<String> = unreported.iter().map(|(id, _)| id.clone()).collect();
        let deliveries = self.shared.deliveries.get_many(&ids).await?;
        let mut state = self.state.lock();
        for ((id, attempt), delivery) in unreported.into_iter().zip(deliveries) {
            if delivery.is_none_or(|delivery| delivery.attempts_made() >= attempt || delivery.is_over()) {
                state.give_back(&id);
            }
        }
        Ok(())
    }
}
