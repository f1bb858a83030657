//! The rest of a writer, and its end.
//!
//! A writer rests while it gets no commands. At the core that owns the log, it ends after a rest once all events are
//! derived and all deliveries are pending. Any other core has a writer because it did not reach the owner for a while,
//! because it owned the log before, or because it counts. The owner does this work for all entries, so a writer
//! elsewhere ends after a rest even while the log grows. It removes its row of `unfinished` if the work for its own
//! entries is done. Otherwise the row stays, and the owner finds the work by it. On a cluster the row also stays behind
//! commands that a writer carried out at its end: other cores find the written logs by the rows, and a new writer here
//! has the same row. The owner removes it once it is old.

use std::time::Duration;

use tokio::{sync::mpsc, time::Instant};

use super::{Writer, handle::Job};
use crate::{
    log::fan_out::FAN_OUT,
    store::{Consistency, StoreResult},
};

/// Time without commands after which a writer ends. It is longer than the five seconds for which a derived event waits.
pub(super) const REST: Duration = Duration::from_secs(40);
/// Interval in which a writer that could not end tries again.
const END_RETRY_INTERVAL: Duration = Duration::from_secs(1);

impl Writer {
    pub(super) fn begin_rest(&mut self, takes_more: bool) {
        self.last_command = Instant::now();
        self.try_end_at = self.last_command + if takes_more { REST } else { END_RETRY_INTERVAL };
    }

    /// Returns whether the writer ends. Another one takes later commands; this one still carries out the queued ones.
    pub(super) async fn ends(&mut self, waiting: &mut mpsc::Receiver<Job>, jobs: &mut Vec<Job>) -> bool {
        self.try_end_at = Instant::now() + END_RETRY_INTERVAL;
        match self.finish(waiting.is_closed()).await {
            Ok(true) => {
                waiting.close();
                while let Some(job) = waiting.recv().await {
                    jobs.push(job);
                }
                jobs.is_empty()
            }
            Ok(false) => false,
            Err(error) => {
                tracing::debug!(dataset = self.name, %error, "ending a writer failed, trying again");
                false
            }
        }
    }

    /// Returns whether this writer may end, since its work is done or another core will do it.
    async fn finish(&mut self, has_drained: bool) -> StoreResult<bool> {
        self.under_way.finish().await?;
        let is_owner = self.peers.owns(&self.name);
        let mut done = self.pending.settled(self.head).min(*self.fanned_out.borrow());
        let wanted = if is_owner { self.head } else { self.own_head };
        if done >= wanted {
            // The fan-out stores its position later than it moves.
            done = done.min(self.shared.log.checkpoint(&self.name, FAN_OUT).await?);
        }
        if done < wanted {
            let ends = !is_owner && self.last_command.elapsed() >= REST;
            if ends {
                // A former writer of this core may have removed the row.
                self.unfinished_mark.renew().await?;
            }
            return Ok(ends);
        }
        self.pending.store_checkpoint(self.head).await?;
        if has_drained && !self.shared.backend.is_exclusive() {
            return Ok(true);
        }
        let head = self.shared.log.head(&self.name, self.head, Consistency::Quorum).await?;
        self.unfinished_mark.clear(done == self.head && head == self.head).await?;
        Ok(true)
    }
}
