//! A burst of theses: how long until all are streamed, queryable and searchable.

use std::{net::SocketAddr, ops::ControlFlow, time::Duration};

use core_service::domain::{dataset::Dataset, id};
use reqwest::Response;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::simulator::Simulator;
use crate::{
    Failure,
    connection::{Answer, Connection, find, get},
    data::RARE_WORD,
    frames::{CREATED, follow, open},
    process::{Service, live_key},
    report::cpu_seconds,
};

/// Time limit until all theses of a burst are there.
const BURST_TIMEOUT: Duration = Duration::from_mins(10);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Theses whose rows are asked for, the last ones.
const ASKED: u64 = 100;

/// How it went.
pub(super) struct Burst {
    pub(super) theses: f64,
    /// From before the burst until the stream told the last one.
    pub(super) streamed_s: f64,
    /// Until the last ones could be read.
    pub(super) queryable_s: f64,
    /// Until a search found the last one.
    pub(super) searchable_s: f64,
    /// Processor time until then.
    pub(super) service_cpu_s: f64,
    pub(super) simulator_cpu_s: f64,
    pub(super) client_cpu_s: f64,
}

/// Makes the theses and waits for them. The last one is found by a word that no other has.
pub(super) async fn run(service: &Service, simulator: &Simulator, theses: u64) -> Result<Burst, Failure> {
    let address = service.address("http")?;
    let stream = open(&format!("http://{address}/v1/events/stream?types=thesis.created"), &live_key()).await?;
    let hearing = tokio::spawn(hear(stream, theses + 1));
    let cpu = || {
        let own = cpu_seconds(std::process::id()).unwrap_or(f64::NAN);
        [service.cpu_seconds(), simulator.cpu_seconds(), own]
    };
    let (before, started) = (cpu(), Instant::now());
    simulator.burst(theses).await?;
    let last = simulator.post(&format!("The last one: {RARE_WORD}.")).await?;
    let asked = simulator.ids_behind(theses + 1 - ASKED).await?;
    let (streamed, (queryable, searchable)) = tokio::try_join!(heard(hearing), found(address, &asked, &last))?;
    let after = cpu();
    let used = |kind: usize| after[kind] - before[kind];
    let seconds = |end: Instant| (end - started).as_secs_f64();
    Ok(Burst {
        theses: (theses + 1) as f64,
        streamed_s: seconds(streamed),
        queryable_s: seconds(queryable),
        searchable_s: seconds(searchable),
        service_cpu_s: used(0),
        simulator_cpu_s: used(1),
        client_cpu_s: used(2),
    })
}

/// Counts the new theses of a stream; gives the time of the last one.
async fn hear(stream: Response, theses: u64) -> Result<Instant, Failure> {
    let (mut left, mut last) = (theses, Instant::now());
    let following = follow(stream, |frame| {
        if frame.event == CREATED {
            (left, last) = (left - 1, frame.at);
        }
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    match timeout(BURST_TIMEOUT, following).await {
        Ok(ended) => ended?,
        Err(_) => return Err(format!("{left} of {theses} theses were never streamed").into()),
    }
    Ok(last)
}

async fn heard(hearing: JoinHandle<Result<Instant, Failure>>) -> Result<Instant, Failure> {
    hearing.await?
}

/// Waits until the asked theses can be read, then until a search finds the last one; gives both times.
async fn found(address: SocketAddr, asked: &[String], last: &str) -> Result<(Instant, Instant), Failure> {
    let (key, mut connection) = (live_key(), Connection::open(address).await?);
    let id = |upstream_id: &str| id::of_thesis(&Dataset::Live.to_string(), upstream_id);
    // The last one first: the others are there by then, or soon.
    for upstream_id in asked.iter().rev() {
        let request = get(&format!("/v1/theses/{}", id(upstream_id)), &key);
        until(&mut connection, &request, |answer| answer.status == 200).await?;
    }
    let (queryable, last) = (Instant::now(), id(last));
    let search = get(&format!("/v1/search?q={RARE_WORD}"), &key);
    until(&mut connection, &search, |answer| find(answer.body, last.as_bytes()).is_some()).await?;
    Ok((queryable, Instant::now()))
}

/// Asks until the answer is as wanted.
async fn until(
    connection: &mut Connection,
    request: &[u8],
    is_wanted: impl Fn(&Answer<'_>) -> bool,
) -> Result<(), Failure> {
    let started = Instant::now();
    while !is_wanted(&connection.ask(request).await?) {
        if started.elapsed() > BURST_TIMEOUT {
            return Err(format!("in vain: {}", String::from_utf8_lossy(request)).into());
        }
        sleep(POLL_INTERVAL).await;
    }
    Ok(())
}
