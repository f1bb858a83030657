//! Appends a second: through one core, through two at once on one log, and as bare conditional batches of one client.
//! `cargo bench --bench service -- appends --store cql --nodes HOST:PORT` measures nothing else.

use std::{
    ops::RangeFrom,
    path::Path,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use axum::body::Bytes;
use core_service::{
    AppendOutcome, Core, LogStore, ROWS,
    domain::{dataset::Dataset, row::NewThesis},
    room,
};
use futures::{StreamExt as _, TryStreamExt as _, future::try_join_all, stream};
use thesis_net::clock::{Clock as _, SystemClock};
use tokio::time::{Instant, sleep};

use crate::{
    Failure, Options, StoreKind,
    counting::Counting,
    data::Data,
    load,
    report::{aim, median, number, row},
    store::Setup,
};

const BARE_LOG: &str = "bench";
/// Least ratio of the rate of two cores to that of one that we aim at.
const TWO_OF_ONE: f64 = 1.0;

/// How many theses are appended, and how many at once.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    /// Theses under way for each core.
    under_way: usize,
    /// Theses of each run.
    theses: u64,
}

/// A core with the count of its appends.
struct Counted {
    core: Arc<Core>,
    store: Arc<Counting>,
}

/// Theses and batches that a run appended in a second.
#[derive(Clone, Copy)]
struct Run {
    theses: f64,
    batches: f64,
    /// The share of the time after which the first core was done: a small one means that it kept the other waiting.
    first: f64,
}

/// By bare batches, one core and two: the run of each round.
type Runs = [Vec<Run>; 3];

/// Measures and prints the appends, in a keyspace of their own.
pub(crate) async fn run(options: &Options, base: &Path) -> Result<(), Failure> {
    let theses = options.theses.min(4_000);
    let loads = [
        Load { name: "one at a time", under_way: 1, theses: theses / 8 },
        Load { name: "many under way", under_way: options.appends / 2, theses },
    ];
    let all = loads.iter().map(|load| 2 * load.theses).sum::<u64>() * options.rounds as u64;
    let setup = Setup::new(options, StoreKind::Cql, all, base)?;
    let measured = measure(options, &setup, loads).await;
    setup.clear().await?;
    println!("\nAppends to one log, medians of {} runs", options.rounds);
    row(&["", "theses/s", "batches/s", "of bare", "first ends", "aim"]);
    for (load, runs) in loads.iter().zip(measured?) {
        let of = |kind: usize, figure: fn(&Run) -> f64| median(runs[kind].iter().map(figure).collect());
        for (kind, name) in ["bare batches", "one core", "two cores at once"].iter().enumerate() {
            let (theses, batches) = (of(kind, |run| run.theses), of(kind, |run| run.batches));
            let ratio = theses / of(0, |run| run.theses);
            let of_one = theses / of(1, |run| run.theses);
            let aim =
                if kind == 2 { format!("{of_one:.2} of one: {}", aim(of_one, TWO_OF_ONE)) } else { String::new() };
            let name = format!("{name}, {}", load.name);
            let first = format!("{:.2}", of(kind, |run| run.first));
            row(&[&name, &number(theses), &number(batches), &format!("{ratio:.2}"), &first, &aim]);
        }
    }
    Ok(())
}

async fn measure(options: &Options, setup: &Setup, loads: [Load; 2]) -> Result<[Runs; 2], Failure> {
    let mut cores = [counted(setup).await?, counted(setup).await?];
    let (dataset, bare) = (load::dataset(&cores[0].core)?, LogStore::new(setup.open().await?));
    let name = dataset.to_string();
    // One of them owns the log, once they know each other.
    while cores.iter().filter(|of| of.core.datasets.owns(&dataset)).count() != 1
        || cores.iter().any(|of| !*of.core.peers.all_connected().borrow())
    {
        sleep(Duration::from_millis(100)).await;
    }
    cores.sort_by_key(|of| !of.core.datasets.owns(&dataset));
    let mut data = Data::new(setup.theses, options.days, SystemClock.now_ms());
    let (mut runs, mut numbers, mut bare_head) = ([const { [const { Vec::new() }; 3] }; 2], 0.., 0);
    for _ in 0..options.rounds {
        for (load, [of_bare, of_one, of_two]) in loads.iter().zip(&mut runs) {
            let before = bare.checkpoint(&name, ROWS).await?;
            of_one.push(append(*load, &cores[..1], &dataset, &mut data, &mut numbers).await?);
            let two = append(*load, &cores, &dataset, &mut data, &mut numbers).await?;
            of_two.push(two);
            // The same bytes, with as many entries in a batch as in the two cores' batches.
            let written = bare.read(&name, before, u64::MAX, load.theses as usize).await?;
            let entries: Vec<Bytes> = written.into_iter().map(|(_, entry)| entry).collect();
            let batch = (two.theses / two.batches).round().max(1.0) as usize;
            of_bare.push(append_bare(&bare, &mut bare_head, &entries, batch).await?);
        }
    }
    for Counted { core, .. } in cores {
        core.close().await;
    }
    Ok(runs)
}

async fn counted(setup: &Setup) -> Result<Counted, Failure> {
    let store = Arc::new(Counting::new(setup.open().await?));
    Ok(Counted { core: load::reachable_core(store.clone()).await?, store })
}

/// Appends theses through cores in turns.
async fn append(
    load: Load,
    cores: &[Counted],
    dataset: &Dataset,
    data: &mut Data,
    numbers: &mut RangeFrom<u64>,
) -> Result<Run, Failure> {
    let appends = || cores.iter().map(|of| of.store.appends.load(Relaxed)).sum::<u64>() as f64;
    let share = load.theses as usize / cores.len();
    let shares: Vec<Vec<NewThesis>> =
        cores.iter().map(|_| numbers.take(share).map(|number| data.thesis(number)).collect()).collect();
    let (before, started) = (appends(), Instant::now());
    let ended = try_join_all(cores.iter().zip(shares).map(async |(of, theses)| {
        stream::iter(theses)
            .map(|thesis| of.core.datasets.create_thesis(dataset, thesis))
            .buffer_unordered(load.under_way)
            .try_for_each(|_| std::future::ready(Ok(())))
            .await?;
        Ok::<_, Failure>(started.elapsed().as_secs_f64())
    }));
    let ended = ended.await?;
    let first = ended.iter().copied().fold(f64::MAX, f64::min);
    let slower = ended.iter().copied().fold(0.0, f64::max);
    let theses = load.theses as f64 / slower;
    Ok(Run { theses, batches: (appends() - before) / slower, first: first / slower })
}

async fn append_bare(log: &LogStore, head: &mut u64, entries: &[Bytes], batch: usize) -> Result<Run, Failure> {
    let (started, mut left, mut batches) = (Instant::now(), entries, 0.0);
    while !left.is_empty() {
        let (next, rest) = left.split_at(batch.min(room(*head)).min(left.len()));
        let mut id = [0; 16];
        id[..8].copy_from_slice(&head.to_be_bytes());
        if log.append(BARE_LOG, *head, id, next).await? == AppendOutcome::Lost {
            return Err("a bare append lost against nobody".into());
        }
        (*head, left, batches) = (*head + next.len() as u64, rest, batches + 1.0);
    }
    let seconds = started.elapsed().as_secs_f64();
    Ok(Run { theses: entries.len() as f64 / seconds, batches: batches / seconds, first: 1.0 })
}
