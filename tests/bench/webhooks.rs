//! `cargo bench --bench service -- webhooks`: deliveries to webhooks, beside a bare loop of POSTs in the same run.
//!
//! A process of its own receives, at many loopback addresses. Its processor time and that of the posting clients do not
//! count, but all share the machine's processors.

mod bare;
mod cores;
mod customer;
mod delays;
mod others;
mod rates;
mod receiver;

use std::time::Duration;

use clap::{Args, ValueEnum};
use tokio::time::{Instant, sleep};

pub(crate) use self::{
    bare::{Post, post},
    others::{Unwanted, create_unwanted},
    receiver::{Receive, receive},
};
use crate::{Failure, Options, StoreKind, process::Service};

/// Longest wait until a service rests.
const REST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a service is watched to see whether it rests.
const WATCHED: Duration = Duration::from_millis(500);
/// Most processor seconds that a resting service uses meanwhile.
const RESTING: f64 = 0.03;

/// Webhooks with filters by text.
const TEXT_FILTERS: usize = 10_000;

/// A part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Deliveries a second, and their requests to a cluster
    Rates,
    /// From an event to its arrival, beside endpoints in trouble
    Delays,
    /// The cost of an event beside webhooks that do not want it
    Others,
    /// The cost of an event beside webhooks with filters by text that do not want it
    Texts,
    /// Three cores on one cluster beside one
    Cores,
}

/// What to measure.
#[derive(Args)]
pub(crate) struct Webhooks {
    /// Parts to measure [default: all that the store allows]
    #[arg(value_enum, value_name = "PART")]
    parts: Vec<Part>,
    /// Seconds of each run at a fixed rate
    #[arg(long, default_value_t = 15)]
    seconds: u32,
    /// Due deliveries of one dead endpoint [default: 1000000, on CQL 100000]
    #[arg(long)]
    backlog: Option<u64>,
    /// Webhooks of other projects that match nothing [default: 100000, on CQL 10000]
    #[arg(long)]
    others: Option<usize>,
}

/// Measures and prints.
pub(crate) async fn run(options: &Options, task: &Webhooks) -> Result<(), Failure> {
    println!("{}", crate::report::machine());
    let temporary = tempfile::tempdir()?;
    let base = temporary.path();
    let (backlog, others) = match options.store {
        StoreKind::Embedded => (1_000_000, 100_000),
        StoreKind::Cql => (100_000, 10_000),
    };
    let is_cluster = options.store == StoreKind::Cql;
    if task.parts.contains(&Part::Cores) && !is_cluster {
        return Err("several cores share a cluster: they need --store cql --nodes HOST:PORT".into());
    }
    let is_wanted = |part: Part| task.parts.is_empty() || task.parts.contains(&part);
    if is_wanted(Part::Rates) {
        rates::run(options, base).await?;
    }
    if is_wanted(Part::Delays) {
        delays::run(options, task.seconds, task.backlog.unwrap_or(backlog), base).await?;
    }
    if is_wanted(Part::Others) {
        others::run(options, task.others.unwrap_or(others), Unwanted::Tokens, base).await?;
    }
    if is_wanted(Part::Texts) {
        for unwanted in [Unwanted::Words, Unwanted::Phrase, Unwanted::Phrases, Unwanted::Excluded] {
            others::run(options, TEXT_FILTERS, unwanted, base).await?;
        }
    }
    if is_wanted(Part::Cores) && is_cluster {
        cores::run(options, base).await?;
    }
    Ok(())
}

/// Waits until a service rests; gives the processor seconds that it has used.
async fn at_rest(service: &Service) -> f64 {
    let deadline = Instant::now() + REST_TIMEOUT;
    let mut before = service.cpu_seconds();
    loop {
        sleep(WATCHED).await;
        let now = service.cpu_seconds();
        if now - before <= RESTING || Instant::now() > deadline {
            return now;
        }
        before = now;
    }
}
