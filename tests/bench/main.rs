//! `cargo bench`: the service on its embedded store beside what it is built on, in one run.
//!
//! Theses are loaded through the append, then the release binary runs on them as a process of its own. Its answers are
//! compared with a bare axum handler that gives the same bytes; the two are asked in turns, since machines are noisy.

mod arrival;
mod bare;
mod client;
mod connection;
mod counting;
mod data;
mod engine;
mod load;
mod process;
mod reads;
mod report;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use tokio::runtime::Builder;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What to measure.
#[derive(Parser)]
#[command(name = "cargo bench --", about = "Measures the service on its embedded store")]
struct Options {
    /// Theses to load
    #[arg(long, default_value_t = 100_000)]
    theses: u64,
    /// Days over which they are spread
    #[arg(long, default_value_t = 6)]
    days: i64,
    /// Appends under way at once
    #[arg(long, default_value_t = 512)]
    appends: usize,
    /// Connections of the reading clients
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// Seconds of each reading run
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Runs of each kind, of which the median counts
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Theses posted one after the other to see them arrive
    #[arg(long, default_value_t = 300)]
    samples: u32,
    /// Folder that keeps the data; a store found there is used instead of loading one [default: a temporary one]
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// What `cargo bench` passes
    #[arg(long, hide = true)]
    bench: bool,
    /// A process of the benchmark's own
    #[command(subcommand)]
    child: Option<Child>,
}

#[derive(Subcommand)]
#[command(hide = true)]
enum Child {
    /// The bare handler
    Bare { by_id: PathBuf, list: PathBuf },
    /// A client
    Client(client::Task),
}

fn main() -> Result<(), Failure> {
    let mut options = Options::parse();
    match options.child.take() {
        // As `#[tokio::main]` sets it up, for the service and the bare handler alike.
        Some(Child::Bare { by_id, list }) => {
            Builder::new_multi_thread().enable_all().build()?.block_on(bare::serve(&by_id, &list))
        }
        Some(Child::Client(task)) => Builder::new_current_thread().enable_all().build()?.block_on(client::run(task)),
        None => Builder::new_multi_thread().enable_all().build()?.block_on(measure(&options)),
    }
}

async fn measure(options: &Options) -> Result<(), Failure> {
    println!("{}", report::machine());
    let temporary = tempfile::tempdir()?;
    let dir = options.data_dir.as_deref().unwrap_or(temporary.path());
    if load::is_loaded(dir) {
        println!("Using the store in {}", dir.display());
    } else {
        let loaded = load::run(options, dir).await?;
        load::print(&loaded, &engine::replay(dir, loaded.theses_per_commit())?);
    }
    let service = process::Service::start(dir).await?;
    reads::run(options, &service, dir).await?;
    arrival::run(options, &service).await?;
    println!("\nThe service: ready after {:.0} ms, {}", service.ready_ms, report::memory(service.id()));
    Ok(())
}
