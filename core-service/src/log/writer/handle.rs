//! Hands jobs to a dataset's writer.

use std::sync::Arc;

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::{Writer, Written, command::Command};
use crate::{
    domain::{dataset::Dataset, entry::Sequenced, observation::Observation, row::NewThesis},
    error::{Error, Result},
    shared::Shared,
    store::StoreError,
};

/// Most jobs that may wait for a writer.
const WAITING: usize = 4_096;

/// A command, and where its answer goes.
pub(super) struct Job {
    pub(super) command: Command,
    pub(super) answer: oneshot::Sender<Result<Written>>,
}

/// Hands jobs to a dataset's writer.
#[derive(Clone)]
pub struct WriterHandle {
    jobs: mpsc::Sender<Job>,
    look_again: Arc<Notify>,
}

impl WriterHandle {
    /// Starts the writer of a dataset. `position` is moved as entries are projected, and `owed` tells how far fan-out has
    /// come. When it ends, after a rest, it cancels `stop`.
    pub fn start(
        shared: Arc<Shared>,
        dataset: Dataset,
        position: watch::Sender<u64>,
        owed: watch::Receiver<u64>,
        stop: CancellationToken,
    ) -> Self {
        let (jobs, waiting) = mpsc::channel(WAITING);
        let writer = Writer::new(shared, dataset, position, owed);
        let look_again = Arc::new(Notify::new());
        let running = writer.run(waiting, Arc::clone(&look_again), stop.clone());
        tokio::spawn(async move {
            running.await;
            stop.cancel();
        });
        Self { jobs, look_again }
    }

    /// Whether the writer takes no more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.jobs.is_closed()
    }

    /// Puts a thesis into the log, or finds it there. Answers once its rows can be read.
    ///
    /// # Errors
    /// When the store does not answer; whether it was written is then unknown, and doing it again is safe.
    pub async fn create_thesis(&self, new: NewThesis) -> Result<Sequenced> {
        let written = self.run(Command::Create(Box::new(new))).await?;
        written.entry.ok_or_else(|| Error::internal("a thesis was written nowhere"))
    }

    /// Puts the news of an observation into the log. Doing it again changes nothing.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn observe(&self, observation: Observation) -> Result<Written> {
        self.run(Command::Observe(Box::new(observation))).await
    }

    /// Makes the writer look for others' entries, and for work they left undone.
    pub fn look_again(&self) {
        self.look_again.notify_one();
    }

    async fn run(&self, command: Command) -> Result<Written> {
        let (answer, answered) = oneshot::channel();
        let gone = || Error::from(StoreError::Unavailable("the writer has stopped".to_owned()));
        self.jobs.send(Job { command, answer }).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}
