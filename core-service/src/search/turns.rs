//! The turns of searches on a few threads. A project has at most half of the threads, so that searches of others always
//! find one, and few of its searches wait.

use std::{collections::HashMap, sync::Arc, thread};

use parking_lot::Mutex;
use thesis_proto::error::{ApiError, ErrorCode};
use thread_priority::{ThreadPriority, ThreadPriorityValue};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    error::{Error, Result},
    figures::LIMITS,
    threads::Threads,
};

/// Searches of one project that run or wait.
const MAX_OF_PROJECT: usize = 16;
/// Seconds after which a project with too many searches may try again.
const RETRY_AFTER: u32 = 1;
/// The priority of the threads, of 100: below that of the threads that answer requests (50), above that of those that
/// hash passwords.
const PRIORITY: u8 = 25;

/// The threads of searches, and who waits for them.
pub(super) struct Turns {
    pub(super) threads: Threads,
    free: Arc<Semaphore>,
    share_of_project: usize,
    projects: Arc<Mutex<HashMap<String, Project>>>,
}

/// The searches of one project.
struct Project {
    free: Arc<Semaphore>,
    searches: usize,
}

/// A search may run until this is dropped.
pub(super) struct Turn {
    _of_project: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
    _counted: Counted,
}

/// Counts a search of a project until it is dropped.
struct Counted {
    project: String,
    projects: Arc<Mutex<HashMap<String, Project>>>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut projects = self.projects.lock();
        let Some(project) = projects.get_mut(&self.project) else { return };
        project.searches -= 1;
        if project.searches == 0 {
            projects.remove(&self.project);
        }
    }
}

impl Turns {
    /// Starts a thread for every two processors, but at least two.
    pub(super) fn new() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let threads = (processors / 2).max(2);
        let priority =
            ThreadPriorityValue::try_from(PRIORITY).map_or(ThreadPriority::Min, ThreadPriority::Crossplatform);
        Self {
            threads: Threads::start("search", threads, priority, threads),
            free: Arc::new(Semaphore::new(threads)),
            share_of_project: threads / 2,
            projects: Arc::default(),
        }
    }

    /// Waits for a turn of a project's search.
    ///
    /// # Errors
    /// `RATE_LIMITED` when too many searches of the project run or wait.
    pub(super) async fn take(&self, project: &str) -> Result<Turn> {
        let (counted, of_project) = self.count(project)?;
        let closed = |_| Error::internal("the searches' turns ended");
        let of_project = of_project.acquire_owned().await.map_err(closed)?;
        let of_all = Arc::clone(&self.free).acquire_owned().await.map_err(closed)?;
        Ok(Turn { _of_project: of_project, _of_all: of_all, _counted: counted })
    }

    fn count(&self, id: &str) -> Result<(Counted, Arc<Semaphore>)> {
        let mut projects = self.projects.lock();
        let project = projects
            .entry(id.to_owned())
            .or_insert_with(|| Project { free: Arc::new(Semaphore::new(self.share_of_project)), searches: 0 });
        if project.searches >= MAX_OF_PROJECT {
            LIMITS.at("searches").increment(1);
            let text = format!("{MAX_OF_PROJECT} searches of the project run or wait; send fewer at once");
            return Err(ApiError::new(ErrorCode::RateLimited, text).with_retry_after(RETRY_AFTER).into());
        }
        project.searches += 1;
        let counted = Counted { project: id.to_owned(), projects: Arc::clone(&self.projects) };
        Ok((counted, Arc::clone(&project.free)))
    }
}
