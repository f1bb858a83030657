//! Measures replays at full speed: their events a second, and how much they slow down concurrent live streams. Then it
//! measures how late the events of paced replays come.

use std::{net::SocketAddr, time::Duration};

use futures::future::try_join_all;
use tokio::time::{MissedTickBehavior, interval};

use super::{
    Side,
    listener::{Listener, Protocol},
    thesis,
};
use crate::{
    Failure,
    connection::{Connection, find},
    mark::text,
    process::Service,
    report::{aim, aim_below, number},
};

/// Events in each replay.
const REPLAYED: usize = 50_000;
/// Connections that post the events.
const WRITERS: usize = 32;
/// Number of concurrent replays.
const CONCURRENT_REPLAYS: usize = 4;
/// Concurrent live streams, their events a second, and the seconds of the measurement.
const LIVE: (usize, (u32, u32)) = (100, (100, 4));

/// Events of a paced replay, the interval between two of them, and the speed of the replay.
const PACED: (usize, Duration, f64) = (600, Duration::from_millis(10), 2.0);
/// Our aim: the maximum of the p99 of a paced event's delay, in milliseconds.
const MAX_PACED_DELAY: f64 = 50.0;

/// Posts an event. Returns its time.
async fn post_one(connection: &mut Connection, token: &str) -> Result<String, Failure> {
    let answer = connection.ask_ok(&thesis(token, &text())).await?;
    let name = b"\"created_at\":\"";
    let start = find(answer.body, name).ok_or("an event without its time")? + name.len();
    let time =
        answer.body.get(start..).and_then(|rest| rest.get(..find(rest, b"\"")?)).ok_or("a time without an end")?;
    Ok(String::from_utf8_lossy(time).into_owned())
}

/// Posts the events. Returns the time of the first one.
async fn post(address: SocketAddr) -> Result<String, Failure> {
    let from = post_one(&mut Connection::open(address).await?, "REPLAYED").await?;
    let posting = (0..WRITERS).map(|_| async move {
        let mut connection = Connection::open(address).await?;
        for _ in 0..REPLAYED.div_ceil(WRITERS) {
            connection.ask_ok(&thesis("REPLAYED", &text())).await?;
        }
        Ok::<_, Failure>(())
    });
    try_join_all(posting).await?;
    Ok(from)
}

/// Measures replays, and live streams with and without concurrent replays.
pub(super) async fn replays(service: &Service) -> Result<(), Failure> {
    let address = service.address("http")?;
    let path = format!("/v1/events/stream?types=thesis.created&from={}", post(address).await?);
    println!();
    for streams in [1, CONCURRENT_REPLAYS] {
        let more = ["--enough", &REPLAYED.to_string()];
        let received = Listener::start(address, &path, Protocol::Sse, (streams, 120), &more).await?.heard().await?;
        if received.deliveries < (REPLAYED * streams) as u64 {
            return Err(format!("only {} of the replayed events came", received.deliveries).into());
        }
        let rate = received.deliveries as f64 / received.took_ms * 1e3;
        println!("{streams} replay {REPLAYED} events: {} a second, {}", number(rate), aim(rate, 50_000.0));
    }
    let live = "/v1/events/stream?types=thesis.created&token=BESIDE".to_owned();
    let side = Side { name: "SSE", id: service.ids(), subscribers: address, path: live, protocol: Protocol::Sse };
    let (streams, pace) = LIVE;
    let (alone, _) = side.measure(streams, pace, |text| thesis("BESIDE", text)).await?;
    let replaying = Listener::start(address, &path, Protocol::Sse, (CONCURRENT_REPLAYS, pace.1), &[]).await?;
    let (beside, _) = side.measure(streams, pace, |text| thesis("BESIDE", text)).await?;
    let replayed = replaying.heard().await?.deliveries;
    println!(
        "{streams} live streams beside {CONCURRENT_REPLAYS} that replay {replayed} events: p50 {:.1} ms instead of \
         {:.1}, {}; p99 {:.1} instead of {:.1}",
        beside.p50_ms,
        alone.p50_ms,
        aim_below(beside.p50_ms / alone.p50_ms, 1.1, " times"),
        beside.p99_ms,
        alone.p99_ms
    );
    paced(address).await
}

/// Measures how long after their times the events of paced replays come. The time to open a replay counts too.
async fn paced(address: SocketAddr) -> Result<(), Failure> {
    let (count, distance, speed) = PACED;
    let mut connection = Connection::open(address).await?;
    let from = post_one(&mut connection, "PACED").await?;
    let mut turns = interval(distance);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for _ in 1..count {
        turns.tick().await;
        post_one(&mut connection, "PACED").await?;
    }
    let path = format!("/v1/events/stream?types=thesis.created&token=PACED&from={from}&speed={speed}");
    let more = ["--enough", &count.to_string(), "--speed", &speed.to_string()];
    let received =
        Listener::start(address, &path, Protocol::Sse, (CONCURRENT_REPLAYS, 60), &more).await?.heard().await?;
    if received.deliveries < (count * CONCURRENT_REPLAYS) as u64 {
        return Err(format!("only {} of the paced events came", received.deliveries).into());
    }
    println!(
        "{CONCURRENT_REPLAYS} replays of {count} events at speed {speed}: late by p50 {:.1} ms, p99 {:.1} ms, {}",
        received.p50_ms,
        received.p99_ms,
        aim_below(received.p99_ms, MAX_PACED_DELAY, " ms")
    );
    Ok(())
}
