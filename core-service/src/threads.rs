//! Threads for work that takes long and may block. They have a lower priority than the threads that answer requests, so
//! that this work never delays the others.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
};

use parking_lot::Mutex;
use thesis_net::blocking;
use thread_priority::{ThreadPriority, ThreadPriorityValue};
use tokio::sync::{mpsc, oneshot};

type Job = Box<dyn FnOnce() + Send>;

/// A pool of threads with a queue of bounded length. The threads end with it.
pub(crate) struct Threads {
    jobs: mpsc::Sender<Job>,
}

/// The reason why a pool did not run a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotRun {
    #[error("too much work waits")]
    Full,
    /// The work panicked, or no thread is left.
    #[error("a thread that does the work failed")]
    Failed,
}

impl Threads {
    /// Starts `count` threads. At most `waiting` jobs wait for one of them.
    #[must_use]
    pub(crate) fn start(name: &'static str, count: usize, priority: ThreadPriority, waiting: usize) -> Self {
        let (jobs, queue) = mpsc::channel(waiting);
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..count.max(1) {
            let queue = Arc::clone(&queue);
            let started = thread::Builder::new().name(name.to_owned()).spawn(move || run(name, priority, &queue));
            if let Err(error) = started {
                // Without any thread all work is refused.
                tracing::error!(%error, name, "a thread did not start");
            }
        }
        Self { jobs }
    }

    /// Runs work on one of the threads, unless its caller has given up by then.
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, NotRun> {
        if blocking::is_inline() {
            return Ok(work());
        }
        let (answer, answered) = oneshot::channel();
        let job = move || {
            if !answer.is_closed() {
                drop(answer.send(work()));
            }
        };
        self.jobs.try_send(Box::new(job)).map_err(|_| NotRun::Full)?;
        #[cfg(test)]
        {
            // A paused clock does not advance while a blocking task runs.
            let blocking = tokio::task::spawn_blocking(move || answered.blocking_recv());
            blocking.await.map_err(|_| NotRun::Failed)?.map_err(|_| NotRun::Failed)
        }
        #[cfg(not(test))]
        answered.await.map_err(|_| NotRun::Failed)
    }
}

/// A priority of 100, where ordinary threads have 50.
pub(crate) fn priority(of_100: u8) -> ThreadPriority {
    ThreadPriorityValue::try_from(of_100).map_or(ThreadPriority::Min, ThreadPriority::Crossplatform)
}

fn run(name: &str, priority: ThreadPriority, queue: &Mutex<mpsc::Receiver<Job>>) {
    if let Err(error) = priority.set_for_current() {
        tracing::warn!(%error, name, "a thread runs at the priority of everything else");
    }
    loop {
        let job = queue.lock().blocking_recv();
        let Some(job) = job else { return };
        if catch_unwind(AssertUnwindSafe(job)).is_err() {
            tracing::error!(name, "work on a thread panicked");
        }
    }
}
