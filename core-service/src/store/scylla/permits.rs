//! Permits for requests to the cluster. When it is busy, requests wait here, where giving up costs nothing.
//!
//! At most 64 requests of a core are under way. A request about several partitions counts as one for each of them,
//! since the cluster has as much work with it. The time of a request starts when it is sent.

use std::time::Duration;

use tokio::{sync::Semaphore, time::timeout};

use super::{StoreError, StoreResult};

/// Maximum number of requests that this process has under way, each counted for each of its partitions.
const MAX_REQUESTS: usize = 64;

/// The time that a request may take, and the error of one that was sent and takes longer.
#[derive(Clone, Copy)]
pub(super) struct TimeLimit {
    pub(super) time: Duration,
    pub(super) exceeded: fn(String) -> StoreError,
}

pub(super) struct RequestPermits(Semaphore);

impl RequestPermits {
    pub(super) fn new() -> Self {
        Self(Semaphore::new(MAX_REQUESTS))
    }

    /// Waits for a permit for each of these partitions, and then for `request`. The limit holds for each of the two: a
    /// request that waited for its permits still has its whole time at the cluster.
    pub(super) async fn run<T>(
        &self,
        partitions: usize,
        limit: TimeLimit,
        request: impl Future<Output = StoreResult<T>> + Send,
    ) -> StoreResult<T> {
        let TimeLimit { time, exceeded } = limit;
        let ms = time.as_millis();
        let permits = u32::try_from(partitions.min(MAX_REQUESTS)).expect("it is at most 64");
        let Ok(_permits) = timeout(time, self.0.acquire_many(permits)).await else {
            return Err(StoreError::Unavailable(format!("not sent: no permit within {ms} ms")));
        };
        timeout(time, request).await.unwrap_or_else(|_| Err(exceeded(format!("no answer within {ms} ms"))))
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;
    use tokio::time::{Instant, sleep};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(2);
    const LIMIT: TimeLimit = TimeLimit { time: TIMEOUT, exceeded: StoreError::InDoubt };

    async fn run(permits: &RequestPermits, partitions: usize, takes: Duration) -> StoreResult<()> {
        let request = async {
            sleep(takes).await;
            Ok(())
        };
        permits.run(partitions, LIMIT, request).await
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_request_starts_when_it_is_sent() {
        let permits = RequestPermits::new();
        let nearly_all = TIMEOUT * 3 / 4;
        // The second half waits until the first is through.
        let outcomes = join_all((0..2 * MAX_REQUESTS).map(|_| run(&permits, 1, nearly_all))).await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let late = run(&permits, 1, TIMEOUT * 2).await;
        assert!(matches!(late, Err(StoreError::InDoubt(_))), "{late:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_counts_for_each_of_its_partitions() {
        let permits = RequestPermits::new();
        let (started, second) = (Instant::now(), Duration::from_secs(1));
        let requests = [MAX_REQUESTS / 2, MAX_REQUESTS / 2, 1].map(|partitions| run(&permits, partitions, second));
        let outcomes = join_all(requests).await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        // The third one waits for the others.
        assert!(started.elapsed() >= 2 * second);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_permit_for_ever() {
        let permits = RequestPermits::new();
        let _taken = permits.0.acquire_many(MAX_REQUESTS as u32).await.unwrap();
        let refused = run(&permits, 1, Duration::ZERO).await;
        // Nothing was sent, so there is no doubt.
        assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    }
}
