//! The datasets that this replica reads or writes: how far each is projected, and its writer and fan-out once started.

mod counts;
mod surplus;

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::surplus::LastDeleted;
use super::{
    fan_out,
    projection::ROWS,
    unfinished::OLD_MS,
    writer::{Command, Import, Job, WriterHandle, Written, advance},
};
use crate::{
    domain::{dataset::Dataset, entry::SequencedEntry, observation::Observation, row::NewThesis},
    error::{Error, Result},
    metrics::OBSERVED,
    replicas::peers::Peers,
    shared::Shared,
    store::{Consistency, StoreError},
    tables::unfinished,
};

/// Least age of what a live core said of a log, in milliseconds, that it has surely not finished by itself.
const LEFT_MS: i64 = 2 * OLD_MS;
/// How often a replica looks for work that others left undone, and for entries while it does not hear every other core.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Looks between two for entries although every other core is heard.
const LOOKS_BETWEEN: u32 = 10;
/// Looks between two for work that others left undone.
const LOOKS_A_MINUTE: u32 = 60;

struct Open {
    position: watch::Sender<u64>,
    /// How far the fan-out of the writer here has come.
    owed: Option<watch::Receiver<u64>>,
    writer: Option<WriterHandle>,
    last_deleted: LastDeleted,
}

/// How far a dataset has come.
#[derive(Debug)]
pub struct Progress {
    /// The dataset.
    pub dataset: Dataset,
    /// Its projected position.
    pub position: u64,
    /// How far its events are owed to webhooks; none where this replica does not write its log.
    pub owed: Option<u64>,
}

/// The datasets of one replica.
pub struct Datasets {
    shared: Arc<Shared>,
    peers: Arc<Peers>,
    open: Mutex<HashMap<Dataset, Open>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Datasets {
    /// Datasets over the shared parts of a core.
    #[must_use]
    pub fn new(shared: Arc<Shared>, peers: Arc<Peers>, stop: CancellationToken, tasks: TaskTracker) -> Arc<Self> {
        Arc::new(Self { shared, peers, open: Mutex::default(), stop, tasks })
    }

    fn with<T>(&self, dataset: &Dataset, look: impl FnOnce(&mut Open) -> T) -> T {
        let mut open = self.open.lock();
        look(open.entry(dataset.clone()).or_insert_with(|| Open {
            position: watch::Sender::new(0),
            owed: None,
            writer: None,
            last_deleted: LastDeleted::default(),
        }))
    }

    /// Follows the projected position of a dataset: events up to it may be shown.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn position(&self, dataset: &Dataset) -> Result<watch::Receiver<u64>> {
        let receiver = self.with(dataset, |open| open.position.subscribe());
        self.refresh(dataset).await?;
        Ok(receiver)
    }

    /// The projected position now, as every replica knows it.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn refresh(&self, dataset: &Dataset) -> Result<u64> {
        let known = self.with(dataset, |open| *open.position.borrow());
        if known > 0 && self.shared.backend.is_exclusive() {
            return Ok(known);
        }
        let stored = self.shared.log.checkpoint(&dataset.to_string(), ROWS).await?;
        self.with(dataset, |open| {
            open.position.send_if_modified(|position| advance(position, stored));
            Ok(*open.position.borrow())
        })
    }

    /// How far each dataset that this replica follows is projected.
    #[must_use]
    pub fn positions(&self) -> Vec<(Dataset, u64)> {
        let open = self.open.lock();
        open.iter().map(|(dataset, open)| (dataset.clone(), *open.position.borrow())).collect()
    }

    /// The datasets that this replica follows, as metrics tell of them.
    #[must_use]
    pub fn progress(&self) -> Vec<Progress> {
        let open = self.open.lock();
        let progress = |(dataset, open): (&Dataset, &Open)| {
            let writes = open.writer.as_ref().is_some_and(|writer| !writer.has_ended());
            let owed = open.owed.as_ref().filter(|_| writes).map(|owed| *owed.borrow());
            Progress { dataset: dataset.clone(), position: *open.position.borrow(), owed }
        };
        open.iter().map(progress).collect()
    }

    /// The writer of a dataset here; starts it and its fan-out when there is none.
    fn writer(self: &Arc<Self>, dataset: &Dataset) -> WriterHandle {
        self.with(dataset, |open| {
            if let Some(writer) = open.writer.as_ref().filter(|writer| !writer.has_ended()) {
                return writer.clone();
            }
            let position = open.position.clone();
            let (owed, stop) = (watch::Sender::new(0), self.stop.child_token());
            let fan_out = fan_out::run(
                Arc::clone(&self.shared),
                dataset.clone(),
                position.subscribe(),
                owed.clone(),
                stop.clone(),
            );
            self.tasks.spawn(fan_out);
            let (shared, peers) = (Arc::clone(&self.shared), Arc::clone(&self.peers));
            let writer = WriterHandle::start(shared, peers, dataset.clone(), position, owed.subscribe(), stop);
            open.owed = Some(owed.subscribe());
            open.writer = Some(writer.clone());
            writer
        })
    }

    /// Puts a thesis into a dataset's log, at the core that owns it or here.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn create_thesis(self: &Arc<Self>, dataset: &Dataset, new: NewThesis) -> Result<SequencedEntry> {
        if let Some(written) = self.peers.append(&dataset.to_string(), &new).await {
            self.hear(dataset, written.seq);
            return Ok(written);
        }
        self.create_here(dataset, new).await
    }

    /// Puts a thesis into a dataset's log here. The oldest theses beyond the limit of the dataset are deleted after that.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn create_here(self: &Arc<Self>, dataset: &Dataset, new: NewThesis) -> Result<SequencedEntry> {
        let limit = new.max_theses;
        let written = self.run(dataset, Command::Create(Box::new(new))).await?;
        let entry = written.entry.ok_or_else(|| Error::internal("a thesis was written nowhere"))?;
        if let Some(limit) = limit {
            self.delete_surplus_after(dataset, limit, &entry);
        }
        Ok(entry)
    }

    /// Puts the news of an observation into a dataset's log here. Doing it again changes nothing.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn observe_here(self: &Arc<Self>, dataset: &Dataset, observation: Observation) -> Result<Written> {
        let written = self.run(dataset, Command::Observe(Box::new(observation))).await?;
        OBSERVED.at(if written.applied { "applied" } else { "unchanged" }).increment(1);
        Ok(written)
    }

    /// Puts a part of an import into a dataset's log here. Doing it again changes nothing. Gives why it was refused, if it
    /// was.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn import_here(self: &Arc<Self>, dataset: &Dataset, import: Import) -> Result<Option<&'static str>> {
        Ok(self.run(dataset, Command::Import(Box::new(import))).await?.refused)
    }

    /// Has the writer here carry out a command, and another one if the writer was about to rest.
    async fn run(self: &Arc<Self>, dataset: &Dataset, command: Command) -> Result<Written> {
        let (answer, answered) = oneshot::channel();
        let stopped = || Error::from(StoreError::Unavailable("the writer has stopped".to_owned()));
        let mut job = Job { command, answer };
        while let Err(refused) = self.writer(dataset).send(job).await {
            if self.stop.is_cancelled() {
                return Err(stopped());
            }
            job = refused;
        }
        answered.await.map_err(|_| stopped())?
    }

    /// Whether a dataset's log is this core's.
    #[must_use]
    pub fn owns(&self, dataset: &Dataset) -> bool {
        self.peers.owns(&dataset.to_string())
    }

    /// Whether a dataset is or was in use here.
    #[must_use]
    pub fn knows(&self, dataset: &Dataset) -> bool {
        self.open.lock().contains_key(dataset)
    }

    /// Looks how far a dataset is projected, if another core might not tell.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn look_if_unheard(&self, dataset: &Dataset) -> Result<()> {
        if !self.shared.backend.is_exclusive() && !*self.peers.all_connected().borrow() {
            self.refresh(dataset).await?;
        }
        Ok(())
    }

    /// Another core has projected a dataset up to a position.
    pub fn hear(&self, dataset: &Dataset, position: u64) {
        self.with(dataset, |open| open.position.send_if_modified(|known| advance(known, position)));
    }

    /// Completes the work that a crash left undone and no other replica can do, before any request is answered.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn recover(self: &Arc<Self>) -> Result<()> {
        let rows = unfinished::all(&self.shared.backend).await?;
        for dataset in rows.iter().filter_map(|row| Dataset::parse(&row.dataset)) {
            let mut position = self.position(&dataset).await?;
            let head = self.shared.log.head(&dataset.to_string(), *position.borrow(), Consistency::Quorum).await?;
            drop(self.writer(&dataset));
            // The sender lives as long as `self`.
            let _projected = position.wait_for(|position| *position >= head).await;
        }
        Ok(())
    }

    /// Follows the entries of cores that are not heard, and takes over work that cores left undone.
    pub async fn watch(self: Arc<Self>) {
        if self.shared.backend.is_exclusive() {
            return;
        }
        let (mut others, all_connected) = (self.peers.others(), self.peers.all_connected());
        let mut look = tokio::time::interval(POLL_INTERVAL);
        let mut looks = 0;
        loop {
            let takes_over = tokio::select! {
                () = self.stop.cancelled() => return,
                Ok(()) = others.changed() => true,
                _ = look.tick() => {
                    looks += 1;
                    if !*all_connected.borrow() || looks % LOOKS_BETWEEN == 0 {
                        for dataset in self.listened() {
                            self.follow(&dataset).await;
                        }
                    }
                    looks % LOOKS_A_MINUTE == 1
                }
            };
            if takes_over && let Err(error) = self.take_over().await {
                tracing::warn!(%error, "looking for work left undone failed, trying again");
                looks = 0;
            }
        }
    }

    /// Finishes what dead cores began on this core's logs, and what nobody has finished for long.
    async fn take_over(self: &Arc<Self>) -> Result<()> {
        let now_ms = self.shared.clock.now_ms();
        for row in unfinished::all(&self.shared.backend).await? {
            let is_left = self.peers.is_dead(&row.replica) || row.at + LEFT_MS < now_ms;
            if !is_left || !self.peers.owns(&row.dataset) {
                continue;
            }
            if let Some(dataset) = Dataset::parse(&row.dataset) {
                self.writer(&dataset).look_again();
            }
        }
        Ok(())
    }

    async fn follow(&self, dataset: &Dataset) {
        if let Err(error) = self.refresh(dataset).await {
            tracing::debug!(%dataset, %error, "reading a position failed");
        }
    }

    fn listened(&self) -> Vec<Dataset> {
        let open = self.open.lock();
        let listened = open.iter().filter(|(_, open)| open.position.receiver_count() > 0);
        listened.map(|(dataset, _)| dataset.clone()).collect()
    }
}

#[cfg(test)]
mod tests;
