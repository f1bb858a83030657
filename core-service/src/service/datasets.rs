//! The datasets that this replica reads or writes: how far each is projected, and its writer and fan-out once it has one.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    core::Shared,
    error::Result,
    fan_out::{self, FAN_OUT},
    projection::{DERIVE_SLOTS, ROWS},
    writer::{NewThesis, WriterHandle, advance},
};
use crate::{
    domain::{dataset::Dataset, entry::Sequenced},
    key,
    store::{Consistency, Scan, tables},
};

/// How often a replica looks for what others have appended.
const WAKE_EVERY: Duration = Duration::from_millis(50);
/// How often a replica looks for work that another has left undone.
const ORPHANS_EVERY: Duration = Duration::from_secs(2);

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

    /// The writer of a dataset, started when there is none yet; its fan-out with it.
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

    /// Follows what other replicas append, and takes over what they left undone.
    pub async fn watch(self: Arc<Self>) {
        self.adopt_orphans(&self.all()).await;
        let mut wake = tokio::time::interval(WAKE_EVERY);
        let mut orphans = tokio::time::interval(ORPHANS_EVERY);
        let mut woken: HashMap<Dataset, ()> = HashMap::new();
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return,
                _ = wake.tick(), if !self.shared.backend.is_exclusive() => {
                    for dataset in self.hints().await {
                        if let Err(error) = self.refresh(&dataset).await {
                            tracing::debug!(%dataset, %error, "reading a position failed");
                        }
                        woken.insert(dataset, ());
                    }
                }
                _ = orphans.tick(), if !self.shared.backend.is_exclusive() => {
                    let mut suspects: Vec<Dataset> = woken.drain().map(|(dataset, ())| dataset).collect();
                    suspects.extend(self.owing().await);
                    self.adopt_orphans(&suspects).await;
                }
            }
        }
    }

    fn all(&self) -> Vec<Dataset> {
        let state = self.shared.control.state();
        let projects = state.projects().map(|project| Dataset::Project(project.id.clone()));
        [Dataset::Live, Dataset::Sandbox].into_iter().chain(projects).collect()
    }

    /// Datasets that somebody appended to in the last seconds.
    async fn hints(&self) -> Vec<Dataset> {
        let second = self.shared.clock.now_ms().div_euclid(1_000);
        let mut datasets = Vec::new();
        for second in second - 2..=second + 1 {
            match self.shared.backend.scan(&Scan::all(&tables::WAKE, key![second], 10_000)).await {
                Ok(rows) => {
                    datasets.extend(rows.iter().filter_map(|row| Dataset::parse(row.clustering.first()?.text())))
                }
                Err(error) => tracing::debug!(%error, "reading wake rows failed"),
            }
        }
        datasets.sort_unstable();
        datasets.dedup();
        datasets
    }

    /// Datasets with tokens that owe derived events.
    async fn owing(&self) -> Vec<Dataset> {
        let mut datasets = Vec::new();
        for slot in 0..DERIVE_SLOTS {
            if let Ok(rows) = self.shared.backend.scan(&Scan::all(&tables::DERIVE_DUE, key![slot], 10_000)).await {
                datasets.extend(rows.iter().filter_map(|row| Dataset::parse(row.clustering.first()?.text())));
            }
        }
        datasets.sort_unstable();
        datasets.dedup();
        datasets
    }

    /// Starts the writers of datasets whose projection, derived events or fan-out are behind; they catch up first.
    async fn adopt_orphans(self: &Arc<Self>, datasets: &[Dataset]) {
        for dataset in datasets {
            let has_writer = self.with(dataset, |open| open.writer.is_some());
            match self.is_behind(dataset).await {
                Ok(true) if !has_writer => drop(self.writer(dataset)),
                Ok(_) => {}
                Err(error) => tracing::debug!(%dataset, %error, "looking for work left undone failed"),
            }
        }
    }

    async fn is_behind(&self, dataset: &Dataset) -> Result<bool> {
        let (name, log) = (dataset.to_string(), &self.shared.log);
        let rows = log.checkpoint(&name, ROWS).await?;
        let head = log.head(&name, rows, Consistency::Quorum).await?;
        let owes = {
            let mut scan = Scan::all(&tables::DERIVE_DUE, key![super::projection::derive_slot(&name)], 1);
            scan.from = std::ops::Bound::Included(key![&name]);
            scan.to = std::ops::Bound::Included(key![&name]);
            !self.shared.backend.scan(&scan).await?.is_empty()
        };
        Ok(head > rows || owes || log.checkpoint(&name, FAN_OUT).await? < rows)
    }
}
