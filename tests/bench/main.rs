//! `cargo bench`: the service beside the parts it is built on, in one run.
//!
//! Theses are loaded through the append, then the release binary runs on them as a process of its own. Its answers are
//! compared with a bare axum handler that gives the same bytes, and each operation with itself on fewer theses, or
//! three processes on CQL with one on the embedded store. The two are asked in turns, since machines are noisy.

mod accounts;
mod alerts;
mod appends;
mod archive;
mod arrival;
mod backup;
mod bare;
mod calls;
mod capacity;
mod client;
mod connection;
mod cores;
mod counting;
mod data;
mod engine;
mod frames;
mod limiter;
mod load;
mod mark;
mod operations;
mod pages;
mod pairs;
mod process;
mod reads;
mod receipts;
mod report;
mod requests;
mod rounds;
mod starts;
mod store;
mod streams;
mod upstream;
mod webhooks;

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand, ValueEnum};
use tokio::runtime::Builder;

use self::{operations::Side, process::Service, store::Setup};

/// The same as the service's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Theses to compare with, beside more than [`MANY`] of them, unless told otherwise.
const FEW: u64 = 10_000;
const MANY: u64 = 100_000;

/// What to measure.
#[derive(Parser)]
#[command(name = "cargo bench --", about = "Measures the service")]
struct Options {
    /// Theses to load
    #[arg(long, default_value_t = MANY, value_parser = clap::value_parser!(u64).range(1_000..), global = true)]
    theses: u64,
    /// Days over which they are spread
    #[arg(long, default_value_t = 30)]
    days: i64,
    /// Theses on the same store to compare each operation with; 0 for none [default: 10000 beside more than 100000]
    #[arg(long)]
    beside: Option<u64>,
    /// Where they are kept
    #[arg(long, value_enum, default_value_t = StoreKind::Embedded, global = true)]
    store: StoreKind,
    /// Nodes of the cluster
    #[arg(long, env = "TEST_SCYLLA_NODES", value_name = "HOST:PORT,…", value_delimiter = ',', global = true)]
    nodes: Vec<String>,
    /// Run core, edge and worker apart, beside one process on the embedded store; with --store cql
    #[arg(long, global = true)]
    processes: bool,
    /// Appends under way at once
    #[arg(long, default_value_t = 512)]
    appends: usize,
    /// Connections of the reading clients
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// Seconds of each reading run
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Runs of each kind; their median counts
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Theses posted one after the other to see them arrive
    #[arg(long, default_value_t = 300)]
    samples: u32,
    /// Folder that keeps the data; embedded stores found there are used instead of loading them [default: a temporary one]
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// What `cargo bench` passes
    #[arg(long, hide = true, global = true)]
    bench: bool,
    /// Another measurement
    #[command(subcommand)]
    child: Option<Child>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StoreKind {
    Embedded,
    /// A keyspace of its own, dropped afterwards
    Cql,
}

#[derive(Subcommand)]
enum Child {
    /// The bare handler
    #[command(hide = true)]
    Bare { by_id: PathBuf, list: PathBuf },
    /// A client
    #[command(hide = true)]
    Client(client::Task),
    /// A listener on many streams
    #[command(hide = true)]
    Listen(streams::Listen),
    /// Measures open streams, beside Nchan where it is installed
    Streams(streams::Streams),
    /// Webhooks' endpoints
    #[command(hide = true)]
    Receive(webhooks::Receive),
    /// Bare POSTs
    #[command(hide = true)]
    Post(webhooks::Post),
    /// Measures deliveries to webhooks, beside bare POSTs
    Webhooks(webhooks::Webhooks),
    /// Measures appends to one log through one core and through two at once; with --store cql
    Appends,
    /// Measures what a core asks of its cluster for datasets that were written once; with --store cql
    Cores(cores::Cores),
    /// Measures sign-ins, and reads beside them
    Accounts,
    /// Measures pages of the console
    Pages,
    /// Measures what traces cost a read by id
    Traces,
    /// Measures reads by id beside those of another build, such as an older one
    Against {
        /// The other program
        #[arg(value_name = "PROGRAM")]
        program: PathBuf,
    },
    /// Measures the way from the feed of a simulated upstream, beside appends of the same texts
    Upstream,
    /// Measures appends without and with the tree over the log, receipts, and checks of them
    Receipts,
    /// Measures backups of the embedded store, and requests beside them
    Backup,
    /// Measures builds of the files of a day, and appends beside them; on the embedded store
    Archive,
    /// Measures what many alerts on one token cost a thesis, and how soon a crossing is in a stream
    Alerts,
    /// Simulates how many of each role carry a load, with measured costs; needs no service
    Capacity,
}

fn main() -> Result<(), Failure> {
    rustls::crypto::ring::default_provider().install_default().expect("nothing was installed before");
    let mut options = Options::parse();
    match options.child.take() {
        // As `#[tokio::main]` sets it up, for the service and the bare handler alike.
        Some(Child::Bare { by_id, list }) => {
            Builder::new_multi_thread().enable_all().build()?.block_on(bare::serve(&by_id, &list))
        }
        Some(Child::Client(task)) => Builder::new_current_thread().enable_all().build()?.block_on(client::run(task)),
        Some(Child::Listen(task)) => {
            Builder::new_current_thread().enable_all().build()?.block_on(streams::listen(task))
        }
        Some(Child::Streams(task)) => {
            Builder::new_multi_thread().enable_all().build()?.block_on(streams::run(&options, &task))
        }
        Some(Child::Receive(task)) => {
            Builder::new_current_thread().enable_all().build()?.block_on(webhooks::receive(task))
        }
        Some(Child::Post(task)) => Builder::new_multi_thread().enable_all().build()?.block_on(webhooks::post(task)),
        Some(Child::Webhooks(task)) => {
            Builder::new_multi_thread().enable_all().build()?.block_on(webhooks::run(&options, &task))
        }
        Some(Child::Appends) => {
            let temporary = tempfile::tempdir()?;
            Builder::new_multi_thread().enable_all().build()?.block_on(appends::run(&options, temporary.path()))
        }
        Some(Child::Cores(task)) => {
            Builder::new_multi_thread().enable_all().build()?.block_on(cores::run(&options, &task))
        }
        Some(Child::Accounts) => Builder::new_multi_thread().enable_all().build()?.block_on(accounts::run(&options)),
        Some(Child::Pages) => Builder::new_multi_thread().enable_all().build()?.block_on(pages::run(&options)),
        Some(Child::Traces) => Builder::new_multi_thread().enable_all().build()?.block_on(pairs::traces(&options)),
        Some(Child::Against { program }) => {
            Builder::new_multi_thread().enable_all().build()?.block_on(pairs::against(&options, &program))
        }
        Some(Child::Receipts) => Builder::new_multi_thread().enable_all().build()?.block_on(receipts::run(&options)),
        Some(Child::Backup) => Builder::new_multi_thread().enable_all().build()?.block_on(backup::run(&options)),
        Some(Child::Archive) => Builder::new_multi_thread().enable_all().build()?.block_on(archive::run(&options)),
        Some(Child::Alerts) => Builder::new_multi_thread().enable_all().build()?.block_on(alerts::run(&options)),
        Some(Child::Capacity) => capacity::run(),
        Some(Child::Upstream) => Builder::new_multi_thread().enable_all().build()?.block_on(upstream::run(&options)),
        None => Builder::new_multi_thread().enable_all().build()?.block_on(run(&options)),
    }
}

/// Measures, and leaves nothing in the cluster.
async fn run(options: &Options) -> Result<(), Failure> {
    println!("{}", report::machine());
    let temporary = tempfile::tempdir()?;
    let base = options.data_dir.as_deref().unwrap_or(temporary.path());
    let setups = setups(options, base)?;
    let measured = measure(options, &setups).await;
    for setup in &setups {
        setup.clear().await?;
    }
    limiter::run(options, measured?).await?;
    if options.store == StoreKind::Cql {
        appends::run(options, base).await?;
    }
    Ok(())
}

/// The setup that is measured, and the one to compare with.
fn setups(options: &Options, base: &Path) -> Result<Vec<Setup>, Failure> {
    if options.processes && options.store != StoreKind::Cql {
        return Err("--processes needs --store cql: the embedded store belongs to one process".into());
    }
    let beside = match (options.processes, options.beside) {
        (true, _) => Some((StoreKind::Embedded, options.theses)),
        (false, Some(theses)) => Some((options.store, theses)).filter(|_| theses > 0),
        (false, None) => Some((options.store, FEW)).filter(|_| options.theses > MANY),
    };
    let wanted = [Some((options.store, options.theses)), beside];
    wanted.into_iter().flatten().map(|(store, theses)| Setup::new(options, store, theses, base)).collect()
}

/// Loads the setups, runs the service on them, and asks; gives the processor time of a read by id, in microseconds.
async fn measure(options: &Options, setups: &[Setup]) -> Result<f64, Failure> {
    for (letter, setup) in ["A", "B"].iter().zip(setups) {
        println!("\n{letter}: {setup}");
        if setup.is_loaded() {
            println!("Using what is in {}", setup.dir.display());
            continue;
        }
        let loaded = load::run(options, setup).await?;
        let alone = !setup.is_cluster() && setup.theses == options.theses;
        let bare = if alone { Some(engine::replay(&setup.dir, loaded.theses_per_append())?) } else { None };
        load::print(&loaded, bare.as_ref());
    }
    let mut services = Vec::new();
    for setup in setups {
        let service = Service::start(setup).await?;
        let started = service.memory();
        let indexed = service.indexed().await?;
        services.push((service, started, indexed));
    }
    // Fewer theses on the same store are for the operations' growth only.
    let compared = if options.processes { 2 } else { 1 };
    let mut read_us = Vec::new();
    for (setup, (service, ..)) in setups.iter().zip(&services).take(compared) {
        read_us.push(reads::run(options, &setup.to_string(), service, setup.theses, &setup.dir).await?);
    }
    let mut sides = Vec::new();
    for (setup, (service, ..)) in setups.iter().zip(&services) {
        sides.push(Side { service, facts: load::facts(&setup.dir)?, dir: &setup.dir });
    }
    operations::run(options, &sides, !options.processes).await?;
    drop(sides);
    for (setup, (service, ..)) in setups.iter().zip(&services).take(compared) {
        arrival::run(options, &setup.to_string(), service).await?;
    }
    for (setup, (service, started, indexed)) in setups.iter().zip(services) {
        starts::run(setup, service, started, indexed).await?;
    }
    Ok(read_us[0])
}
