//! `cargo bench --bench service -- receipts` measures the cost of the tree over a log: appends with and without it in
//! turns, the time until a new thesis has a receipt, the bytes of a leaf, receipts a second, and the time of a check
//! without network.

use std::{hint::black_box, path::Path, process::Stdio, sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use core_service::{
    Core,
    domain::{dataset::Dataset, row::NewThesis},
};
use thesis_net::clock::{Clock as _, SystemClock};
use thesis_receipts::Document;
use tokio::{
    process::Command,
    time::{Instant, sleep},
};

use crate::{
    Failure, Options, StoreKind,
    client::Protocol,
    connection::{Connection, get},
    data::Data,
    engine::live_bytes,
    load,
    process::{Service, test_key},
    report::{aim_below, cpu_seconds, median, number, percentile, row},
    rounds::{Figures, Kind, compare, reads_by_id},
    store::Setup,
};

/// Maximum number of theses of each run.
const MAX_THESES: u64 = 20_000;
/// Number of checks in this process that are timed together.
const CHECKS: u32 = 2_000;
/// Pause between two theses whose receipts are awaited, and between two reads of the checkpoint.
const PAUSE: Duration = Duration::from_millis(20);
/// Our aim: the maximum time from an append to its receipt, in milliseconds.
const MAX_DELAY_MS: f64 = 2_000.0;
/// Our aim: the maximum ratio of processor times with the tree and without it.
const MAX_CPU_RATIO: f64 = 1.05;
const LOG_KEY: [u8; 32] = [9; 32];
/// A project's own theses have no receipts.
const DATASET: Dataset = Dataset::Sandbox;

/// One run of appends.
struct Run {
    /// Theses a second.
    rate: f64,
    /// Processor time of a thesis, until no work is pending.
    cpu_us: f64,
    /// Length of the log.
    entries: u64,
    live_bytes: u64,
    /// Times from an append to the checkpoint that covers it.
    delays: Vec<Duration>,
}

/// Measures and prints.
pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    if options.store != StoreKind::Embedded {
        return Err("receipts are measured on the embedded store: leave --store out".into());
    }
    println!("{}", crate::report::machine());
    let temporary = tempfile::tempdir()?;
    let theses = options.theses.min(MAX_THESES);
    let (mut runs, mut kept) = ([Vec::new(), Vec::new()], None);
    for round in 0..options.rounds {
        for (has_tree, runs) in [false, true].into_iter().zip(&mut runs) {
            let base = temporary.path().join(format!("{round}-{has_tree}"));
            let setup = Setup::new(options, StoreKind::Embedded, theses, &base)?;
            runs.push(append(options, &setup, has_tree).await?);
            if has_tree && round + 1 == options.rounds {
                kept = Some(setup);
            } else {
                std::fs::remove_dir_all(&base)?;
            }
        }
    }
    print_appends(options, theses, &runs);
    let setup = kept.ok_or("--rounds must be 1 or more")?;
    let receipt = serve(options, &setup).await?;
    check(options, &receipt, temporary.path()).await
}

/// Appends theses, and waits until tree, derived events, fan-out and search have caught up.
async fn append(options: &Options, setup: &Setup, has_tree: bool) -> Result<Run, Failure> {
    let (log_key, clock) = (has_tree.then_some(LOG_KEY), Arc::new(SystemClock));
    let core = load::core_with(setup.open().await?, setup.search_dir(), log_key, clock).await?;
    // The fixtures of a new sandbox are no part of the run, and a core that has just started does not sign yet.
    let before = load::settle(&core, &DATASET).await?;
    covered(&core, before).await?;
    let mut data = Data::new(setup.theses, options.days, SystemClock.now_ms());
    let theses: Vec<NewThesis> = (0..setup.theses).map(|number| data.thesis(number)).collect();
    let cpu = || cpu_seconds(std::process::id()).unwrap_or(f64::NAN);
    let before = cpu();
    let seconds = load::append(options, &core, &DATASET, theses.into_iter()).await?;
    let entries = load::settle(&core, &DATASET).await?;
    covered(&core, entries).await?;
    let cpu_us = (cpu() - before) * 1e6 / setup.theses as f64;
    let later = (setup.theses..setup.theses + u64::from(options.samples)).map(|number| data.thesis(number));
    let delays = delays(&core, later.collect()).await?;
    core.close().await;
    Ok(Run { rate: setup.theses as f64 / seconds, cpu_us, entries, live_bytes: live_bytes(&setup.dir)?, delays })
}

/// Number of entries that the signed tree has; none without a tree.
async fn size(core: &Core) -> Result<Option<u64>, Failure> {
    let Some(trees) = &core.trees else { return Ok(None) };
    Ok(Some(trees.checkpoint(&DATASET).await?.map_or(0, |signed| signed.size)))
}

/// Waits until the signed tree has that many entries, if there is one.
async fn covered(core: &Core, entries: u64) -> Result<(), Failure> {
    while size(core).await?.is_some_and(|size| size < entries) {
        sleep(PAUSE).await;
    }
    Ok(())
}

/// Appends theses one after the other. Returns the times until a checkpoint covers each, if there is a tree.
async fn delays(core: &Core, theses: Vec<NewThesis>) -> Result<Vec<Duration>, Failure> {
    let (mut delays, mut theses) = (Vec::new(), theses.into_iter());
    let mut uncovered: Vec<(u64, Instant)> = Vec::new();
    loop {
        if let Some(thesis) = theses.next() {
            let began = Instant::now();
            uncovered.push((core.datasets.create_thesis(&DATASET, thesis).await?.seq, began));
        } else if uncovered.is_empty() {
            return Ok(delays);
        }
        sleep(PAUSE).await;
        let size = size(core).await?.unwrap_or(u64::MAX);
        delays.extend(uncovered.extract_if(.., |(seq, _)| *seq <= size).map(|(_, began)| began.elapsed()));
    }
}

fn print_appends(options: &Options, theses: u64, runs: &[Vec<Run>; 2]) {
    let of = |runs: &[Run], figure: fn(&Run) -> f64| median(runs.iter().map(figure).collect());
    println!("\nAppends of {} theses, medians of {} runs in turns", number(theses as f64), options.rounds);
    row(&["", "theses/s", "CPU µs", "of without", "aim"]);
    let [without, with] = runs.each_ref().map(|runs| (of(runs, |run| run.rate), of(runs, |run| run.cpu_us)));
    row(&["without the tree", &number(without.0), &number(without.1), "", ""]);
    let ratio = with.1 / without.1;
    let aim = aim_below(ratio, MAX_CPU_RATIO, "");
    row(&["with it", &number(with.0), &number(with.1), &format!("{ratio:.3}"), &aim]);
    let mut delays: Vec<Duration> = runs[1].iter().flat_map(|run| run.delays.clone()).collect();
    let [p50, p99] = [0.5, 0.99].map(|part| percentile(&mut delays, part));
    let aim = aim_below(p99, MAX_DELAY_MS, " ms");
    println!("  From an append to its receipt: p50 {} ms, p99 {} ms, {aim}.", number(p50), number(p99));
    let [without, with] = runs.each_ref().map(|runs| of(runs, |run| run.live_bytes as f64));
    let leaves = of(&runs[1], |run| run.entries as f64);
    println!("  Pages in use: {} bytes a leaf more with the tree.", number((with - without) / leaves));
}

/// Reads receipts beside theses by id. Returns a receipt.
async fn serve(options: &Options, setup: &Setup) -> Result<Vec<u8>, Failure> {
    let service = Service::start_with(setup, &[("SVC_LOG_KEY", BASE64_STANDARD.encode(LOG_KEY))]).await?;
    service.indexed().await?;
    let (by_id, of_each) = (reads_by_id(&setup.dir, setup.theses)?, setup.dir.join("bench-receipts"));
    let paths: Vec<String> = std::fs::read_to_string(&by_id)?.lines().map(|path| format!("{path}/receipt")).collect();
    std::fs::write(&of_each, paths.join("\n"))?;
    let mut connection = Connection::open(service.address("http")?).await?;
    let receipt = connection.ask_ok(&get(&paths[0], &test_key())).await?.body.to_vec();
    let kinds = [&by_id, &of_each].map(|requests| Kind { service: &service, protocol: Protocol::Http, requests });
    let figures = compare(options, options.connections, &kinds).await?;
    println!("\n{} connections, medians of {} runs in turns", options.connections, options.rounds);
    Figures::heads("a read");
    for (name, of_kind) in ["GET /v1/theses/{id}", "GET /v1/theses/{id}/receipt"].iter().zip(&figures) {
        of_kind.print(name, &figures[0], "");
    }
    service.stop().await?;
    Ok(receipt)
}

/// Checks the receipt in this process, and with the command, which starts a process.
async fn check(options: &Options, receipt: &[u8], dir: &Path) -> Result<(), Failure> {
    let file = dir.join("receipt.json");
    std::fs::write(&file, receipt)?;
    let (mut here, mut by_command) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let began = Instant::now();
        for _ in 0..CHECKS {
            black_box(Document::parse(black_box(receipt))?.verify(&[], &[])?);
        }
        here.push(began.elapsed().as_secs_f64() * 1e6 / f64::from(CHECKS));
        let mut command = Command::new(env!("CARGO_BIN_EXE_trade-thesis"));
        command.args(["receipt", "verify"]).arg(&file).stdin(Stdio::null()).stdout(Stdio::null());
        let began = Instant::now();
        if !command.status().await?.success() {
            return Err("the command finds the receipt wrong".into());
        }
        by_command.push(began.elapsed().as_secs_f64() * 1e6);
    }
    println!("\nChecks of a receipt of {} bytes, medians of {} runs", number(receipt.len() as f64), options.rounds);
    row(&["", "µs"]);
    row(&["in a process", &number(median(here))]);
    row(&["trade-thesis receipt verify", &number(median(by_command))]);
    Ok(())
}
