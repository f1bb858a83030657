//! Permits for requests to the cluster. When it is busy, requests wait here, where giving up costs nothing.
//!
//! At most 64 requests of a core are under way. The time of a request starts when it is sent.

use std::time::Duration;

use tokio::{sync::Semaphore, time::timeout};

use super::{StoreError, StoreResult};

/// Maximum number of requests that this process has under way.
const MAX_REQUESTS: usize = 64;

pub(super) struct RequestPermits(Semaphore);

impl RequestPermits {
    pub(super) fn new() -> Self {
        Self(Semaphore::new(MAX_REQUESTS))
    }

    /// Waits for a permit and then for `request`, at most `limit` for each: a request that waited for its permit still
    /// has its whole time at the cluster. `late` and `wrong` create the errors of a request that was sent.
    pub(super) async fn run<T, E>(
        &self,
        limit: Duration,
        request: impl Future<Output = Result<T, E>> + Send,
        late: fn(String) -> StoreError,
        wrong: impl FnOnce(E) -> StoreError,
    ) -> StoreResult<T> {
        let ms = limit.as_millis();
        let Ok(_permit) = timeout(limit, self.0.acquire()).await else {
            return Err(StoreError::Unavailable(format!("not sent: no leave to ask within {ms} ms")));
        };
        timeout(limit, request).await.map_err(|_| late(format!("no answer within {ms} ms")))?.map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;
    use tokio::time::sleep;

    use super::*;

    /// Timeout of the permit, and again of the request.
    const TIMEOUT: Duration = Duration::from_secs(2);

    async fn run(permits: &RequestPermits, takes: Duration) -> StoreResult<()> {
        let request = async {
            sleep(takes).await;
            Ok::<(), String>(())
        };
        permits.run(TIMEOUT, request, StoreError::InDoubt, StoreError::Unavailable).await
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_request_starts_when_it_is_sent() {
        let permits = RequestPermits::new();
        let nearly_all = TIMEOUT * 3 / 4;
        // The second half waits until the first is through.
        let outcomes = join_all((0..2 * MAX_REQUESTS).map(|_| run(&permits, nearly_all))).await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let late = run(&permits, TIMEOUT * 2).await;
        assert!(matches!(late, Err(StoreError::InDoubt(_))), "{late:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_permit_for_ever() {
        let permits = RequestPermits::new();
        let _taken = permits.0.acquire_many(MAX_REQUESTS as u32).await.unwrap();
        let refused = run(&permits, Duration::ZERO).await;
        // Nothing was sent, so there is no doubt.
        assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    }
}
