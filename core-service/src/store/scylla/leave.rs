//! Leave to ask the cluster: requests that it is too busy for wait here, where giving up costs nothing.

use std::time::Duration;

use tokio::{sync::Semaphore, time::timeout};

use super::{StoreError, StoreResult};

/// Most requests that this process has under way.
const AT_ONCE: usize = 64;

/// Places for requests under way.
pub(super) struct Leave(Semaphore);

impl Leave {
    pub(super) fn new() -> Self {
        Self(Semaphore::new(AT_ONCE))
    }

    /// Waits for leave and then for `request`, at most `limit` for each: a request that waited for leave still has its
    /// whole time at the cluster. `late` and `wrong` make the errors of a request that was sent.
    pub(super) async fn ask<T, E>(
        &self,
        limit: Duration,
        request: impl Future<Output = Result<T, E>> + Send,
        late: fn(String) -> StoreError,
        wrong: impl FnOnce(E) -> StoreError,
    ) -> StoreResult<T> {
        let ms = limit.as_millis();
        let Ok(_leave) = timeout(limit, self.0.acquire()).await else {
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

    /// Longest wait for leave, and longest time of a request after it.
    const LIMIT: Duration = Duration::from_secs(2);

    async fn ask(leave: &Leave, takes: Duration) -> StoreResult<()> {
        let request = async {
            sleep(takes).await;
            Ok::<(), String>(())
        };
        leave.ask(LIMIT, request, StoreError::InDoubt, StoreError::Unavailable).await
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_request_starts_when_it_is_sent() {
        let leave = Leave::new();
        let most_of_it = LIMIT * 3 / 4;
        // The second half waits until the first is through.
        let asked = join_all((0..2 * AT_ONCE).map(|_| ask(&leave, most_of_it))).await;
        assert!(asked.iter().all(Result::is_ok), "{asked:?}");
        let late = ask(&leave, LIMIT * 2).await;
        assert!(matches!(late, Err(StoreError::InDoubt(_))), "{late:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_leave_for_ever() {
        let leave = Leave::new();
        let _taken = leave.0.acquire_many(AT_ONCE as u32).await.unwrap();
        let refused = ask(&leave, Duration::ZERO).await;
        // Nothing was sent, so there is no doubt.
        assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    }
}
