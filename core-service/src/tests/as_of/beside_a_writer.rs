//! Figures as of a time at one core while another one writes, and closed times.

use super::*;

/// Number of steps. They take about a day.
const STEPS: u32 = 120;
/// Number of random times of a token at which figures are compared after some steps.
const TIMES: usize = 2;

/// Compares figures between the steps of a writer. A few steps change some of the hours that the reader has in memory.
/// After many steps, the reader does not apply the entries, and does not know which hours they changed.
async fn compare_between_steps([writer, reader]: [&Arc<Core>; 2], clock: &ManualClock, dataset: &Dataset, key: &str) {
    let mut history = History { random: ids(12), created_at: HashMap::new() };
    for number in 0..STEPS {
        step(writer, clock, &mut history, dataset, number).await;
        // The first steps introduce the tokens.
        if number < LIVE_TOKENS || history.below(4) > 0 {
            continue;
        }
        // The clock has jumped since the reader last read it.
        reader.shared.control.refresh().await.unwrap();
        let call = call(reader, key);
        for dataset in call.caller.view.datasets() {
            // The reader does not close the time itself, so it writes nothing.
            writer.datasets.close_time_here(dataset, call.now_ms).await.unwrap();
        }
        let logs = logs(reader, &call.caller.view).await;
        let present = theses_at(&logs, i64::MAX);
        for token in tokens_of(dataset) {
            for _ in 0..TIMES {
                let at = call.now_ms - history.below(DAY_MS);
                compare(&logs, &present, &token, at, &request_figures(reader, &call, &token, at).await);
            }
        }
    }
}

async fn figures_follow_the_writer_on(backend: SharedBackend, clock: &Arc<ManualClock>) {
    let writer = core(Arc::clone(&backend), clock, 1).await;
    let reader = if backend.is_exclusive() { Arc::clone(&writer) } else { core(backend, clock, 2).await };
    for (dataset, key) in [(Dataset::Live, LIVE_KEY), (project(), TEST_KEY)] {
        compare_between_steps([&writer, &reader], clock, &dataset, key).await;
    }
}

#[tokio::test]
async fn figures_as_of_a_time_follow_the_writer_on_the_embedded_store() {
    let clock = ManualClock::new();
    figures_follow_the_writer_on(memory(&clock), &clock).await;
}

#[tokio::test]
async fn figures_as_of_a_time_follow_the_writer_at_another_core() {
    let clock = ManualClock::new();
    figures_follow_the_writer_on(shared_memory(&clock), &clock).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_as_of_a_time_follow_the_writer_on_a_cluster() {
    if let Some(store) = cluster("as_of_beside").await {
        figures_follow_the_writer_on(store, &ManualClock::new()).await;
    }
}

#[tokio::test]
async fn a_closed_time_gets_no_more_entries() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let cores = [core(Arc::clone(&backend), &clock, 1).await, core(backend, &clock, 2).await];
    observe_live(&cores[0], 0, 1, NOON).await;
    // Both logs have this head, and the clock stands still.
    for (number, at) in [(1, NOON), (2, NOON + 1), (3, NOON + 1)] {
        let [writer, reader] =
            if u32::is_multiple_of(number, 2) { [&cores[1], &cores[0]] } else { [&cores[0], &cores[1]] };
        let closed = reader.datasets.close_time(&Dataset::Live, at).await.unwrap();
        let fillers = fillers_in(&logs(reader, &View::live()).await);
        reader.datasets.close_time(&Dataset::Live, at).await.unwrap();
        observe_live(writer, number, 1, NOON).await;
        let log = logs(writer, &View::live()).await;
        assert_eq!(fillers_in(&log), fillers, "it is closed once");
        let later: Vec<_> = log.iter().map(|of| &of.entry).skip(usize::try_from(closed).unwrap()).collect();
        assert!(later.iter().any(|entry| matches!(entry.kind, Some(Kind::ThesisCreated(_)))));
        assert!(later.iter().all(|entry| entry.created_at > at), "{at}: {later:?}");
    }
    assert!(fillers_in(&logs(&cores[0], &View::live()).await) > 0);
}

fn fillers_in(log: &[SequencedEntry]) -> usize {
    log.iter().filter(|sequenced| sequenced.entry.kind.is_none()).count()
}
