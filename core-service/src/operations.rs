//! The operations, one file each, and the parts of a core that they work with.

pub mod account;
pub mod admin;
pub mod create_test_thesis;
pub mod create_webhook;
pub mod delete_webhook;
pub mod ended_sessions;
pub mod get_delivery;
pub mod get_event;
pub mod get_profile;
pub mod get_profile_wallets;
pub mod get_thesis;
pub mod get_thesis_velocity;
pub mod get_token;
pub mod get_token_activity;
pub mod get_usage;
pub mod get_webhook;
pub mod list_deliveries;
pub mod list_events;
pub mod list_theses;
pub mod list_webhooks;
mod missing;
pub mod open_stream;
mod refresh;
pub mod replay_delivery;
pub mod resolve;
pub mod rotate_webhook_secret;
pub mod search;
pub mod stream_tickets;
pub mod test_webhook;
mod theses;
mod token_counts;
pub mod update_webhook;
pub mod verify_thesis;

use std::sync::{Arc, OnceLock};

use secrecy::SecretString;
use thesis_net::trace;
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    access::{gate::Gate, idempotency::Idempotency, key_usage::KeyUsage, open_streams::OpenStreams},
    accounts::Accounts,
    delivery::{dispatch::Dispatcher, vet_url::UrlVetter},
    error::{Error, Result},
    ingest::{pushes::Pushes, upstream::Upstream},
    log::datasets::Datasets,
    replicas::{members::Members, peers::Peers, stream_slots::StreamSlots},
    search::SearchIndex,
    shared::Shared,
};

pub use self::missing::NEAR_LOOKS_AT_ONCE;

/// A running core.
pub struct Core {
    /// What the use cases share.
    pub shared: Arc<Shared>,
    /// The checks before every operation.
    pub gate: Arc<Gate>,
    /// Datasets with their writers.
    pub datasets: Arc<Datasets>,
    /// Where live data comes from; none where nothing is followed.
    pub upstream: Option<Arc<Upstream>>,
    /// Observations that others push.
    pub pushes: Pushes,
    /// The search index.
    pub search: Arc<SearchIndex>,
    /// The places of looks for near names.
    pub near_looks: Arc<Semaphore>,
    /// Answers kept for idempotency keys.
    pub idempotency: Idempotency,
    /// Hands out due attempts.
    pub dispatcher: Arc<Dispatcher>,
    /// The cores that live.
    pub members: Arc<Members>,
    /// The other cores.
    pub peers: Arc<Peers>,
    /// The places of open streams.
    pub slots: Arc<StreamSlots>,
    /// The streams that are open at this core.
    pub open_streams: Arc<OpenStreams>,
    /// What people sign in with.
    pub accounts: Accounts,
    /// What keys are used for.
    pub key_usage: Arc<KeyUsage>,
    /// The link that makes the first administrator, if there was none at the start.
    pub set_up_link: OnceLock<SecretString>,
    /// Judges webhook URLs.
    pub urls: UrlVetter,
    /// Cancelled when the core stops.
    pub stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

impl Core {
    /// Does work that changes state. Once it has begun it goes on to its end, whether or not its caller waits for that.
    /// While the store is away nothing begins: it would only wait there, and callers may be many.
    ///
    /// # Errors
    /// Those of the work, or when it panics.
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
