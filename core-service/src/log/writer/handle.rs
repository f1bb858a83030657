//! Hands jobs to a dataset's writer.

use std::sync::Arc;

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::{Writer, Written, command::Command};
use crate::{
    domain::dataset::Dataset, error::Result, replicas::peers::Peers, shared::Shared, tables::theses::ThesisStore,
};

/// Most jobs that may wait for a writer.
const WAITING: usize = 4_096;

/// A command, and where its answer goes.
pub(in crate::log) struct Job {
    pub(in crate::log) command: Command,
    pub(in crate::log) answer: oneshot::Sender<Result<Written>>,
}

/// Hands jobs to a dataset's writer.
#[derive(Clone)]
pub struct WriterHandle {
    jobs: mpsc::Sender<Job>,
    look_again: Arc<Notify>,
    theses: ThesisStore,
    followed: watch::Receiver<u64>,
}

impl WriterHandle {
    /// Starts the writer of a dataset. `position` is moved as entries are projected, and `owed` tells how far fan-out has
    /// come. When it ends, after a rest, it cancels `stop`.
    pub fn start(
        shared: Arc<Shared>,
        peers: Arc<Peers>,
        dataset: Dataset,
        position: watch::Sender<u64>,
        owed: watch::Receiver<u64>,
        stop: CancellationToken,
    ) -> Self {
        let (jobs, waiting) = mpsc::channel(WAITING);
        let writer = Writer::new(shared, peers, dataset, position, owed);
        let look_again = Arc::new(Notify::new());
        let (theses, followed) = (writer.projector.theses().clone(), writer.followed.subscribe());
        let running = writer.run(waiting, Arc::clone(&look_again), stop.clone());
        let kept = theses.clone();
        tokio::spawn(async move {
            running.await;
            // The handle may stay for long.
            kept.forget_recent();
            stop.cancel();
        });
        Self { jobs, look_again, theses, followed }
    }

    /// Whether the writer takes no more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.jobs.is_closed()
    }

    /// Hands a job to the writer; gives it back if the writer takes no more.
    pub(in crate::log) async fn send(&self, job: Job) -> std::result::Result<(), Job> {
        self.jobs.send(job).await.map_err(|refused| refused.0)
    }

    /// Makes the writer look for others' entries, and for work they left undone.
    pub fn look_again(&self) {
        self.look_again.notify_one();
    }

    /// The rows of the dataset, with the last day of busy tokens in memory, as of [`Self::followed`] or later.
    #[must_use]
    pub fn theses(&self) -> &ThesisStore {
        &self.theses
    }

    /// How far the writer has taken the log in. Others may have projected it further.
    #[must_use]
    pub fn followed(&self) -> watch::Receiver<u64> {
        self.followed.clone()
    }
}
