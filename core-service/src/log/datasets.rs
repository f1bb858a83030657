//! The datasets that this replica reads or writes: the projected position of each, and its writer and fan-out once
//! started. Unused ones leave memory and come back with their next use.

mod catch_up;
mod close_time;
mod counts;
mod others;
mod surplus;
mod unused;

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{catch_up::SharedReads, surplus::LastDeleted};
use super::{
    fan_out,
    projection::ROWS,
    writer::{Command, CommandOutcome, Import, Job, WriterHandle, advance},
};
use crate::{
    domain::{
        dataset::Dataset,
        entry::{ArchiveFile, SequencedEntry},
        observation::Observation,
        row::NewThesis,
    },
    error::{Error, Result},
    metrics::OBSERVED,
    replicas::peers::Peers,
    shared::Shared,
    store::{Consistency, StoreError},
    tables::unfinished,
};

#[derive(Default)]
struct OpenDataset {
    position: watch::Sender<u64>,
    shared_reads: Arc<SharedReads>,
    /// Position of the fan-out beside the writer here.
    fanned_out: Option<watch::Receiver<u64>>,
    writer: Option<WriterHandle>,
    last_deleted: LastDeleted,
    /// True if it was used since the last search for unused datasets.
    is_used: bool,
    /// The time of the first search for unused datasets that found no use; none if the last one found it used since the
    /// search before, or in use.
    unused_since: Option<i64>,
    first_read: Option<FirstRead>,
}

/// The first read of a position after a connection to another core, or after the dataset came into memory. Nobody may
/// have followed the log before it.
#[derive(Clone, Copy)]
struct FirstRead {
    /// The number of connections at its start.
    connections: u64,
    position: u64,
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
        let mut all = self.open.lock();
        let open = all.entry(dataset.clone()).or_default();
        open.is_used = true;
        action(open)
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
        let connections = self.peers.connections();
        let stored = self.shared.log.checkpoint(dataset.name(), ROWS).await?;
        self.with(dataset, |open| {
            open.position.send_if_modified(|position| advance(position, stored));
            if open.first_read.is_none_or(|first| first.connections < connections) {
                open.first_read = Some(FirstRead { connections, position: stored });
            }
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

    /// Appends the row of a deleted thesis without its text to a dataset's log here. That begins or ends an erasure,
    /// so a repeat does it again.
    pub async fn erase_text_here(self: &Arc<Self>, dataset: &Dataset, thesis_id: &str) -> Result<()> {
        self.run(dataset, Command::EraseText { id: thesis_id.to_owned() }).await.map(drop)
    }

    /// Appends a file of the archive to a dataset's log here. A repeat changes nothing.
    pub async fn add_file_here(self: &Arc<Self>, dataset: &Dataset, file: ArchiveFile) -> Result<()> {
        self.run(dataset, Command::AddFile(Box::new(file))).await.map(drop)
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

    /// Returns whether a dataset is in memory here.
    pub fn knows(&self, dataset: &Dataset) -> bool {
        self.open.lock().contains_key(dataset)
    }

    /// Reads the position of a dataset if notifications do not bring it: another core is not connected, or was not at
    /// the last read, or the dataset was not in memory. Returns the position up to which nobody may have followed the
    /// log.
    pub async fn refresh_unless_notified(&self, dataset: &Dataset) -> Result<u64> {
        if self.shared.backend.is_exclusive() {
            return Ok(0);
        }
        // A new connection is counted before it is published.
        let all_connected = *self.peers.all_connected().borrow();
        let connections = self.peers.connections();
        let first_read = self.with(dataset, |open| open.first_read);
        if !all_connected || first_read.is_none_or(|first| first.connections < connections) {
            self.refresh(dataset).await?;
        }
        Ok(self.with(dataset, |open| open.first_read).map_or(0, |first| first.position))
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
            // A borrow over the read would hold up whoever moves the position.
            let known = *position.borrow();
            let head = self.shared.log.head(&dataset.to_string(), known, Consistency::Quorum).await?;
            drop(self.writer(&dataset));
            // The sender lives as long as `self`.
            let _projected = position.wait_for(|position| *position >= head).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
