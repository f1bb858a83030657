//! `cargo bench --bench service -- archive` measures builds of the archive's files of one day that has all theses: the
//! time, the size of the files, and the memory of the process. Then it measures appends without builds and beside them,
//! in turns.
//!
//! The files of a day have the entries that the log got that day, and are built once the day is over. So the core that
//! loads the theses has a clock in a past day.

use std::{cell::Cell, fs, path::PathBuf, pin::pin, sync::Arc, time::Duration};

use core_service::domain::{
    archive::{Day, FileKind},
    dataset::Dataset,
    window::{DAY_MS, HOUR_MS, MINUTE_MS},
};
use thesis_net::clock::{Clock, SystemClock};
use thesis_proto::v1;
use tokio::{
    select,
    task::JoinHandle,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Failure, Options, StoreKind,
    calls::{self, Operator},
    client::Protocol,
    data::Data,
    load,
    process::Service,
    report::{aim, aim_below, median, number, row},
    rounds::{Beside, Figures, Kind, beside, posts},
    store::Setup,
};

/// A project's own theses have no files.
const DATASET: Dataset = Dataset::Live;
/// The service builds the files of a day this long after midnight.
const SETTLE_MS: i64 = 5 * MINUTE_MS;
/// The theses are posted in this part of the day. The rest of the day is for their appends.
const POSTED_MS: i64 = 22 * HOUR_MS;
/// Time from the start of a service to the first build of its own job.
const JOB_DELAY: Duration = Duration::from_secs(10);
/// Time limit of the service's own job for all days.
const JOB_TIMEOUT: Duration = Duration::from_mins(20);
/// Interval between two reads of the resident memory.
const MEMORY_INTERVAL: Duration = Duration::from_millis(100);
/// Our aim: the maximum of memory that a build adds to the process, in MiB.
const MAX_MEMORY: f64 = 256.0;
/// Our aim: the minimum rate of appends beside a build, of the rate without one.
const MIN_RATE_RATIO: f64 = 0.9;

/// The machine's clock, turned back.
#[derive(Clone, Copy)]
struct PastClock {
    by_ms: i64,
}

impl Clock for PastClock {
    fn now_ms(&self) -> i64 {
        SystemClock.now_ms() - self.by_ms
    }

    fn now_us(&self) -> i64 {
        SystemClock.now_us() - self.by_ms * 1_000
    }
}

/// The day that has the theses.
#[derive(Clone)]
struct BuiltDay {
    day: Day,
    /// The folder of its files.
    folder: PathBuf,
}

/// One build in a new process.
struct Build {
    seconds: f64,
    /// Resident memory just before it, in MiB.
    before: f64,
    /// Greatest resident memory during it, in MiB.
    greatest: f64,
    files: Vec<v1::DatasetFile>,
}

/// Builds of the day, one after the other.
struct Builds {
    stop: CancellationToken,
    task: JoinHandle<Result<(), Failure>>,
}

/// Measures and prints.
pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    if options.store != StoreKind::Embedded {
        return Err("the archive is measured on the embedded store: leave --store out".into());
    }
    println!("{}", crate::report::machine());
    let temporary = tempfile::tempdir()?;
    let setup = Setup::new(options, StoreKind::Embedded, options.theses, temporary.path())?;
    let day = load_day(options, &setup).await?;
    let mut builds = Vec::new();
    for _ in 0..options.rounds {
        builds.push(build_in_new_process(&setup, &day).await?);
    }
    let last = builds.last().ok_or("--rounds must be 1 or more")?;
    let theses = last.files.iter().find(|file| file.kind == FileKind::Theses.as_str()).map(|file| file.rows);
    if theses != Some(i64::try_from(setup.theses)?) {
        return Err(format!("the day has {theses:?} theses, not {}", setup.theses).into());
    }
    let seconds = median(builds.iter().map(|build| build.seconds).collect());
    print_builds(&setup, seconds, &builds, last);
    appends_beside_builds(options, &setup, &day, seconds).await
}

/// Loads theses of one day that is over.
async fn load_day(options: &Options, setup: &Setup) -> Result<BuiltDay, Failure> {
    let now_ms = SystemClock.now_ms();
    let day = Day::of(now_ms - SETTLE_MS).previous();
    let start_ms = day.start_ms();
    let clock = PastClock { by_ms: now_ms - start_ms - POSTED_MS };
    let core = load::core_with(setup.open().await?, setup.search_dir(), None, Arc::new(clock)).await?;
    let mut data = Data::new(setup.theses, 1, day.next().start_ms());
    let theses = (0..setup.theses).map(|number| {
        let mut new = data.thesis(number);
        let posted_at = start_ms + (new.thesis.created_at - start_ms) * POSTED_MS / DAY_MS;
        (new.thesis.created_at, new.thesis.updated_at, new.test) = (posted_at, posted_at, false);
        new
    });
    load::append(options, &core, &DATASET, theses).await?;
    load::settle(&core, &DATASET).await?;
    core.close().await;
    if Day::of(clock.now_ms()) != day {
        return Err("loading took longer than the day: choose fewer --theses".into());
    }
    let folder = setup.dir.join("archive").join(DATASET.to_string()).join(day.to_string());
    Ok(BuiltDay { day, folder })
}

impl BuiltDay {
    /// Builds the files, and stores them although an earlier build has.
    async fn build(&self, operator: &mut Operator) -> Result<Vec<v1::DatasetFile>, Failure> {
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder)?;
        }
        let request = v1::BuildArchiveRequest { date: self.day.to_string(), dataset: Some(DATASET.to_string()) };
        let mut built = operator.build_archive(request).await?.into_inner();
        let mut files = Vec::new();
        while let Some(response) = built.message().await? {
            files.extend(response.data);
        }
        Ok(files)
    }
}

/// Builds the day in a new process. A process that has built a day keeps memory of that, and the next build adds less.
async fn build_in_new_process(setup: &Setup, day: &BuiltDay) -> Result<Build, Failure> {
    let started = Instant::now();
    let service = Service::start(setup).await?;
    service.indexed().await?;
    let mut operator = calls::operator(&service).await?;
    if started.elapsed() >= JOB_DELAY {
        return Err("the service's own job has begun to build before the measurement".into());
    }
    let (before, began) = (service.memory().resident, Instant::now());
    let mut greatest = before;
    let mut building = pin!(day.build(&mut operator));
    let files = loop {
        select! {
            files = &mut building => break files?,
            () = sleep(MEMORY_INTERVAL) => greatest = greatest.max(service.memory().resident),
        }
    };
    let seconds = began.elapsed().as_secs_f64();
    service.stop().await?;
    Ok(Build { seconds, before, greatest, files })
}

impl Build {
    /// The memory that it added to the process, in MiB.
    fn added(&self) -> f64 {
        self.greatest - self.before
    }
}

/// Prints the times, the greatest memory of all builds, and the files, which every build makes alike.
fn print_builds(setup: &Setup, seconds: f64, builds: &[Build], last: &Build) {
    println!("\nBuilds of a day, median of {} processes; {setup}", builds.len());
    row(&["", "seconds", "theses/s"]);
    row(&["build of the day", &number(seconds), &number(setup.theses as f64 / seconds)]);
    println!("\nResident memory of the build that added most, in MiB");
    row(&["", "before", "greatest", "added", "aim"]);
    if let Some(largest) = builds.iter().max_by(|one, other| one.added().total_cmp(&other.added())) {
        let [before, greatest, added] = [largest.before, largest.greatest, largest.added()].map(number);
        let aim = aim_below(largest.added(), MAX_MEMORY, " MiB");
        row(&["build of the day", &before, &greatest, &added, &aim]);
    }
    println!("\nFiles of the day");
    row(&["", "rows", "bytes"]);
    for file in &last.files {
        row(&[&file.kind, &number(file.rows as f64), &number(file.bytes as f64)]);
    }
    let bytes: i64 = last.files.iter().map(|file| file.bytes).sum();
    row(&["all", "", &number(bytes as f64)]);
}

impl Builds {
    fn begin(mut operator: Operator, day: BuiltDay) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            while !stopped.is_cancelled() {
                day.build(&mut operator).await?;
            }
            Ok::<(), Failure>(())
        });
        Self { stop, task }
    }

    /// Waits until the last one has ended: core builds on although its caller gives up.
    async fn end(self) -> Result<(), Failure> {
        self.stop.cancel();
        self.task.await?
    }
}

/// Waits until the service's own job has found the files of all days, so that it builds nothing beside the appends.
async fn wait_for_job(service: &Service, started: Instant) -> Result<(), Failure> {
    // The gauge is also 0 before the job begins.
    while started.elapsed() < JOB_DELAY * 2 || service.metric("archive_days_missing").await? > 0.0 {
        if started.elapsed() > JOB_TIMEOUT {
            return Err("the service's own job does not build all days".into());
        }
        sleep(MEMORY_INTERVAL).await;
    }
    Ok(())
}

/// Appends test theses without builds and beside them. Each turn is in a later part of a build, which takes `seconds`.
async fn appends_beside_builds(options: &Options, setup: &Setup, day: &BuiltDay, seconds: f64) -> Result<(), Failure> {
    let started = Instant::now();
    let service = Service::start(setup).await?;
    service.indexed().await?;
    wait_for_job(&service, started).await?;
    let operator = calls::operator(&service).await?;
    let requests = posts(&setup.dir)?;
    let kind = Kind { service: &service, protocol: Protocol::Http, requests: &requests };
    let (builds, turn) = (Cell::new(None::<Builds>), Cell::new(0.5));
    let switch = async |on: bool| {
        if let Some(builds) = builds.take() {
            builds.end().await?;
        }
        if on {
            builds.set(Some(Builds::begin(operator.clone(), day.clone())));
            sleep(Duration::from_secs_f64(seconds * turn.get() / options.rounds as f64)).await;
            turn.set(turn.get() + 1.0);
        }
        Ok::<(), Failure>(())
    };
    let Beside { without, with, rate_ratio } = beside(options, options.connections, &kind, switch).await?;
    println!(
        "\nAppends without builds and beside them, {} connections, medians of {} runs in turns",
        options.connections, options.rounds
    );
    Figures::heads("without");
    without.print("POST /v1/test/theses", &without, "");
    with.print("POST /v1/test/theses, a build", &without, "");
    println!("  Median of the turns' ratios: {rate_ratio:.3}, {}.", aim(rate_ratio, MIN_RATE_RATIO));
    service.stop().await?;
    Ok(())
}
