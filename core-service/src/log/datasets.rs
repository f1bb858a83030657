//! The datasets that this replica reads or writes: the projected position of each, and its writer and fan-out once
//! started.

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
    unfinished::STALE_MARK_AGE_MS,
    writer::{Command, CommandOutcome, Import, Job, WriterHandle, advance},
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

/// Age of a live core's mark in milliseconds from which the core has surely failed to finish its work.
const ABANDONED_AGE_MS: i64 = 2 * STALE_MARK_AGE_MS;
/// Interval in which a replica polls. It reads the positions of logs each time while it lacks a connection to another
/// core.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Number of polls between two reads of positions while every other core is connected.
const POLLS_PER_REFRESH: u32 = 10;
/// Number of polls between two scans for work that other cores left unfinished.
const POLLS_PER_SCAN: u32 = 60;

struct OpenDataset {
    position: watch::Sender<u64>,
    /// Position of the fan-out beside the writer here.
    fanned_out: Option<watch::Receiver<u64>>,
    writer: Option<WriterHandle>,
    last_deleted: LastDeleted,
}

#[derive(Debug)]
pub struct DatasetProgress {
    pub dataset: Dataset,
    pub position: u64,
    /// Position of the fan-out to webhooks; none where this replica does not write the log.
    pub fanned_out: Option<u64>,
}

pub struct Datasets {
    shared: Arc<Shared>,
    peers: Arc<Peers>,
    open: Mutex<HashMap<Dataset, OpenDataset>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Datasets {
    pub fn new(shared: Arc<Shared>, peers: Arc<Peers>, stop: CancellationToken, tasks: TaskTracker) -> Arc<Self> {
        Arc::new(Self { shared, peers, open: Mutex::default(), stop, tasks })
    }

    fn with<T>(&self, dataset: &Dataset, action: impl FnOnce(&mut OpenDataset) -> T) -> T {
        let mut open = self.open.lock();
        action(open.entry(dataset.clone()).or_insert_with(|| OpenDataset {
            position: watch::Sender::new(0),
            fanned_out: None,
            writer: None,
            last_deleted: LastDeleted::default(),
        }))
    }

    /// Follows the projected position of a dataset: events up to it may be shown.
    pub async fn position(&self, dataset: &Dataset) -> Result<watch::Receiver<u64>> {
        let receiver = self.with(dataset, |open| open.position.subscribe());
        self.refresh(dataset).await?;
        Ok(receiver)
    }

    /// Reads the projected position, which is the same for every replica.
    pub async fn refresh(&self, dataset: &Dataset) -> Result<u64> {
        let known = self.with(dataset, |open| *open.position.borrow());
        if known > 0 && self.shared.backend.is_exclusive() {
            return Ok(known);
        }
        let stored = self.shared.log.checkpoint(dataset.name(), ROWS).await?;
        self.with(dataset, |open| {
            open.position.send_if_modified(|position| advance(position, stored));
            Ok(*open.position.borrow())
        })
    }

    pub fn positions(&self) -> Vec<(Dataset, u64)> {
        let open = self.open.lock();
        open.iter().map(|(dataset, open)| (dataset.clone(), *open.position.borrow())).collect()
    }

    pub fn progress(&self) -> Vec<DatasetProgress> {
        let open = self.open.lock();
        let progress = |(dataset, open): (&Dataset, &OpenDataset)| {
            let writes = open.writer.as_ref().is_some_and(|writer| !writer.has_ended());
            let fanned_out = open.fanned_out.as_ref().filter(|_| writes).map(|position| *position.borrow());
            DatasetProgress { dataset: dataset.clone(), position: *open.position.borrow(), fanned_out }
        };
        open.iter().map(progress).collect()
    }

    /// Returns the writer of a dataset. Starts the writer and its fan-out if none runs here.
    fn writer(self: &Arc<Self>, dataset: &Dataset) -> WriterHandle {
        self.with(dataset, |open| {
            if let Some(writer) = open.writer.as_ref().filter(|writer| !writer.has_ended()) {
                return writer.clone();
            }
            let position = open.position.clone();
            let (fanned_out, stop) = (watch::Sender::new(0), self.stop.child_token());
            let fan_out = fan_out::run(
                Arc::clone(&self.shared),
                Arc::clone(&self.peers),
                dataset.clone(),
                position.subscribe(),
                fanned_out.clone(),
                stop.clone(),
            );
            self.tasks.spawn(fan_out);
            let (shared, peers) = (Arc::clone(&self.shared), Arc::clone(&self.peers));
            let writer = WriterHandle::start(shared, peers, dataset.clone(), position, fanned_out.subscribe(), stop);
            open.fanned_out = Some(fanned_out.subscribe());
            open.writer = Some(writer.clone());
            writer
        })
    }

    /// Appends a thesis to a dataset's log, at the core that owns it or here.
    pub async fn create_thesis(self: &Arc<Self>, dataset: &Dataset, new: NewThesis) -> Result<SequencedEntry> {
        if let Some(written) = self.peers.append(&dataset.to_string(), &new).await {
            self.advance_position(dataset, written.seq);
            return Ok(written);
        }
        self.create_here(dataset, new).await
    }

    /// Appends a thesis to a dataset's log here, then deletes the oldest theses beyond the dataset's limit.
    pub async fn create_here(self: &Arc<Self>, dataset: &Dataset, new: NewThesis) -> Result<SequencedEntry> {
        let limit = new.max_theses;
        let written = self.run(dataset, Command::Create(Box::new(new))).await?;
        let entry = written.entry.ok_or_else(|| Error::internal("a thesis was written nowhere"))?;
        if let Some(limit) = limit {
            self.delete_surplus_after(dataset, limit, &entry);
        }
        Ok(entry)
    }

    /// Appends the changes of an observation to a dataset's log here. A repeat changes nothing.
    pub async fn observe_here(self: &Arc<Self>, dataset: &Dataset, observation: Observation) -> Result<CommandOutcome> {
        let written = self.run(dataset, Command::Observe(Box::new(observation))).await?;
        OBSERVED.at(if written.applied { "applied" } else { "unchanged" }).increment(1);
        Ok(written)
    }

    /// Appends a part of an import to a dataset's log here. A repeat changes nothing. Returns the reason if the part is
    /// refused.
    pub async fn import_here(self: &Arc<Self>, dataset: &Dataset, import: Import) -> Result<Option<&'static str>> {
        Ok(self.run(dataset, Command::Import(Box::new(import))).await?.refused)
    }

    /// Sends a command to the writer here and waits for the result. If the writer has just ended, a new one gets the
    /// command.
    async fn run(self: &Arc<Self>, dataset: &Dataset, command: Command) -> Result<CommandOutcome> {
        let (response, received) = oneshot::channel();
        let stopped = || Error::from(StoreError::Unavailable("the writer has stopped".to_owned()));
        let mut job = Job { command, response };
        while let Err(refused) = self.writer(dataset).send(job).await {
            if self.stop.is_cancelled() {
                return Err(stopped());
            }
            job = refused;
        }
        received.await.map_err(|_| stopped())?
    }

    pub fn owns(&self, dataset: &Dataset) -> bool {
        self.peers.owns(&dataset.to_string())
    }

    /// Returns whether a dataset is or was in use here.
    pub fn knows(&self, dataset: &Dataset) -> bool {
        self.open.lock().contains_key(dataset)
    }

    pub async fn refresh_if_disconnected(&self, dataset: &Dataset) -> Result<()> {
        if !self.shared.backend.is_exclusive() && !*self.peers.all_connected().borrow() {
            self.refresh(dataset).await?;
        }
        Ok(())
    }

    /// Advances the position of a dataset that another core has projected.
    pub fn advance_position(&self, dataset: &Dataset, position: u64) {
        self.with(dataset, |open| open.position.send_if_modified(|known| advance(known, position)));
    }

    /// Finishes the work that a crash left and no other replica can do. Call it before the core serves requests.
    pub async fn recover(self: &Arc<Self>) -> Result<()> {
        let rows = unfinished::list_all(&self.shared.backend).await?;
        for dataset in rows.iter().filter_map(|row| Dataset::parse(&row.dataset)) {
            let mut position = self.position(&dataset).await?;
            let head = self.shared.log.head(&dataset.to_string(), *position.borrow(), Consistency::Quorum).await?;
            drop(self.writer(&dataset));
            // The sender lives as long as `self`.
            let _projected = position.wait_for(|position| *position >= head).await;
        }
        Ok(())
    }

    /// Follows the positions of logs that unconnected cores write, and takes over work that cores left unfinished.
    pub async fn watch(self: Arc<Self>) {
        if self.shared.backend.is_exclusive() {
            return;
        }
        let (mut others, all_connected) = (self.peers.others(), self.peers.all_connected());
        let mut poll = tokio::time::interval(POLL_INTERVAL);
        let mut polls = 0;
        loop {
            let takes_over = tokio::select! {
                () = self.stop.cancelled() => return,
                Ok(()) = others.changed() => true,
                _ = poll.tick() => {
                    polls += 1;
                    if !*all_connected.borrow() || polls % POLLS_PER_REFRESH == 0 {
                        for dataset in self.subscribed() {
                            self.follow(&dataset).await;
                        }
                    }
                    polls % POLLS_PER_SCAN == 1
                }
            };
            if takes_over && let Err(error) = self.take_over().await {
                tracing::warn!(%error, "looking for work left undone failed, trying again");
                polls = 0;
            }
        }
    }

    /// Finishes the work of dead cores on this core's logs, and work that was left unfinished for a long time.
    async fn take_over(self: &Arc<Self>) -> Result<()> {
        let now_ms = self.shared.clock.now_ms();
        for row in unfinished::list_all(&self.shared.backend).await? {
            let is_abandoned = self.peers.is_dead(&row.replica) || row.at + ABANDONED_AGE_MS < now_ms;
            if !is_abandoned || !self.peers.owns(&row.dataset) {
                continue;
            }
            if let Some(dataset) = Dataset::parse(&row.dataset) {
                self.writer(&dataset).request_catch_up();
            }
        }
        Ok(())
    }

    async fn follow(&self, dataset: &Dataset) {
        if let Err(error) = self.refresh(dataset).await {
            tracing::debug!(%dataset, %error, "reading a position failed");
        }
    }

    fn subscribed(&self) -> Vec<Dataset> {
        let open = self.open.lock();
        let subscribed = open.iter().filter(|(_, open)| open.position.receiver_count() > 0);
        subscribed.map(|(dataset, _)| dataset.clone()).collect()
    }
}

#[cfg(test)]
mod tests;
