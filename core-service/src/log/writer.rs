//! The writer of one dataset's log. It knows the log up to its head. It drops commands already in the log, and appends
//! the others as one batch if the head is still the same. It answers only after projecting the batch, so a caller reads
//! its own write. When it loses the race, it takes over the added entries, once their rows are made, and tries again.

mod batch;
mod carry_out;
mod command;
mod derive;
mod draft;
mod due;
mod follow;
mod handle;
mod import;
mod look;
mod observe;
mod rest;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Notify, mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use self::{batch::MAX_ENTRIES, carry_out::answer_all, derive::Looked, draft::KnownRows, due::Due, rest::REST};
use super::{projection::Projector, unfinished::Beginnings};
use crate::{
    domain::{dataset::Dataset, id},
    replicas::peers::Peers,
    shared::Shared,
    tables::log::ImportMark,
};

pub use self::command::Import;
pub(super) use self::{command::Command, handle::Job};
pub use self::{command::Written, due::DERIVED, handle::WriterHandle};

/// Most entries projected at once when catching up.
const CATCH_UP: usize = 500;
/// Longest time that derived events wait to be appended together with theses.
const COMPANY: Duration = Duration::from_millis(20);
/// Extra wait for derived events that follow another writer's entries: that writer makes them first.
const OTHERS_FIRST_MS: i64 = 1_000;
/// Longest wait for another writer to make its entries' rows before this writer makes them too.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often this writer looks whether they are made.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The pause before something that failed is tried again.
const PAUSE: Duration = Duration::from_millis(200);

/// What a writer does next.
enum Next {
    Jobs,
    Derive,
    /// Looks at everything again.
    Look,
    End,
}

struct Writer {
    shared: Arc<Shared>,
    peers: Arc<Peers>,
    dataset: Dataset,
    name: String,
    projector: Projector,
    position: watch::Sender<u64>,
    /// The log is projected up to here; nothing beyond is known.
    head: u64,
    /// This core has appended no entry after this sequence number.
    own_head: u64,
    /// Tells `head` once the theses that the projector keeps are those up to there.
    followed: watch::Sender<u64>,
    last_created_at: i64,
    /// False at the start and after a failure: the entries beyond `head` must be projected first.
    current: bool,
    /// The import that the log began with, if it began so; none before this is known.
    import: Option<Option<ImportMark>>,
    /// The remembered part of the state at the head.
    known: KnownRows,
    /// Tokens that owe derived events.
    due: Due,
    /// How many looks at a token's theses were begun.
    looks: u64,
    /// What these looks read.
    looked: (mpsc::UnboundedSender<Looked>, mpsc::UnboundedReceiver<Looked>),
    /// What this core says of the log.
    beginnings: Beginnings,
    /// How far events are owed to webhooks.
    owed: watch::Receiver<u64>,
    /// The last commands ended then. Before the first ones: the writer started then.
    last_command: Instant,
    /// The writer tries to end then.
    try_end_at: Instant,
}

impl Writer {
    fn new(
        shared: Arc<Shared>,
        peers: Arc<Peers>,
        dataset: Dataset,
        position: watch::Sender<u64>,
        owed: watch::Receiver<u64>,
    ) -> Self {
        let (name, now) = (dataset.to_string(), Instant::now());
        Self {
            projector: Projector::new(Arc::clone(&shared.backend), shared.theses.clone(), name.clone()),
            due: Due::new(Arc::clone(&shared), name.clone()),
            looks: 0,
            looked: mpsc::unbounded_channel(),
            beginnings: Beginnings::new(Arc::clone(&shared), dataset.clone()),
            shared,
            peers,
            dataset,
            name,
            position,
            head: 0,
            own_head: 0,
            followed: watch::Sender::new(0),
            last_created_at: 0,
            current: false,
            import: None,
            known: KnownRows::new(),
            owed,
            last_command: now,
            try_end_at: now + REST,
        }
    }

    async fn run(mut self, mut waiting: mpsc::Receiver<Job>, look_again: Arc<Notify>, stop: CancellationToken) {
        let mut jobs: Vec<Job> = Vec::new();
        loop {
            if !self.current
                && let Err(error) = self.catch_up().await
            {
                tracing::warn!(dataset = self.name, %error, "catching up with the log failed, trying again");
                answer_all(jobs.drain(..), &error);
                tokio::select! {
                    () = tokio::time::sleep(PAUSE) => {}
                    () = stop.cancelled() => return,
                }
                while let Ok(job) = waiting.try_recv() {
                    jobs.push(job);
                }
                continue;
            }
            let mut derives = !self.joins_derived();
            if jobs.is_empty() {
                match self.next(&mut waiting, &mut jobs, &look_again, &stop).await {
                    Next::Jobs => {}
                    Next::Derive => derives = true,
                    Next::Look => continue,
                    Next::End => return,
                }
            }
            while let Ok(looked) = self.looked.1.try_recv() {
                self.take_look(looked);
            }
            // A caller that gave up waiting was told so, and can ask again.
            jobs.retain(|job| !job.answer.is_closed());
            if !jobs.is_empty() {
                self.write(&mut jobs).await;
                self.begin_rest(!waiting.is_closed());
            }
            // Jobs that never end must not keep it from being stored.
            if self.due.store_by().is_some_and(|by| by <= Instant::now()) {
                self.store_settled().await;
            }
            derives |= self.due.is_overdue(COMPANY);
            if self.current
                && derives
                && let Err(error) = self.derive().await
            {
                tracing::warn!(dataset = self.name, %error, "deriving events failed, trying again");
                self.current = false;
            }
        }
    }

    /// Waits for jobs, or for what time brings.
    async fn next(
        &mut self,
        waiting: &mut mpsc::Receiver<Job>,
        jobs: &mut Vec<Job>,
        look_again: &Notify,
        stop: &CancellationToken,
    ) -> Next {
        let company = if self.joins_derived() { COMPANY } else { Duration::ZERO };
        let wait = self.due.wait().filter(|_| !self.is_importing());
        let derive = until(wait.map(|wait| Instant::now() + wait + company));
        let store = until(self.due.store_by());
        let rest = tokio::time::sleep_until(self.try_end_at);
        tokio::select! {
            biased;
            received = waiting.recv_many(jobs, MAX_ENTRIES), if !waiting.is_closed() => {
                if received == 0 { Next::Look } else { Next::Jobs }
            }
            // A log in use always has events to derive, so the end comes before them.
            () = rest => if self.ends(waiting, jobs).await { Next::End } else { Next::Look },
            () = derive => Next::Derive,
            // Never closed: this writer holds a sender too.
            Some(looked) = self.looked.1.recv() => {
                self.take_look(looked);
                Next::Look
            }
            () = store => {
                self.store_settled().await;
                Next::Look
            }
            () = look_again.notified() => {
                self.current = false;
                Next::Look
            }
            () = stop.cancelled() => Next::End,
        }
    }

    async fn store_settled(&mut self) {
        if let Err(error) = self.due.store(self.head).await {
            tracing::debug!(dataset = self.name, %error, "storing what is derived failed, trying again");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Whether derived events are appended with the next theses: if a write's cost does not depend on its size.
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

/// The id of the event that a thesis causes.
#[must_use]
pub fn thesis_event_id(thesis_id: &str) -> String {
    id::derive("evt_", &["thesis.created", thesis_id])
}

/// Moves a position forward; it never goes back.
pub fn advance(position: &mut u64, to: u64) -> bool {
    let moves = to > *position;
    *position = to.max(*position);
    moves
}
