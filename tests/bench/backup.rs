//! `cargo bench --bench service -- backup`: how long the embedded store's backup and its restore take, and what reads by
//! id and test theses notice of backups that are made one after the other. The command that receives them, and reads
//! them back, runs on the same processors.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use tokio::{
    process::Command,
    sync::Mutex,
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::{
    Failure, Options, StoreKind,
    client::Protocol,
    load,
    process::{SERVICE_TOKEN, Service},
    report::{median, number, row},
    rounds::{Beside, Figures, Kind, beside, posts, reads_by_id},
    store::Setup,
};

/// Connections of the clients: few, so that times are those of a service that is not full.
const CONNECTIONS: usize = 4;
/// Pause before a refused backup is tried again.
const PAUSE: Duration = Duration::from_millis(50);
const MB: f64 = 1e6;

/// Measures and prints.
pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    if options.store != StoreKind::Embedded {
        return Err("a cluster is saved by its own tools: leave --store out".into());
    }
    println!("{}", crate::report::machine());
    let temporary = tempfile::tempdir()?;
    let base = options.data_dir.as_deref().unwrap_or(temporary.path());
    let setup = Setup::new(options, StoreKind::Embedded, options.theses, base)?;
    if !setup.is_loaded() {
        load::run(options, &setup).await?;
    }
    let service = Service::start(&setup).await?;
    service.indexed().await?;
    let core = format!("http://{}", service.address("grpc")?);
    durations(options, &setup, &service, &core, temporary.path()).await?;
    run_beside_backups(options, &setup, &service, &core, temporary.path()).await?;
    service.stop().await?;
    Ok(())
}

/// The command that makes a backup.
fn save(core: &str, file: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trade-thesis"));
    command.args(["admin", "--json", "backup", "--to"]).arg(file);
    command.env("SVC_CORE_URL", core).env("SVC_SERVICE_TOKEN", SERVICE_TOKEN);
    command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    command
}

/// The command that restores one.
fn restore(file: &Path, dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trade-thesis"));
    command.arg("restore").arg("--from").arg(file).arg("--data-dir").arg(dir);
    command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    command
}

/// Runs a command that must succeed; gives the seconds it took.
async fn timed(mut command: Command) -> Result<f64, Failure> {
    let began = Instant::now();
    let status = command.status().await?;
    if status.success() { Ok(began.elapsed().as_secs_f64()) } else { Err(format!("a command failed: {status}").into()) }
}

async fn durations(options: &Options, setup: &Setup, service: &Service, core: &str, dir: &Path) -> Result<(), Failure> {
    let (file, copy) = (dir.join("bench.backup"), dir.join("copy"));
    let (mut saves, mut restores, mut bytes) = (Vec::new(), Vec::new(), 0);
    for _ in 0..options.rounds {
        saves.push(timed(save(core, &file)).await?);
        bytes = std::fs::metadata(&file)?.len();
        restores.push(timed(restore(&file, &copy)).await?);
        std::fs::remove_dir_all(&copy)?;
        std::fs::remove_file(&file)?;
    }
    let store = load::store_bytes(&setup.dir);
    println!("\nBackup and restore, medians of {} runs; {setup}", options.rounds);
    println!("  The store has {} MB, its backup {} MB.", number(store as f64 / MB), number(bytes as f64 / MB));
    row(&["", "seconds", "MB/s of store", "MB/s of file"]);
    for (name, seconds) in [("admin backup, read back included", saves), ("restore", restores)] {
        let seconds = median(seconds);
        let rate = |bytes: u64| number(bytes as f64 / MB / seconds);
        row(&[name, &number(seconds), &rate(store), &rate(bytes)]);
    }
    println!("  {}", service.memory());
    Ok(())
}

/// Makes one backup after the other. One may be refused while core has not noticed yet that the last one was broken off.
async fn save_on_and_on(core: String, file: PathBuf) {
    loop {
        let saved = timed(save(&core, &file)).await.is_ok() && std::fs::remove_file(&file).is_ok();
        if !saved {
            sleep(PAUSE).await;
        }
    }
}

async fn run_beside_backups(
    options: &Options,
    setup: &Setup,
    service: &Service,
    core: &str,
    dir: &Path,
) -> Result<(), Failure> {
    let (reads, posts) = (reads_by_id(dir, setup.theses)?, posts(dir)?);
    let (saving, files) = (Mutex::new(None::<JoinHandle<()>>), dir.join("meanwhile"));
    std::fs::create_dir(&files)?;
    let begun = AtomicU32::new(0);
    let switch = async |on: bool| {
        let mut saving = saving.lock().await;
        if let Some(saving) = saving.take() {
            saving.abort();
            let _aborted = saving.await;
        }
        // A name of its own: what was broken off may have left a part.
        let number = begun.fetch_add(1, Relaxed);
        let file = files.join(format!("{number}.backup"));
        *saving = on.then(|| tokio::spawn(save_on_and_on(core.to_owned(), file)));
        Ok::<(), Failure>(())
    };
    println!(
        "\nWithout backups and while they are made, {CONNECTIONS} connections, medians of {} runs",
        options.rounds
    );
    row(&["", "requests/s", "p50 ms", "p99 ms", "CPU µs"]);
    for (name, requests) in [("GET /v1/theses/{id}", &reads), ("POST /v1/test/theses", &posts)] {
        let kind = Kind { service, protocol: Protocol::Http, requests };
        let Beside { without, with, .. } = beside(options, CONNECTIONS, &kind, &switch).await?;
        print(name, &without);
        print(&format!("{name}, backups"), &with);
    }
    Ok(())
}

fn print(name: &str, figures: &Figures) {
    let milliseconds = |time: f64| format!("{time:.2}");
    let (p50, p99) = (milliseconds(figures.p50_ms), milliseconds(figures.p99_ms));
    row(&[name, &number(figures.rate), &p50, &p99, &number(figures.cpu_us)]);
}
