use super::*;
use crate::{
    log::projection::ROWS,
    store::{Backend as _, schema},
    tables::log::{LogStore, checkpoint_change},
    tests::harness::{ManualClock, SharedMemory, core},
};

/// Full buckets of the live log.
const BUCKETS: u64 = 1_000;

#[tokio::test]
async fn an_approval_does_not_read_the_live_log_from_its_beginning() {
    let clock = ManualClock::new();
    let backend = SharedMemory::new(&clock);
    let live = Dataset::Live.to_string();
    let head = LogStore::new(backend.clone()).fill_buckets(&live, BUCKETS).await;
    backend.apply(vec![checkpoint_change(&live, ROWS, head)]).await.unwrap();
    let core = core(backend.clone(), &clock, 1).await;
    // Only the calls of the approval are counted.
    core.stop.cancel();
    let project = core.shared.control.state().projects().next().unwrap().id.clone();
    let before = backend.calls(&schema::EVENT_LOG);
    approve_project(&core, &Actor::operator(None), &v1::ApproveProjectRequest { id: project }).await.unwrap();
    let calls = backend.calls(&schema::EVENT_LOG) - before;
    assert!(calls < 100, "{calls} calls for an approval");
}
