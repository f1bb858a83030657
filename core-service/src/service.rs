//! A running core: the parts that operations work with.

use std::sync::{Arc, OnceLock};

use secrecy::SecretString;
use thesis_net::trace;
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    access::{
        gate::Gate, idempotency::Idempotency, key_usage::KeyUsage, open_streams::OpenStreams, request_log::RequestLog,
    },
    accounts::Accounts,
    archive::Archive,
    delivery::{dispatch::Dispatcher, vet_url::UrlVetter},
    error::{Error, Result},
    ingest::{pushes::Pushes, upstream::Upstream},
    log::{datasets::Datasets, tree::Trees},
    replicas::{members::Members, peers::Peers, processes::Processes, stream_slots::StreamSlots},
    search::SearchIndex,
    shared::Shared,
};

/// A running core.
pub struct Core {
    /// State that all use cases share.
    pub shared: Arc<Shared>,
    /// The checks before every operation.
    pub gate: Arc<Gate>,
    /// Datasets with their writers.
    pub datasets: Arc<Datasets>,
    /// The archive; none without a place for its files.
    pub(crate) archive: Option<Arc<Archive>>,
    /// The trees over the logs; none without a key that signs them.
    pub trees: Option<Arc<Trees>>,
    /// The source of live data; none if this core follows no upstream.
    pub(crate) upstream: Option<Arc<Upstream>>,
    pub(crate) pushes: Pushes,
    /// The search index.
    pub search: Arc<SearchIndex>,
    /// Permits for searches of near names.
    pub(crate) near_searches: Arc<Semaphore>,
    pub(crate) idempotency: Idempotency,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) members: Arc<Members>,
    /// The other cores.
    pub peers: Arc<Peers>,
    /// The processes of the cluster, for the public status.
    pub(crate) processes: Processes,
    /// The limit of open streams per project.
    pub(crate) slots: Arc<StreamSlots>,
    pub(crate) open_streams: Arc<OpenStreams>,
    pub(crate) accounts: Accounts,
    pub(crate) key_usage: Arc<KeyUsage>,
    /// The request log.
    pub(crate) request_log: RequestLog,
    /// The link that creates the first administrator, if there is none at the start.
    pub set_up_link: OnceLock<SecretString>,
    pub(crate) urls: UrlVetter,
    /// Cancelled when the core stops.
    pub stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

impl Core {
    /// Returns once there is an administrator, or when the core stops.
    pub async fn until_administrator(&self) {
        let mut changes = self.shared.control.changes();
        while self.shared.control.state().people().administrators() == 0 {
            let is_over = tokio::select! {
                changed = changes.changed() => changed.is_err(),
                () = self.stop.cancelled() => true,
            };
            if is_over {
                return;
            }
        }
    }

    /// Runs work that changes state. Once started, it continues to its end although its caller may give up. While the
    /// store is unavailable no work starts: it could only wait for the store, and there may be many callers.
    pub(crate) async fn run_to_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        if let Some(mut away) = self.shared.backend.away() {
            // The sender lives as long as the store.
            drop(away.wait_for(|away| !*away).await);
        }
        let work = trace::within(trace::current(), work);
        self.tasks.spawn(work).await.map_err(Error::internal)?
    }
}
