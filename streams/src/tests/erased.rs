//! An erasure changes events that an edge has in memory.

use std::{sync::atomic::Ordering, time::Duration};

use thesis_proto::{time::from_millis, v1};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Client, FakeCore, time_of};
use crate::Hub;

/// Reads all events after a position. Returns the number of pages that this read from the core.
async fn pages_after(core: &FakeCore, hub: &Hub, after: u64) -> usize {
    let before = core.reads.load(Ordering::Relaxed);
    let mut client = Client::open(hub, Some(after), &[]).await;
    client.drain().await;
    assert_eq!(client.got, (after + 1..=23).collect::<Vec<_>>());
    core.reads.load(Ordering::Relaxed) - before
}

#[tokio::test(start_paused = true)]
async fn events_are_read_again_after_an_erasure() {
    let core = FakeCore::new(&["sandbox"], 100, 1_000);
    let hub = core.hub(CancellationToken::new());
    let log = core.log("sandbox");
    log.append(&[Some("$A"); 20]);
    let mut live = Client::open(&hub, None, &[]).await;
    log.append(&[Some("$A"); 3]);
    // Time only moves when no task has anything to do.
    sleep(Duration::from_millis(10)).await;
    assert_eq!(pages_after(&core, &hub, 0).await, 1);
    assert_eq!((pages_after(&core, &hub, 0).await, pages_after(&core, &hub, 20).await), (0, 0), "from memory");

    log.erased.store(24, Ordering::Relaxed);
    log.append(&[None]);
    sleep(Duration::from_millis(10)).await;
    assert_eq!((pages_after(&core, &hub, 0).await, pages_after(&core, &hub, 20).await), (1, 1));
    assert_eq!((pages_after(&core, &hub, 0).await, pages_after(&core, &hub, 20).await), (0, 0), "as they are now");
    live.drain().await;
    assert_eq!(live.got, [21, 22, 23]);
}

#[tokio::test(start_paused = true)]
async fn a_page_that_is_partly_read_is_read_again_after_an_erasure() {
    for speed in [None, Some(1.0)] {
        let core = FakeCore::new(&["sandbox"], 100, 1_000);
        let hub = core.hub(CancellationToken::new());
        let log = core.log("sandbox");
        log.append(&[Some("$A"); 20]);
        let from = Some(from_millis(time_of(1)));
        let mut client =
            Client::request(&hub, v1::OpenRequest { from, speed, ..v1::OpenRequest::default() }, &[]).await;
        while client.got.is_empty() {
            client.more().await.unwrap();
            client.read(1);
        }
        let before = core.reads.load(Ordering::Relaxed);
        log.erased.store(21, Ordering::Relaxed);
        log.append(&[None]);
        sleep(Duration::from_millis(10)).await;
        client.read(usize::MAX / 2);
        while client.got.len() < 20 {
            client.more().await.unwrap();
            client.read(usize::MAX / 2);
        }
        assert_eq!(client.got, (1..=20).collect::<Vec<_>>());
        assert_eq!(core.reads.load(Ordering::Relaxed) - before, 1, "{speed:?}");
    }
}
