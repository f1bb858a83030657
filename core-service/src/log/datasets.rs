//! The datasets that this replica reads or writes: how far each is projected, and its writer and fan-out once started.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    fan_out::{self, FAN_OUT},
    projection::ROWS,
    writer::{NewThesis, WriterHandle, advance},
};
use crate::{
    domain::{dataset::Dataset, entry::Sequenced},
    error::Result,
    shared::Shared,
    store::Consistency,
    tables::{derived, wake},
};

/// How often a replica looks for entries that others appended.
const WAKE_EVERY: Duration = Duration::from_millis(50);
/// Seconds for which a hint is read again: its append is under way, and clocks differ.
const HINT_SECONDS: i64 = 2;
/// How often a replica looks for entries without a hint, and for work that another left undone.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Most looks without progress before entries not projected or not fanned out count as left undone.
const ENTRIES_PATIENCE: u32 = 2;
/// Most looks without progress before owed derived events count as left undone; they are usually owed for five seconds.
const DERIVED_PATIENCE: u32 = 8;

/// The work still to do on a dataset's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    No,
    /// Entries are not projected or not fanned out.
    Entries,
    /// Derived events are owed.
    Derived,
}

/// A dataset that may have work left undone.
#[derive(Debug, Default)]
struct Suspect {
    /// How far its rows and its fan-out had come at the last look.
    reached: (u64, u64),
    /// Looks in a row at which it was behind and had not moved since the look before.
    still: u32,
}

struct Open {
    position: watch::Sender<u64>,
    writer: Option<WriterHandle>,
}

/// The datasets of one replica.
pub struct Datasets {
    shared: Arc<Shared>,
    open: Mutex<HashMap<Dataset, Open>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Datasets {
    /// Datasets over the shared parts of a core.
    #[must_use]
    pub fn new(shared: Arc<Shared>, stop: CancellationToken, tasks: TaskTracker) -> Arc<Self> {
        Arc::new(Self { shared, open: Mutex::default(), stop, tasks })
    }

    fn with<T>(&self, dataset: &Dataset, look: impl FnOnce(&mut Open) -> T) -> T {
        let mut open = self.open.lock();
        look(open.entry(dataset.clone()).or_insert_with(|| Open { position: watch::Sender::new(0), writer: None }))
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

    /// The writer of a dataset; starts it and its fan-out when there is none yet.
    pub fn writer(self: &Arc<Self>, dataset: &Dataset) -> WriterHandle {
        self.with(dataset, |open| {
            if let Some(writer) = &open.writer {
                return writer.clone();
            }
            let position = open.position.clone();
            let writer =
                WriterHandle::start(Arc::clone(&self.shared), dataset.clone(), position.clone(), self.stop.clone());
            let fan_out =
                fan_out::run(Arc::clone(&self.shared), dataset.clone(), position.subscribe(), self.stop.clone());
            self.tasks.spawn(fan_out);
            open.writer = Some(writer.clone());
            writer
        })
    }

    /// Puts a thesis into a dataset's log.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn create_thesis(self: &Arc<Self>, dataset: &Dataset, new: NewThesis) -> Result<Sequenced> {
        self.writer(dataset).create_thesis(new).await
    }

    /// Completes the work that a crash left undone and no other replica can do, before any request is answered.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn recover(self: &Arc<Self>) -> Result<()> {
        for dataset in self.all() {
            let name = dataset.to_string();
            let mut position = self.position(&dataset).await?;
            let head = self.shared.log.head(&name, *position.borrow(), Consistency::Quorum).await?;
            if self.is_behind(&dataset).await?.0 != Behind::No {
                drop(self.writer(&dataset));
                // The sender lives as long as `self`.
                let _projected = position.wait_for(|position| *position >= head).await;
            }
        }
        Ok(())
    }

    /// Follows the entries of other replicas, and takes over work they left undone.
    pub async fn watch(self: Arc<Self>) {
        if self.shared.backend.is_exclusive() {
            return;
        }
        for dataset in self.all() {
            self.follow(&dataset).await;
        }
        let mut suspects: HashMap<Dataset, Suspect> =
            self.all().into_iter().map(|dataset| (dataset, Suspect::default())).collect();
        let mut heard = self.second();
        let mut wake = tokio::time::interval(WAKE_EVERY);
        let mut look = tokio::time::interval(LOOK_EVERY);
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return,
                _ = wake.tick() => {
                    for dataset in self.hints(&mut heard).await {
                        self.follow(&dataset).await;
                        suspects.entry(dataset).or_default();
                    }
                }
                _ = look.tick() => {
                    // A hint may have been missed; a dataset with listeners must not wait for the next.
                    for dataset in self.listened() {
                        self.follow(&dataset).await;
                        suspects.entry(dataset).or_default();
                    }
                    match derived::datasets_owing(&self.shared.backend).await {
                        Ok(owing) => {
                            for dataset in owing {
                                suspects.entry(dataset).or_default();
                            }
                        }
                        Err(error) => tracing::debug!(%error, "looking for owed events failed"),
                    }
                    self.adopt(&mut suspects).await;
                }
            }
        }
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

    /// The datasets that this replica knows of.
    #[must_use]
    pub fn all(&self) -> Vec<Dataset> {
        let state = self.shared.control.state();
        let projects = state.projects().map(|project| Dataset::Project(project.id.clone()));
        [Dataset::Live, Dataset::Sandbox].into_iter().chain(projects).collect()
    }

    fn second(&self) -> i64 {
        self.shared.clock.now_ms().div_euclid(1_000)
    }

    /// Datasets with hints of the last seconds, or since `heard`, the last time that hints were read, if that is longer ago.
    async fn hints(&self, heard: &mut i64) -> Vec<Dataset> {
        let second = self.second();
        match wake::hints(&self.shared.backend, second.min(*heard) - HINT_SECONDS, second + 1).await {
            Ok(datasets) => {
                *heard = second;
                datasets
            }
            Err(error) => {
                tracing::debug!(%error, "reading wake rows failed");
                Vec::new()
            }
        }
    }

    /// Takes over datasets that have been behind for some looks without progress: the replica at work has had its time.
    /// A dataset that moves is being worked on.
    async fn adopt(self: &Arc<Self>, suspects: &mut HashMap<Dataset, Suspect>) {
        let datasets: Vec<Dataset> = suspects.keys().cloned().collect();
        for dataset in datasets {
            let (behind, reached) = match self.is_behind(&dataset).await {
                Ok(found) => found,
                Err(error) => {
                    tracing::debug!(%dataset, %error, "looking for work left undone failed");
                    continue;
                }
            };
            // A hint may have come long before its append was done.
            self.with(&dataset, |open| open.position.send_if_modified(|position| advance(position, reached.0)));
            let patience = match behind {
                Behind::No => {
                    suspects.remove(&dataset);
                    continue;
                }
                Behind::Entries => ENTRIES_PATIENCE,
                Behind::Derived => DERIVED_PATIENCE,
            };
            let suspect = suspects.entry(dataset.clone()).or_default();
            let still = if suspect.reached == reached { suspect.still + 1 } else { 0 };
            *suspect = Suspect { reached, still };
            if still >= patience {
                suspect.still = 0;
                self.writer(&dataset).look_again();
            }
        }
    }

    /// The work still to do on a dataset, and how far its rows and its fan-out have come.
    async fn is_behind(&self, dataset: &Dataset) -> Result<(Behind, (u64, u64))> {
        let (name, log) = (dataset.to_string(), &self.shared.log);
        let rows = log.checkpoint(&name, ROWS).await?;
        let head = log.head(&name, rows, Consistency::Quorum).await?;
        let fan_out = log.checkpoint(&name, FAN_OUT).await?;
        let behind = if head > rows || fan_out < rows {
            Behind::Entries
        } else if derived::owing(&self.shared.backend, &name, 1).await?.is_empty() {
            Behind::No
        } else {
            Behind::Derived
        };
        Ok((behind, (rows, fan_out)))
    }
}

#[cfg(test)]
mod tests;
