//! How streams end, and that core hears of those that are closed.

use std::{future::poll_fn, task::Poll, time::Duration};

use futures::future::join_all;
use thesis_proto::v1::StreamEndReason;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Client, FakeCore};
use crate::{EndReason, OpenStream};

async fn end(stream: &OpenStream) -> EndReason {
    poll_fn(|context| {
        stream.register(context);
        stream.ended().map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn core_ends_the_streams_that_it_names() {
    let core = FakeCore::new(&["sandbox"], 4, 1_000);
    let hub = core.hub(CancellationToken::new());
    let (one, other) = (Client::open(&hub, None, &[]).await, Client::open(&hub, None, &[]).await);
    core.end(1, StreamEndReason::Revoked);
    assert_eq!(end(&one.stream).await, EndReason::Revoked);
    assert_eq!(other.stream.ended(), None);
    core.end(2, StreamEndReason::Replaced);
    assert_eq!(end(&other.stream).await, EndReason::Replaced);
}

#[tokio::test(start_paused = true)]
async fn closed_streams_are_told_together() {
    let core = FakeCore::new(&["sandbox"], 4, 1_000);
    let hub = core.hub(CancellationToken::new());
    let mut clients = join_all((0..20).map(|_| Client::open(&hub, None, &[]))).await;
    let mut closed = core.closed.subscribe();
    clients.truncate(5);
    closed.changed().await.unwrap();
    let mut streams = closed.borrow_and_update().clone();
    streams.sort_unstable();
    assert_eq!(streams, (6..=20).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_broken_session_ends_its_streams_and_the_next_one_opens_others() {
    let core = FakeCore::new(&["sandbox"], 4, 1_000);
    let hub = core.hub(CancellationToken::new());
    let before = Client::open(&hub, None, &[]).await;
    drop(core.ends.lock().take());
    assert_eq!(end(&before.stream).await, EndReason::Reconnect);
    let after = Client::open(&hub, None, &[]).await;
    assert_eq!(after.stream.ended(), None);
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_all_streams_but_not_at_once() {
    let core = FakeCore::new(&["sandbox"], 4, 1_000);
    let shutdown = CancellationToken::new();
    let hub = core.hub(shutdown.clone());
    let clients = join_all((0..640).map(|_| Client::open(&hub, None, &[]))).await;
    shutdown.cancel();
    sleep(Duration::from_millis(300)).await;
    let ended = clients.iter().filter(|client| client.stream.ended() == Some(EndReason::Reconnect)).count();
    assert!((64..640).contains(&ended), "{ended}");
    sleep(Duration::from_secs(2)).await;
    assert!(clients.iter().all(|client| client.stream.ended() == Some(EndReason::Reconnect)));
}
