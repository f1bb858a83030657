//! The process that asks: a fixed number of connections, one request at a time on each, for a fixed time.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use clap::{Args, ValueEnum};
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use thesis_proto::v1::{GetThesisRequest, thesis_service_client::ThesisServiceClient};
use tokio::time::Instant;
use tonic::{Request, transport::Endpoint};

use crate::{
    Failure,
    connection::{Connection, get, post},
    data::Random,
    report::percentile,
};

/// What to ask, and how.
#[derive(Args, Clone)]
pub(crate) struct Task {
    #[arg(long, value_enum)]
    pub(crate) protocol: Protocol,
    #[arg(long)]
    pub(crate) address: SocketAddr,
    #[arg(long)]
    pub(crate) key: String,
    /// A file of requests, one a line, of which each takes one at random: a path, for a POST with a tab and its body
    #[arg(long)]
    pub(crate) requests: PathBuf,
    #[arg(long)]
    pub(crate) connections: usize,
    #[arg(long)]
    pub(crate) seconds: f64,
}

/// How to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    Http,
    /// `GetThesis` of the ids that end the paths.
    Grpc,
}

/// How it went.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

/// Asks, and prints the outcome.
pub(crate) async fn run(task: Task) -> Result<(), Failure> {
    let lines: Arc<[String]> = std::fs::read_to_string(&task.requests)?.lines().map(str::to_owned).collect();
    let started = Instant::now();
    let until = started + Duration::from_secs_f64(task.seconds);
    let connections = (0..task.connections).map(|index| {
        let (task, lines, random) = (task.clone(), Arc::clone(&lines), Random::new(index as u64));
        tokio::spawn(async move {
            match task.protocol {
                Protocol::Http => http(&task, &lines, random, until).await,
                Protocol::Grpc => grpc(&task, &lines, random, until).await,
            }
        })
    });
    let times: Vec<Vec<Duration>> = try_join_all(connections).await?.into_iter().collect::<Result<_, _>>()?;
    let seconds = started.elapsed().as_secs_f64();
    let mut times = times.concat();
    let outcome = Outcome {
        requests: times.len() as u64,
        seconds,
        p50_ms: percentile(&mut times, 0.5),
        p99_ms: percentile(&mut times, 0.99),
    };
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

/// The request that a line stands for.
pub(crate) fn request(line: &str, key: &str) -> Vec<u8> {
    match line.split_once('\t') {
        Some((path, body)) => post(path, key, body),
        None => get(line, key),
    }
}

async fn http(task: &Task, lines: &[String], mut random: Random, until: Instant) -> Result<Vec<Duration>, Failure> {
    let mut connection = Connection::open(task.address).await?;
    let mut times = Vec::new();
    loop {
        let started = Instant::now();
        if started >= until && !times.is_empty() {
            return Ok(times);
        }
        connection.ask_ok(&request(&lines[random.below(lines.len())], &task.key)).await?;
        times.push(started.elapsed());
    }
}

async fn grpc(task: &Task, lines: &[String], mut random: Random, until: Instant) -> Result<Vec<Duration>, Failure> {
    let channel = Endpoint::from_shared(format!("http://{}", task.address))?.tcp_nodelay(true).connect().await?;
    let mut core = ThesisServiceClient::new(channel);
    let authorization = format!("Bearer {}", task.key).parse::<tonic::metadata::MetadataValue<_>>()?;
    let mut times = Vec::new();
    loop {
        let started = Instant::now();
        if started >= until && !times.is_empty() {
            return Ok(times);
        }
        let path = &lines[random.below(lines.len())];
        let id = path.rsplit('/').next().unwrap_or_default().to_owned();
        let mut request = Request::new(GetThesisRequest { id });
        request.metadata_mut().insert("authorization", authorization.clone());
        core.get_thesis(request).await?;
        times.push(started.elapsed());
    }
}
