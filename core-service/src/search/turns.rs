//! The turns of searches on a few threads. An organization has at most half of the threads, so searches of other
//! organizations always find one. Only few of its searches may wait.

use std::{collections::HashMap, sync::Arc, thread};

use parking_lot::Mutex;
use thesis_proto::error::{ApiError, ErrorCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    error::{Error, Result},
    metrics::LIMITS,
    named_slots::{NamedSlots, TakenSlots},
    threads::{self, Threads},
};

/// Maximum number of searches of one organization that run or wait.
const MAX_OF_ORGANIZATION: usize = 16;
/// Maximum number of searches of all organizations that run or wait.
const MAX_OF_ALL: usize = 256;
/// Seconds after which a client may retry a search that found no place.
const RETRY_AFTER_SECONDS: u32 = 1;
/// The priority of the threads, of 100: below that of the threads that answer requests (50) and of those that hash the
/// passwords of known people (45).
const PRIORITY: u8 = 12;

/// The threads of searches, and the queue for them.
pub(super) struct Turns {
    pub(super) threads: Threads,
    /// Free threads. Each organization waits here with at most its share of searches, so turns go round.
    free: Arc<Semaphore>,
    share: usize,
    /// The rest of each organization's share of threads.
    organizations: Mutex<HashMap<String, Arc<Semaphore>>>,
    places: NamedSlots,
}

/// A search may run until its turn is dropped.
pub(super) struct Turn {
    _of_organization: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
    _place: TakenSlots,
}

impl Turns {
    /// Starts a thread for every two processors, but at least two.
    pub(super) fn new() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let threads = (processors / 2).max(2);
        Self {
            threads: Threads::start("search", threads, threads::priority(PRIORITY), threads),
            free: Arc::new(Semaphore::new(threads)),
            share: threads / 2,
            organizations: Mutex::default(),
            places: NamedSlots::default(),
        }
    }

    /// Waits for the turn of an organization's search. Refuses with `RATE_LIMITED` when too many searches of the
    /// organization run or wait, and with `SERVICE_UNAVAILABLE` when too many of all do.
    pub(super) async fn take_turn(&self, organization: &str) -> Result<Turn> {
        let place = self.take_place(organization)?;
        let of_organization = self.share_of(organization).acquire_owned().await.map_err(Error::internal)?;
        let of_all = Arc::clone(&self.free).acquire_owned().await.map_err(Error::internal)?;
        Ok(Turn { _of_organization: of_organization, _of_all: of_all, _place: place })
    }

    fn take_place(&self, organization: &str) -> Result<TakenSlots> {
        let limits = [(String::new(), MAX_OF_ALL), (organization.to_owned(), MAX_OF_ORGANIZATION)];
        self.places.take_slots(limits).map_err(|full| {
            LIMITS.at("searches").increment(1);
            if full == 0 {
                return ApiError::unavailable().into();
            }
            let text = format!("{MAX_OF_ORGANIZATION} searches of the organization run or wait; send fewer at once");
            ApiError::new(ErrorCode::RateLimited, text).with_retry_after(RETRY_AFTER_SECONDS).into()
        })
    }

    fn share_of(&self, organization: &str) -> Arc<Semaphore> {
        let mut organizations = self.organizations.lock();
        // An organization without a search needs no entry.
        organizations.retain(|_, share| Arc::strong_count(share) > 1);
        let share = organizations.entry(organization.to_owned());
        Arc::clone(share.or_insert_with(|| Arc::new(Semaphore::new(self.share))))
    }
}
