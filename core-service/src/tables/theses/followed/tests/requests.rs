//! The requests of a core for what it has read before, while nobody writes.

use std::time::Duration;

use thesis_proto::v1;

use super::lists::{admitted, observe, thesis, thesis_of_its_own};
use crate::{
    access::gate::Call,
    domain::{dataset::Dataset, operation::Operation},
    operations::{get_token_activity::get_token_activity, list_events::list_events, list_theses::list_theses},
    service::Core,
    store::schema,
    tests::harness::{LIVE_KEY, ManualClock, NOON, SharedMemory, TEST_KEY, core, new_thesis},
};

/// Maximum number of requests for the events of a token: the position, a part of the index, the entries that are not in
/// memory, and these once more if they are in two partitions.
const MAX_EVENT_REQUESTS: usize = 4;

/// A key of a core, and the dataset whose requests are counted.
struct Bench<'a> {
    core: &'a Core,
    key: &'a str,
    store: &'a SharedMemory,
    dataset: &'a str,
}

impl Bench<'_> {
    /// Counts the requests of the third of three equal reads.
    async fn requests(&self, read: impl AsyncFn()) -> usize {
        read().await;
        read().await;
        self.store.count_requests(self.dataset);
        read().await;
        self.store.requests()
    }

    fn call(&self, operation: Operation, renders: bool) -> Call {
        let mut call = admitted(self.core, self.key, operation);
        call.meta.renders = renders;
        call
    }

    async fn list(&self, request: v1::ListThesesRequest, shown: usize) -> usize {
        let call = self.call(Operation::ListTheses, false);
        let request = v1::ListThesesRequest { limit: Some(25), ..request };
        let read = async || {
            let page = list_theses(self.core, &call, request.clone()).await.unwrap();
            assert_eq!(page.data.len(), shown, "{request:?}");
        };
        self.requests(read).await
    }

    async fn activity(&self, token: &str) -> usize {
        let call = self.call(Operation::GetTokenActivity, false);
        let request = v1::GetTokenActivityRequest { r#ref: token.to_owned(), ..Default::default() };
        let read = async || {
            let activity = get_token_activity(self.core, &call, request.clone()).await.unwrap().activity.unwrap();
            assert_eq!((activity.thesis_count_24h, activity.recent_theses.len()), (1, 1));
        };
        self.requests(read).await
    }

    async fn events(&self, tokens: &[&str], renders: bool) -> usize {
        let call = self.call(Operation::ListEvents, renders);
        let token = tokens.iter().map(|token| (*token).to_owned()).collect();
        let filters = (!tokens.is_empty()).then(|| v1::EventFilters { token, ..v1::EventFilters::default() });
        let request = v1::ListEventsRequest { filters, limit: Some(25), ..v1::ListEventsRequest::default() };
        let read = async || {
            let page = list_events(self.core, &call, request.clone()).await.unwrap();
            let rows = call.rendered.lock().take().map_or(0, |rows| rows.0.len());
            assert_eq!(page.data.len() + rows, 25);
        };
        self.requests(read).await
    }
}

fn by(handle: Option<&str>, token: Option<&str>) -> v1::ListThesesRequest {
    let [handle, token] = [handle, token].map(|name| name.map(str::to_owned));
    v1::ListThesesRequest { handle, token, ..v1::ListThesesRequest::default() }
}

#[tokio::test(start_paused = true)]
async fn warm_reads_of_one_dataset_are_few_requests() {
    let clock = ManualClock::new();
    let store = SharedMemory::without_threads();
    let beside = store.beside();
    let writer = core(store, &clock, 1).await;
    for number in 0..80 {
        observe(&writer, NOON, thesis(number, "one of many")).await;
    }
    for number in 100..105 {
        observe(&writer, NOON, thesis_of_its_own(number)).await;
    }
    let reader = core(beside.clone(), &clock, 2).await;
    // Both end what they do beside requests. No time passes during the reads.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let bench = Bench { core: &reader, key: LIVE_KEY, store: &beside, dataset: "live" };
    assert_eq!(bench.list(by(None, None), 25).await, 1);
    assert_eq!(bench.list(by(None, Some("moon")), 25).await, 1);
    assert_eq!(bench.list(by(Some("writer"), None), 25).await, 1);
    // A prolific author, and one who is not.
    assert_eq!(bench.list(by(Some("writer"), Some("moon")), 25).await, 1);
    assert_eq!(bench.list(by(Some("writer103"), Some("own103")), 1).await, 1);
    assert_eq!(bench.list(by(Some("nobody"), Some("moon")), 0).await, 1);
    assert_eq!(bench.activity("own104").await, 1);
    assert_eq!(bench.events(&[], true).await, 1);
    let requests = bench.events(&["moon"], true).await;
    assert!((2..=MAX_EVENT_REQUESTS).contains(&requests), "{requests} requests");
}

#[tokio::test(start_paused = true)]
async fn the_positions_of_two_datasets_are_one_request() {
    let clock = ManualClock::new();
    let store = SharedMemory::without_threads();
    let beside = store.beside();
    let writer = core(store, &clock, 1).await;
    let dataset = Dataset::of_project(&admitted(&writer, TEST_KEY, Operation::ListTheses).caller.project.id);
    for number in 0..10 {
        let mut new = new_thesis(&dataset, number);
        new.thesis.created_at = NOON - i64::from(number);
        writer.datasets.create_thesis(&dataset, new).await.unwrap();
    }
    let reader = core(beside.clone(), &clock, 2).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    for counted in [Dataset::SANDBOX_NAME, dataset.name()] {
        let bench = Bench { core: &reader, key: TEST_KEY, store: &beside, dataset: counted };
        assert_eq!(bench.list(by(None, None), 25).await, 1);
        assert_eq!(bench.list(by(Some("p1"), Some("T1")), 2).await, 1);
        assert_eq!(bench.events(&[], true).await, 1);
    }
    let before = beside.calls(&schema::LOG_CHECKPOINT);
    let bench = Bench { core: &reader, key: TEST_KEY, store: &beside, dataset: dataset.name() };
    bench.list(by(None, None), 25).await;
    assert_eq!(beside.calls(&schema::LOG_CHECKPOINT) - before, 3, "one for each of three lists");
}
