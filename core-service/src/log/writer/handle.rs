//! Hands jobs to a dataset's writer.

use std::sync::Arc;

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::{CommandOutcome, Writer, command::Command};
use crate::{
    domain::dataset::Dataset, error::Result, replicas::peers::Peers, shared::Shared, tables::theses::ThesisStore,
};

const MAX_WAITING_JOBS: usize = 4_096;

/// A command, and the channel for its result.
pub(in crate::log) struct Job {
    pub(in crate::log) command: Command,
    pub(in crate::log) response: oneshot::Sender<Result<CommandOutcome>>,
}

#[derive(Clone)]
pub struct WriterHandle {
    jobs: mpsc::Sender<Job>,
    catch_up_requested: Arc<Notify>,
    theses: ThesisStore,
    followed: watch::Receiver<u64>,
}

impl WriterHandle {
    /// Starts the writer of a dataset. The writer moves `position` as it projects entries. `fanned_out` is the position
    /// of the fan-out. When the writer ends after a rest, it cancels `stop`.
    pub fn start(
        shared: Arc<Shared>,
        peers: Arc<Peers>,
        dataset: Dataset,
        position: watch::Sender<u64>,
        fanned_out: watch::Receiver<u64>,
        stop: CancellationToken,
    ) -> Self {
        let (jobs, waiting) = mpsc::channel(MAX_WAITING_JOBS);
        let writer = Writer::new(shared, peers, dataset, position, fanned_out);
        let catch_up_requested = Arc::new(Notify::new());
        let (theses, followed) = (writer.projector.theses().clone(), writer.position.followed.subscribe());
        let running = writer.run(waiting, Arc::clone(&catch_up_requested), stop.clone());
        let cached_theses = theses.clone();
        tokio::spawn(async move {
            running.await;
            // The handle may live long after the writer.
            cached_theses.forget_recent();
            stop.cancel();
        });
        Self { jobs, catch_up_requested, theses, followed }
    }

    pub fn has_ended(&self) -> bool {
        self.jobs.is_closed()
    }

    /// Hands a job to the writer. Returns the job if the writer takes no more jobs.
    pub(in crate::log) async fn send(&self, job: Job) -> std::result::Result<(), Job> {
        self.jobs.send(job).await.map_err(|refused| refused.0)
    }

    /// Makes the writer follow the entries of other writers and finish the work that they left.
    pub fn request_catch_up(&self) {
        self.catch_up_requested.notify_one();
    }

    /// The rows of the dataset, with the last day of busy tokens in memory, as of [`Self::followed`] or later.
    pub fn theses(&self) -> &ThesisStore {
        &self.theses
    }

    /// The position up to which the writer has applied the log. Other writers may have projected it further.
    pub fn followed(&self) -> watch::Receiver<u64> {
        self.followed.clone()
    }
}
