//! Loads theses through the append of a core in this process.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use core_service::{
    domain::{dataset::Dataset, operation::Features, plan::Plan},
    key,
    service::{
        admin::Bootstrap,
        core::{Core, CoreSettings},
        fan_out::FAN_OUT,
        projection::{ROWS, derive_slot},
    },
    store::{
        Scan,
        embedded::{EmbeddedStore, Options as StoreOptions},
        tables,
    },
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use thesis_proto::clock::{Clock as _, SystemClock, SystemIdSource};
use tokio::time::{Instant, sleep};

use crate::{
    Failure, Options,
    counting::Counting,
    data::{Data, thesis_id},
    engine::Replayed,
    process::{PLAN, PLAN_NAME, SECRET_KEY, SERVICE_TOKEN, test_key},
    report::{aim, bytes_written, number, row},
};

const STORE: &str = "store.redb";
/// Where the paths for the reading clients are kept.
pub(crate) const PATHS: &str = "bench-paths";

/// What loading took.
pub(crate) struct Loaded {
    theses: u64,
    seconds: f64,
    log_entries: u64,
    entries: u64,
    commits: u64,
    bytes_written: Option<u64>,
    file_bytes: u64,
}

impl Loaded {
    /// Theses that one durable commit brought.
    pub(crate) fn theses_per_commit(&self) -> f64 {
        self.theses as f64 / self.commits.max(1) as f64
    }
}

/// Whether a folder was loaded before.
pub(crate) fn is_loaded(dir: &Path) -> bool {
    dir.join(PATHS).exists()
}

/// Loads a folder.
pub(crate) async fn run(options: &Options, dir: &Path) -> Result<Loaded, Failure> {
    let clock = Arc::new(SystemClock);
    let store = EmbeddedStore::open(dir, StoreOptions::default(), clock.clone())?;
    let store = Arc::new(Counting { store, entries: 0.into(), transactions: 0.into() });
    let core = Core::start(store.clone(), settings(), clock.clone(), Arc::new(SystemIdSource)).await?;
    let authorization = format!("Bearer {}", test_key());
    let caller = core.gate.authenticate(Some(&authorization), clock.now_ms())?;
    let dataset = Dataset::Project(caller.project.id.clone());

    let counted = || (store.entries.load(Relaxed), store.transactions.load(Relaxed), bytes_written());
    let file_bytes = || std::fs::metadata(dir.join(STORE)).map(|file| file.len());
    let (before, before_bytes) = (counted(), file_bytes()?);
    let mut data = Data::new(options.theses, options.days, clock.now_ms());
    let started = Instant::now();
    let mut done = 0;
    stream::iter(0..options.theses)
        .map(|index| core.datasets.create_thesis(&dataset, data.thesis(index)))
        .buffer_unordered(options.appends)
        .try_for_each(|_| {
            done += 1;
            if done % 10_000 == 0 {
                eprintln!("loaded {done} theses after {:.1} s", started.elapsed().as_secs_f64());
            }
            std::future::ready(Ok(()))
        })
        .await?;
    let seconds = started.elapsed().as_secs_f64();
    let after = counted();
    settle(&core, &dataset).await?;
    let log_entries = core.shared.log.checkpoint(&dataset.to_string(), ROWS).await?;
    core.close().await;
    let paths: String = (0..options.theses).map(|index| format!("/v1/theses/{}\n", thesis_id(index))).collect();
    std::fs::write(dir.join(PATHS), paths)?;
    Ok(Loaded {
        theses: options.theses,
        seconds,
        log_entries,
        entries: after.0 - before.0,
        commits: after.1 - before.1,
        bytes_written: after.2.zip(before.2).map(|(after, before)| after - before),
        file_bytes: file_bytes()?.saturating_sub(before_bytes),
    })
}

fn settings() -> CoreSettings {
    let plan = Plan {
        history_days: PLAN.history_days,
        concurrent_streams: PLAN.many,
        webhook_endpoints: PLAN.many,
        requests_per_month: PLAN.many.into(),
        standard_per_minute: PLAN.many,
        heavy_per_minute: PLAN.many,
        verify_per_minute: PLAN.many,
    };
    CoreSettings {
        secret_key: SECRET_KEY,
        service_token: SERVICE_TOKEN.to_owned(),
        plans: [(PLAN_NAME.to_owned(), plan)].into(),
        features: Features::default(),
        webhook_allow_networks: Vec::new(),
        dns_servers: Vec::new(),
        sandbox_tick_seconds: 0,
        search_dir: None,
        bootstrap: Bootstrap { test_key: Some(test_key()), live_key: None, plan: Some(PLAN_NAME.to_owned()) },
    }
}

/// Waits until derived events and fan-out have caught up, so that nothing of the load is left to the next process.
async fn settle(core: &Core, dataset: &Dataset) -> Result<(), Failure> {
    let (name, shared) = (dataset.to_string(), &core.shared);
    loop {
        let owed = shared.backend.scan(&Scan::all(&tables::DERIVE_DUE, key![derive_slot(&name)], 1)).await?;
        let rows = shared.log.checkpoint(&name, ROWS).await?;
        if owed.is_empty() && shared.log.checkpoint(&name, FAN_OUT).await? == rows {
            return Ok(());
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Prints what loading took beside what the bare engine took.
pub(crate) fn print(loaded: &Loaded, bare: &Replayed) {
    let (theses, bare_theses) = (loaded.theses as f64, bare.theses as f64);
    let kilobytes = |whole: Option<u64>, theses: f64| {
        whole.map_or_else(|| "-".to_owned(), |whole| format!("{:.1} KB", whole as f64 / theses / 1e3))
    };
    let (rate, bare_rate) = (theses / loaded.seconds, bare_theses / bare.seconds);
    println!("\n{} theses through the append", number(theses));
    row(&["", "measured", "bare engine", "of bare", "aim"]);
    let ratio = format!("{:.2}", rate / bare_rate);
    row(&["theses/s, appended and projected", &number(rate), &number(bare_rate), &ratio, &aim(rate, 2_000.0)]);
    let a_commit = number(loaded.theses_per_commit());
    row(&["theses a durable commit", &a_commit, &a_commit]);
    row(&["log entries a thesis", &number(loaded.log_entries as f64 / theses)]);
    row(&[
        "entries written a thesis",
        &number(loaded.entries as f64 / theses),
        &number(bare.rows as f64 / bare_theses),
    ]);
    let (bytes, bare_bytes) = (kilobytes(loaded.bytes_written, theses), kilobytes(bare.bytes_written, bare_theses));
    row(&["bytes written a thesis", &bytes, &bare_bytes]);
    let (bytes, bare_bytes) =
        (kilobytes(Some(loaded.file_bytes), theses), kilobytes(Some(bare.file_bytes), bare_theses));
    row(&["file growth a thesis", &bytes, &bare_bytes]);
}
