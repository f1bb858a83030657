//! Calls of `Tail` that are older than the feeds of today, or that leave something out.

use std::{sync::atomic::Ordering, time::Duration};

use thesis_proto::v1;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tonic::Request;

use super::{Client, FakeCore};
use crate::{Hub, OpenStream, OpenedStream};

/// Opens a stream that begins at the present of one dataset, and follows nothing yet.
async fn open(hub: &Hub, dataset: &str) -> (OpenedStream, OpenStream) {
    let (mut opened, stream) = hub.open("sse", Request::new(v1::OpenRequest::default())).await.unwrap();
    let of = |places: &[v1::DatasetPosition]| places.iter().filter(|place| place.dataset == dataset).cloned().collect();
    opened.begin.positions = of(&opened.begin.positions);
    opened.begin.live = of(&opened.begin.live);
    (opened, stream)
}

#[tokio::test(start_paused = true)]
async fn the_call_of_a_forgotten_feed_gives_nothing_to_the_next_feed() {
    let core = FakeCore::new(&["busy", "quiet"], 4, 1_000);
    let hub = core.hub(CancellationToken::new());
    let log = core.log("quiet");
    // One call follows both datasets. It goes on, since somebody stays with the first one.
    let (begin, stream) = open(&hub, "busy").await;
    let _stays = Client::follow(&hub, stream, &begin, &[]);
    let (begin, stream) = open(&hub, "quiet").await;
    let leaves = Client::follow(&hub, stream, &begin, &[]);
    sleep(Duration::from_secs(1)).await;
    drop(leaves);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(core.tails.load(Ordering::Relaxed), 1);
    // A stream begins here, and before it follows the log, the old call reads the first event.
    let (begin, stream) = open(&hub, "quiet").await;
    log.append(&[Some("$A")]);
    sleep(Duration::from_secs(1)).await;
    let mut reader = Client::follow(&hub, stream, &begin, &[]);
    // The old call reads the second event before the new one reads anything.
    log.append(&[Some("$A")]);
    sleep(Duration::from_secs(1)).await;
    reader.drain().await;
    assert_eq!(core.tails.load(Ordering::Relaxed), 2);
    assert_eq!(reader.got, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn events_that_a_call_leaves_out_are_read_again() {
    let core = FakeCore::new(&["sandbox"], 1, 1_000);
    let hub = core.hub(CancellationToken::new());
    let log = core.log("sandbox");
    let mut reader = Client::open(&hub, None, &[]).await;
    sleep(Duration::from_secs(1)).await;
    core.loses.store(2, Ordering::Relaxed);
    log.append(&[Some("$A"); 3]);
    sleep(Duration::from_secs(1)).await;
    reader.drain().await;
    assert_eq!(reader.got, [1, 2, 3]);
    assert_eq!(core.tails.load(Ordering::Relaxed), 2);
}
