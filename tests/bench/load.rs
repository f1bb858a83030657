//! Loads theses through the append of a core in this process.

use std::{
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use core_service::{
    AccountSettings, Bootstrap, Core, CoreSettings, DERIVED, FAN_OUT, ROWS, RequestMeta, SearchFolder,
    domain::{
        control::Project,
        dataset::Dataset,
        delivery::{Delivery, delivery_id},
        operation::Features,
        plan::Plan,
        row::NewThesis,
    },
    grpc::{self, Exposure, Serving},
    store::{SharedBackend, embedded::files_in},
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use secrecy::SecretBox;
use thesis_net::{
    clock::{Clock as _, SharedClock, SystemClock, SystemIdSource},
    tls::Authorities,
};
use tokio::{
    net::TcpListener,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Failure, Options,
    counting::Counting,
    data::{Data, Facts},
    engine::{Replayed, live_bytes},
    process::{PLAN, PLAN_NAME, SECRET_KEY, SERVICE_TOKEN, test_key},
    report::{aim, bytes_written, number, row},
    store::Setup,
};

/// Events whose deliveries are repeated.
const REPEATED: u64 = 100;
/// The file with the counts of the loaded theses.
pub(crate) const FACTS: &str = "bench-facts.json";

/// The cost of loading.
pub(crate) struct Loaded {
    theses: u64,
    seconds: f64,
    log_entries: u64,
    entries: u64,
    appends: u64,
    bytes_written: Option<u64>,
    file_bytes: u64,
    /// Bytes of the pages in use; none on a cluster.
    live_bytes: Option<u64>,
}

impl Loaded {
    /// Theses that one durable append brought.
    pub(crate) fn theses_per_append(&self) -> f64 {
        self.theses as f64 / self.appends.max(1) as f64
    }
}

/// The size of an embedded store's files; 0 on a cluster.
pub(crate) fn store_bytes(dir: &Path) -> u64 {
    let files = files_in(dir);
    [files.log, files.rows].iter().map(|file| std::fs::metadata(file).map_or(0, |file| file.len())).sum()
}

/// Starts a core in this process.
pub(crate) async fn core(store: SharedBackend, search_dir: Option<PathBuf>) -> Result<Arc<Core>, Failure> {
    core_with(store, search_dir, None, Arc::new(SystemClock)).await
}

/// Starts a core in this process with a clock, perhaps with a key that signs the logs.
pub(crate) async fn core_with(
    store: SharedBackend,
    search_dir: Option<PathBuf>,
    log_key: Option<[u8; 32]>,
    clock: SharedClock,
) -> Result<Arc<Core>, Failure> {
    let search_folder = search_dir.as_deref().map(SearchFolder::lock).transpose()?;
    let log_key = log_key.map(|key| SecretBox::new(Box::new(key)));
    let settings = CoreSettings { search_folder, log_key, ..settings() };
    Ok(Core::start(store, settings, clock, Arc::new(SystemIdSource)).await?)
}

/// Starts a core in this process that other cores reach over a socket.
pub(crate) async fn reachable_core(store: SharedBackend) -> Result<Arc<Core>, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let advertise_url = format!("http://{}", listener.local_addr()?);
    let settings = CoreSettings { advertise_url, ..settings() };
    let core = Core::start(store, settings, Arc::new(SystemClock), Arc::new(SystemIdSource)).await?;
    let serving = Serving {
        exposure: Exposure::All,
        tls: None,
        connections: 100,
        trusted_proxies: Vec::new(),
        leaving: CancellationToken::new(),
        shutdown: core.stop.clone(),
    };
    tokio::spawn(grpc::serve(listener, Arc::clone(&core), serving));
    Ok(core)
}

/// The benchmark's project.
pub(crate) fn project(core: &Core) -> Result<Arc<Project>, Failure> {
    let authorization = Some(format!("Bearer {}", test_key()).into());
    let meta = RequestMeta { authorization, ..RequestMeta::default() };
    let caller = core.gate.authenticate(&meta, SystemClock.now_ms())?;
    Ok(caller.project)
}

/// Its dataset.
pub(crate) fn dataset(core: &Core) -> Result<Dataset, Failure> {
    Ok(Dataset::of_project(&project(core)?.id))
}

/// Loads a setup.
pub(crate) async fn run(options: &Options, setup: &Setup) -> Result<Loaded, Failure> {
    let store = Arc::new(Counting::new(setup.open().await?));
    let core = core(store.clone(), setup.search_dir()).await?;
    let dataset = dataset(&core)?;

    let counted = || (store.entries.load(Relaxed), store.appends.load(Relaxed), bytes_written());
    let file_bytes = || store_bytes(&setup.dir);
    let (before, before_bytes) = (counted(), file_bytes());
    let mut data = Data::new(setup.theses, options.days, SystemClock.now_ms());
    let theses = (0..setup.theses).map(|number| data.thesis(number));
    let seconds = append(options, &core, &dataset, theses).await?;
    let after = counted();
    let log_entries = settle(&core, &dataset).await?;
    core.close().await;
    std::fs::write(setup.dir.join(FACTS), serde_json::to_string(&data.facts)?)?;
    Ok(Loaded {
        theses: setup.theses,
        seconds,
        log_entries,
        entries: after.0 - before.0,
        appends: after.1 - before.1,
        bytes_written: after.2.zip(before.2).map(|(after, before)| after - before),
        file_bytes: file_bytes().saturating_sub(before_bytes),
        live_bytes: if setup.is_cluster() { None } else { Some(live_bytes(&setup.dir)?) },
    })
}

/// Appends theses with these texts to an empty setup; gives how many a second.
pub(crate) async fn rate(options: &Options, setup: &Setup, texts: &[String]) -> Result<f64, Failure> {
    let core = core(setup.open().await?, setup.search_dir()).await?;
    let dataset = dataset(&core)?;
    let mut data = Data::new(texts.len() as u64, options.days, SystemClock.now_ms());
    let theses = (0..).zip(texts).map(|(number, text)| {
        let mut new = data.thesis(number);
        new.thesis.text.clone_from(text);
        new
    });
    let seconds = append(options, &core, &dataset, theses).await?;
    core.close().await;
    Ok(texts.len() as f64 / seconds)
}

/// Appends theses through a core; gives the seconds it took.
pub(crate) async fn append(
    options: &Options,
    core: &Core,
    dataset: &Dataset,
    theses: impl Iterator<Item = NewThesis>,
) -> Result<f64, Failure> {
    let (started, mut done) = (Instant::now(), 0_u64);
    stream::iter(theses)
        .map(|thesis| core.datasets.create_thesis(dataset, thesis))
        .buffer_unordered(options.appends)
        .try_for_each(|_| {
            done += 1;
            if done.is_multiple_of(20_000) {
                eprintln!("loaded {done} theses after {:.1} s", started.elapsed().as_secs_f64());
            }
            std::future::ready(Ok(()))
        })
        .await?;
    Ok(started.elapsed().as_secs_f64())
}

/// Writes deliveries that are due into a setup whose service does not run, straight into their tables; gives the
/// seconds that it took. They repeat those of a few events that are appended first.
pub(crate) async fn store_pending(
    options: &Options,
    setup: &Setup,
    webhook: &str,
    deliveries: u64,
) -> Result<f64, Failure> {
    let core = core(setup.open().await?, setup.search_dir()).await?;
    let dataset = dataset(&core)?;
    let mut data = Data::new(REPEATED, options.days, SystemClock.now_ms());
    let started = Instant::now();
    for index in 0..REPEATED {
        core.datasets.create_thesis(&dataset, data.thesis(index)).await?;
    }
    settle(&core, &dataset).await?;
    let (store, now_ms) = (&core.shared.deliveries, SystemClock.now_ms());
    let page = store.page(webhook, None, now_ms, REPEATED as usize).await?;
    let originals: Vec<Delivery> = page.into_iter().filter_map(|(_, delivery)| delivery).collect();
    for number in 0..i64::try_from(deliveries / REPEATED)? {
        let copies = originals.iter().map(|original| {
            let created_at = original.created_at - number;
            let id = delivery_id(webhook, created_at, &[&original.event_id, &number.to_string()]);
            Delivery::pending(id, webhook.to_owned(), created_at, original.event_ref())
        });
        let copies: Vec<Delivery> = copies.collect();
        store.create(&copies.iter().collect::<Vec<_>>(), now_ms).await?;
    }
    core.close().await;
    Ok(started.elapsed().as_secs_f64())
}

/// The counts of a loaded setup.
pub(crate) fn facts(dir: &Path) -> Result<Facts, Failure> {
    Ok(serde_json::from_str(&std::fs::read_to_string(dir.join(FACTS))?)?)
}

fn settings() -> CoreSettings {
    let plan = Plan {
        history_days: PLAN.history_days,
        concurrent_streams: PLAN.many,
        webhook_endpoints: PLAN.many,
        alerts: PLAN.many,
        verify_endpoints_days: 0,
        test_theses: PLAN.many,
        requests_per_month: PLAN.many.into(),
        standard_per_minute: PLAN.many,
        heavy_per_minute: PLAN.many,
        verify_per_minute: PLAN.many,
    };
    CoreSettings {
        secret_key: SecretBox::new(Box::new(SECRET_KEY)),
        archive: None,
        log_key: None,
        witnesses: Vec::new(),
        service_token: SERVICE_TOKEN.into(),
        plans: [(PLAN_NAME.to_owned(), plan)].into(),
        features: Features::default(),
        webhook_allow_networks: Vec::new(),
        dns_servers: Vec::new(),
        advertise_url: String::new(),
        core_authorities: Authorities::default(),
        sandbox_fixtures: true,
        sandbox_tick_seconds: 0,
        upstream: None,
        search_folder: None,
        accounts: AccountSettings::default(),
        bootstrap: Bootstrap { test_key: Some(test_key().into()), live_key: None, plan: Some(PLAN_NAME.to_owned()) },
    }
}

/// Waits until derived events, fan-out and search have caught up, so that no work of the load is left to the next
/// process. Gives the length of the log.
pub(crate) async fn settle(core: &Core, dataset: &Dataset) -> Result<u64, Failure> {
    let (name, shared) = (dataset.to_string(), &core.shared);
    loop {
        let derived = shared.log.checkpoint(&name, DERIVED).await?;
        let rows = shared.log.checkpoint(&name, ROWS).await?;
        if derived == rows && shared.log.checkpoint(&name, FAN_OUT).await? == rows {
            core.search.wait_for_position(dataset, rows).await;
            return Ok(rows);
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Prints the cost of loading, on the embedded store beside that of the bare engine.
pub(crate) fn print(loaded: &Loaded, bare: Option<&Replayed>) {
    let theses = loaded.theses as f64;
    let each = |whole: Option<u64>, theses: u64| whole.map(|whole| whole as f64 / theses as f64);
    let line = |name: &str, ours: Option<f64>, engine: Option<f64>, ratio: &str, aim: &str| {
        let [ours, engine] = [ours, engine].map(|figure| figure.map_or_else(|| "-".to_owned(), number));
        row(&[name, &ours, &engine, ratio, aim]);
    };
    let rate = theses / loaded.seconds;
    let engine_rate = bare.map(|bare| bare.theses as f64 / bare.seconds);
    let ratio = engine_rate.map(|engine| format!("{:.2}", rate / engine)).unwrap_or_default();
    println!("\n{} theses through the append, {:.1} s", number(theses), loaded.seconds);
    row(&["", "measured", "bare engine", "of bare", "aim"]);
    // Both stores must keep up, but only the embedded one is known to have the machine to itself.
    let aim = bare.map(|_| aim(rate, 6_000.0)).unwrap_or_default();
    line("theses/s, appended and projected", Some(rate), engine_rate, &ratio, &aim);
    let an_append = Some(loaded.theses_per_append());
    line("theses a durable append", an_append, bare.and(an_append), "", "");
    line("log entries a thesis", each(Some(loaded.log_entries), loaded.theses), None, "", "");
    let rows = bare.and_then(|bare| each(Some(bare.rows), bare.theses));
    line("entries written a thesis", each(Some(loaded.entries), loaded.theses), rows, "", "");
    if let Some(bare) = bare {
        let bytes = [(loaded.bytes_written, loaded.theses), (bare.bytes_written, bare.theses)];
        let [ours, engine] = bytes.map(|(whole, theses)| each(whole, theses));
        line("bytes written a thesis", ours, engine, "", "");
        let [ours, engine] = [(loaded.file_bytes, loaded.theses), (bare.file_bytes, bare.theses)];
        line("file growth in bytes a thesis", each(Some(ours.0), ours.1), each(Some(engine.0), engine.1), "", "");
        line("pages in use in bytes a thesis", each(loaded.live_bytes, loaded.theses), None, "", "");
    }
}
