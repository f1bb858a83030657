//! The writer of one dataset's log. It knows the log up to its head. It drops commands already in the log, and appends
//! the others as one batch if the head is still the same. While a task projects the batch, the writer drafts and appends
//! the next one (`under_way.rs`). Callers get their responses only after the projection, so they read their own writes.
//! When another writer appends first, this one applies the added entries once their rows are written, and tries again.

mod batch;
mod carry_out;
mod command;
mod derive;
mod draft;
mod follow;
mod handle;
mod import;
mod known_rows;
mod observe;
mod pending;
mod rest;
#[cfg(test)]
mod tests;
mod token_counts;
mod under_way;

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Notify, mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use self::{
    batch::MAX_ENTRIES,
    carry_out::fail_all,
    derive::LoadedToken,
    known_rows::KnownRows,
    pending::PendingDerivations,
    rest::REST,
    under_way::{BatchesUnderWay, RowsPosition, RowsWritten},
};
use super::{projection::Projector, unfinished::UnfinishedMark};
use crate::{domain::dataset::Dataset, replicas::peers::Peers, shared::Shared, tables::log::ImportMark};

pub use self::command::Import;
pub(super) use self::{command::Command, handle::Job};
pub use self::{command::CommandOutcome, handle::WriterHandle, pending::DERIVED};

/// Maximum number of entries read and projected in one step of a catch-up.
const CATCH_UP_PAGE: usize = 500;
/// Derived events wait for at most this time to be appended together with theses.
const DERIVED_BATCHING_DELAY: Duration = Duration::from_millis(20);
/// Extra delay of derived events that follow another writer's entries: that writer appends them first.
const FOLLOWER_DERIVE_DELAY_MS: i64 = 1_000;
/// This writer waits at most this time for another writer to project its entries. Then it projects them too.
const OTHER_PROJECTION_TIMEOUT: Duration = Duration::from_secs(1);
const PROJECTION_POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Delay before a failed step is tried again.
const RETRY_DELAY: Duration = Duration::from_millis(200);

enum NextAction {
    Jobs,
    Derive,
    Recheck,
    End,
}

struct Writer {
    shared: Arc<Shared>,
    peers: Arc<Peers>,
    dataset: Dataset,
    name: String,
    projector: Arc<Projector>,
    position: RowsPosition,
    /// The log is known up to here. It is projected up to here, but for the batches under way.
    head: u64,
    under_way: BatchesUnderWay,
    /// This core has appended no entry after this sequence number.
    own_head: u64,
    last_created_at: i64,
    /// False at the start and after a failure: all entries of the log must be projected first.
    current: bool,
    /// The import that the log began with, if any. The outer option is none until this is known.
    import: Option<Option<ImportMark>>,
    /// The remembered part of the state at the head.
    known: KnownRows,
    pending: PendingDerivations,
    /// Number of the last load of a token's theses.
    loads_started: u64,
    loaded_tokens: (mpsc::UnboundedSender<LoadedToken>, mpsc::UnboundedReceiver<LoadedToken>),
    unfinished_mark: UnfinishedMark,
    /// The fan-out to webhooks has reached this position.
    fanned_out: watch::Receiver<u64>,
    last_carried_out: usize,
    /// End of the last commands, or the start of the writer before the first ones.
    last_command: Instant,
    try_end_at: Instant,
}

impl Writer {
    fn new(
        shared: Arc<Shared>,
        peers: Arc<Peers>,
        dataset: Dataset,
        position: watch::Sender<u64>,
        fanned_out: watch::Receiver<u64>,
    ) -> Self {
        let (name, now) = (dataset.to_string(), Instant::now());
        let known = KnownRows::new(shared.backend.is_exclusive());
        Self {
            projector: Arc::new(Projector::new(
                Arc::clone(&shared.backend),
                shared.theses.clone(),
                name.clone(),
                shared.event_positions.ids.clone(),
            )),
            position: RowsPosition {
                name: name.clone(),
                notifications: Arc::clone(&shared.notifications),
                position,
                followed: watch::Sender::new(0),
            },
            pending: PendingDerivations::new(Arc::clone(&shared), name.clone()),
            loads_started: 0,
            loaded_tokens: mpsc::unbounded_channel(),
            unfinished_mark: UnfinishedMark::new(Arc::clone(&shared), dataset.clone()),
            shared,
            peers,
            dataset,
            name,
            head: 0,
            under_way: BatchesUnderWay::default(),
            own_head: 0,
            last_created_at: 0,
            current: false,
            import: None,
            known,
            fanned_out,
            last_carried_out: MAX_ENTRIES,
            last_command: now,
            try_end_at: now + REST,
        }
    }

    async fn run(mut self, mut waiting: mpsc::Receiver<Job>, catch_up_requested: Arc<Notify>, stop: CancellationToken) {
        let mut jobs: Vec<Job> = Vec::new();
        loop {
            if !self.current
                && let Err(error) = self.catch_up().await
            {
                tracing::warn!(dataset = self.name, %error, "catching up with the log failed, trying again");
                fail_all(jobs.drain(..), &error);
                tokio::select! {
                    () = tokio::time::sleep(RETRY_DELAY) => {}
                    () = stop.cancelled() => return,
                }
                while let Ok(job) = waiting.try_recv() {
                    jobs.push(job);
                }
                continue;
            }
            // Commands that come while there is no room go into one batch.
            if self.under_way.make_room().await.is_err() {
                self.current = false;
                continue;
            }
            let mut derives = !self.joins_derived();
            if jobs.is_empty() {
                match self.wait_for_action(&mut waiting, &mut jobs, &catch_up_requested, &stop).await {
                    NextAction::Jobs => {}
                    NextAction::Derive => derives = true,
                    NextAction::Recheck => continue,
                    NextAction::End => return drop(self.under_way.finish().await),
                }
            }
            while let Ok(loaded) = self.loaded_tokens.1.try_recv() {
                self.apply_loaded(loaded);
            }
            // These callers no longer wait. They received an error and can try again.
            jobs.retain(|job| !job.response.is_closed());
            if !jobs.is_empty() {
                self.write(&mut jobs).await;
                self.begin_rest(!waiting.is_closed());
            }
            // The checkpoint is stored even while jobs arrive without a pause.
            if self.pending.store_by().is_some_and(|by| by <= Instant::now()) {
                self.store_checkpoint().await;
            }
            derives |= self.pending.is_overdue(DERIVED_BATCHING_DELAY);
            if self.current
                && derives
                && let Err(error) = self.derive().await
            {
                tracing::warn!(dataset = self.name, %error, "deriving events failed, trying again");
                self.current = false;
            }
        }
    }

    /// Waits for jobs, for rows, for a due time or for a notification.
    async fn wait_for_action(
        &mut self,
        waiting: &mut mpsc::Receiver<Job>,
        jobs: &mut Vec<Job>,
        catch_up_requested: &Notify,
        stop: &CancellationToken,
    ) -> NextAction {
        let batching_delay = if self.joins_derived() { DERIVED_BATCHING_DELAY } else { Duration::ZERO };
        let wait = self.pending.time_until_due().filter(|_| !self.is_importing());
        let derive = until(wait.map(|wait| Instant::now() + wait + batching_delay));
        let store = until(self.pending.store_by());
        let rest = tokio::time::sleep_until(self.try_end_at);
        let rows = written(self.under_way.oldest());
        tokio::select! {
            biased;
            received = waiting.recv_many(jobs, MAX_ENTRIES), if !waiting.is_closed() => {
                if received == 0 { NextAction::Recheck } else { NextAction::Jobs }
            }
            () = rows => NextAction::Recheck,
            // A log in use always has events to derive, so the end is checked before them.
            () = rest => if self.ends(waiting, jobs).await { NextAction::End } else { NextAction::Recheck },
            () = derive => NextAction::Derive,
            // This channel is never closed: the writer itself holds a sender.
            Some(loaded) = self.loaded_tokens.1.recv() => {
                self.apply_loaded(loaded);
                NextAction::Recheck
            }
            () = store => {
                self.store_checkpoint().await;
                NextAction::Recheck
            }
            () = catch_up_requested.notified() => {
                self.current = false;
                NextAction::Recheck
            }
            () = stop.cancelled() => NextAction::End,
        }
    }

    async fn store_checkpoint(&mut self) {
        if let Err(error) = self.pending.store_checkpoint(self.head).await {
            tracing::debug!(dataset = self.name, %error, "storing what is derived failed, trying again");
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    /// True when derived events are appended with the next theses. That pays off where the cost of a write does not
    /// depend on its size.
    fn joins_derived(&self) -> bool {
        self.shared.backend.is_exclusive()
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Waits until the rows of a batch are written, or a write fails.
async fn written(rows: Option<RowsWritten>) {
    match rows {
        Some(rows) => drop(rows.await),
        None => std::future::pending().await,
    }
}

/// Moves a position forward; it never goes back.
pub fn advance(position: &mut u64, to: u64) -> bool {
    let moves = to > *position;
    *position = to.max(*position);
    moves
}
