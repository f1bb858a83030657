//! The requests that a lone thesis takes on a cluster.

use super::*;
use crate::domain::observation::{Observation, ObservedThing};

/// Maximum number of requests for the `live` log and its rows: a read of the thesis, its append with the derived
/// events, its rows in one or two batches, their checkpoint, and that of the fan-out. Besides, a core reads the head of
/// the control log, stores the position in the upstream's feed, and notes twice a minute that it appends.
const MAX_REQUESTS: usize = 6;
/// Background tasks make requests each second or two, so the same number in most spans of this length.
const SPAN: Duration = Duration::from_millis(2_100);

fn median(numbers: &[usize]) -> usize {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

#[tokio::test(start_paused = true)]
async fn a_lone_thesis_with_its_derived_events_takes_few_requests() {
    let clock = ManualClock::new();
    let backend = SharedMemory::without_threads();
    let core = core(backend.clone(), &clock, 1).await;
    let requests = async || {
        tokio::time::sleep(SPAN).await;
        let made = backend.requests();
        backend.count_requests("live");
        made
    };
    backend.count_requests("live");
    let (mut idle, mut lone) = (Vec::new(), Vec::new());
    // The author, the token and their buckets are known after the first ones.
    for number in 1..8 {
        clock.advance(2 * DERIVE_EVERY_MS);
        let now_ms = clock_now(&core);
        let seen = observed_thesis(&format!("post {number}"), "text");
        let seen = ObservedThesis { created_at: now_ms, updated_at: now_ms, ..seen };
        let seen = ObservedThing::Thesis(Box::new(seen));
        let observation = Observation { observed_at: now_ms, revision: Some(now_ms), seen };
        core.datasets.observe_here(&Dataset::Live, observation).await.unwrap();
        lone.push(requests().await);
        idle.push(requests().await);
        let log = entries(&core, &Dataset::Live).await;
        let Some(Kind::TokenActivity(activity)) = &log[3 * number - 2].entry.kind else { panic!("{log:?}") };
        assert_eq!((log.len(), activity.thesis_count_24h), (3 * number, i64::try_from(number).unwrap()));
        // The requests of this test do not count.
        backend.count_requests("live");
    }
    let least = median(&idle) + 1;
    assert!(
        (least..=median(&idle) + MAX_REQUESTS).contains(&median(&lone)),
        "{lone:?} requests, {idle:?} without a thesis"
    );
}
