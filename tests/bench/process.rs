//! The processes that are measured: the release binary, and this benchmark's own.

use std::{fs::File, net::SocketAddr, path::Path, process::Stdio, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use core_service::keys::key_ring::{KEY_LENGTH, LIVE_PREFIX, TEST_PREFIX};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};

use crate::{
    Failure,
    connection::{Connection, get},
    report::{Memory, cpu_seconds},
    store::Setup,
};

/// The release binary.
const PROGRAM: &str = env!("CARGO_BIN_EXE_trade-thesis");
pub(crate) const SECRET_KEY: [u8; 32] = [7; 32];
pub(crate) const SERVICE_TOKEN: &str = "the-service-token-of-the-benchmark";
/// The credential of the upstream that is simulated.
pub(crate) const UPSTREAM_TOKEN: &str = "the-upstream-token-of-the-benchmark";
pub(crate) const PLAN_NAME: &str = "benchmark";
/// Limits that nothing here reaches.
pub(crate) const PLAN: Limits = Limits { history_days: 365, many: 1_000_000_000 };
/// Time limit for a process to start, and to end.
const PROCESS_TIMEOUT: Duration = Duration::from_mins(1);
/// Longest wait until every thesis is in an index that is built anew.
const INDEX_TIMEOUT: Duration = Duration::from_mins(20);

/// Lets this process have as many files and connections as the system allows.
pub(crate) fn allow_files() -> Result<(), Failure> {
    let files = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files })?)
}

/// Figures of the plan.
pub(crate) struct Limits {
    pub(crate) history_days: u32,
    pub(crate) many: u32,
}

/// The key of every request.
pub(crate) fn test_key() -> String {
    format!("{TEST_PREFIX}{}", "b".repeat(KEY_LENGTH))
}

/// The key of every request for live data; only a service that is started with it knows it.
pub(crate) fn live_key() -> String {
    format!("{LIVE_PREFIX}{}", "b".repeat(KEY_LENGTH))
}

/// A process that printed where it listens.
struct Process {
    child: Child,
    said: Value,
}

impl Process {
    async fn start(command: &mut Command) -> Result<Self, Failure> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let out = child.stdout.take().ok_or("a process has no stdout")?;
        let mut line = String::new();
        timeout(PROCESS_TIMEOUT, BufReader::new(out).read_line(&mut line)).await??;
        let said = serde_json::from_str(&line).map_err(|error| format!("a process said {line:?}: {error}"))?;
        Ok(Self { child, said })
    }

    fn id(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    async fn stop(&mut self) -> Result<(), Failure> {
        Command::new("kill").args(["-TERM", &self.id().to_string()]).status().await?;
        let status = timeout(PROCESS_TIMEOUT, self.child.wait()).await??;
        if status.success() { Ok(()) } else { Err(format!("a process ended badly: {status}").into()) }
    }
}

/// A measured service: the release binary in one process or three, the bare handler, or the simulated upstream.
pub(crate) struct Service {
    /// Processes that others need come first.
    processes: Vec<Process>,
    pub(crate) ready_ms: f64,
}

impl Service {
    /// Starts the bare handler with its two answers.
    pub(crate) async fn bare(by_id: &Path, list: &Path) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        Ok(Self { processes: vec![Process::start(command.arg("bare").args([by_id, list])).await?], ready_ms: 0.0 })
    }

    /// Starts the simulator of the upstream, at rest and without theses; what it logs goes into `dir`.
    pub(crate) async fn upstream_sim(dir: &Path) -> Result<Self, Failure> {
        let mut command = Command::new(PROGRAM);
        command
            .args(["upstream-sim", "--listen", "127.0.0.1:0", "--rate", "0", "--history-theses", "0"])
            .env("SVC_UPSTREAM_TOKEN", UPSTREAM_TOKEN)
            .stderr(File::create(dir.join("bench-upstream-sim.log"))?);
        Ok(Self { processes: vec![Process::start(&mut command).await?], ready_ms: 0.0 })
    }

    /// Starts the release binary on a loaded setup.
    pub(crate) async fn start(setup: &Setup) -> Result<Self, Failure> {
        Self::start_with(setup, &[]).await
    }

    /// The same with more settings.
    pub(crate) async fn start_with(setup: &Setup, more: &[(&str, String)]) -> Result<Self, Failure> {
        Self::start_program(Path::new(PROGRAM), setup, more).await
    }

    /// Starts a program on a loaded setup, with more settings.
    pub(crate) async fn start_program(program: &Path, setup: &Setup, more: &[(&str, String)]) -> Result<Self, Failure> {
        let started = Instant::now();
        let mut service = Self { processes: Vec::new(), ready_ms: 0.0 };
        let roles: &[Option<&str>] = if setup.apart { &[Some("core"), Some("edge"), Some("worker")] } else { &[None] };
        for role in roles {
            let mut command = command(program, setup, role.unwrap_or("all"))?;
            for (name, value) in more {
                command.env(name, value);
            }
            if let Ok(core) = service.address("grpc") {
                command.env("SVC_CORE_URL", format!("http://{core}"));
            }
            service.processes.push(Process::start(command.args(*role)).await?);
        }
        service.ready_ms = started.elapsed().as_secs_f64() * 1e3;
        Ok(service)
    }

    /// Where it listens for `http`, `grpc` or `ops`.
    pub(crate) fn address(&self, name: &str) -> Result<SocketAddr, Failure> {
        let url = self.processes.iter().find_map(|process| process.said[name].as_str()).unwrap_or_default();
        Ok(url.strip_prefix("http://").unwrap_or(url).parse().map_err(|_| format!("{name} is at no address: {url}"))?)
    }

    /// The processor time it has used.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.processes.iter().filter_map(|process| cpu_seconds(process.id())).sum()
    }

    /// The requests that it has sent to its cluster.
    pub(crate) async fn store_requests(&self) -> Result<f64, Failure> {
        self.metric("store_requests_total").await
    }

    /// A metric of its first process with this name, the sum of all its labels; 0 before it is set.
    pub(crate) async fn metric(&self, name: &str) -> Result<f64, Failure> {
        let mut connection = Connection::open(self.address("ops")?).await?;
        let metrics = connection.ask_ok(&get("/metrics", "")).await?;
        let named = std::str::from_utf8(metrics.body)?.lines().filter_map(|line| line.strip_prefix(name));
        let mut sum = 0.0;
        for (labels, value) in named.filter_map(|rest| rest.rsplit_once(' ')) {
            // A longer name begins with this one.
            if labels.is_empty() || labels.starts_with('{') {
                sum += value.parse::<f64>()?;
            }
        }
        Ok(sum)
    }

    /// Its processes.
    pub(crate) fn ids(&self) -> Vec<u32> {
        self.processes.iter().map(Process::id).collect()
    }

    /// The memory that its processes hold together.
    pub(crate) fn memory(&self) -> Memory {
        self.processes.iter().map(|process| Memory::of(process.id())).sum()
    }

    /// Waits until the search index holds everything; gives the seconds it took.
    pub(crate) async fn indexed(&self) -> Result<f64, Failure> {
        let started = Instant::now();
        let mut connection = Connection::open(self.address("http")?).await?;
        let by_likes = get("/v1/theses?sort=likes_desc&limit=1", &test_key());
        while connection.ask(&by_likes).await?.status == 503 {
            if started.elapsed() > INDEX_TIMEOUT {
                return Err("the search index stays behind".into());
            }
            sleep(Duration::from_millis(100)).await;
        }
        Ok(started.elapsed().as_secs_f64())
    }

    /// Stops it as an operator does; gives the milliseconds it took.
    pub(crate) async fn stop(mut self) -> Result<f64, Failure> {
        let started = Instant::now();
        for process in self.processes.iter_mut().rev() {
            process.stop().await?;
        }
        Ok(started.elapsed().as_secs_f64() * 1e3)
    }
}

fn command(program: &Path, setup: &Setup, role: &str) -> Result<Command, Failure> {
    let plans = setup.dir.join("bench-plans.toml");
    let Limits { history_days, many } = PLAN;
    let plan = format!(
        "[plans.{PLAN_NAME}]\nhistory_days = {history_days}\nconcurrent_streams = {many}\n\
         webhook_endpoints = {many}\nalerts = {many}\ntest_theses = {many}\nrequests_per_month = {many}\n\
         standard_per_minute = {many}\nheavy_per_minute = {many}\nverify_per_minute = {many}\n"
    );
    std::fs::write(&plans, plan)?;
    let mut command = Command::new(program);
    command
        .envs(setup.settings())
        .env("SVC_HTTP_ADDR", "127.0.0.1:0")
        .env("SVC_GRPC_ADDR", "127.0.0.1:0")
        .env("SVC_OPS_ADDR", "127.0.0.1:0")
        .env("SVC_PLANS_FILE", &plans)
        .env("SVC_SECRET_KEY", BASE64_STANDARD.encode(SECRET_KEY))
        .env("SVC_SERVICE_TOKEN", SERVICE_TOKEN)
        .env("SVC_BOOTSTRAP_TEST_KEY", test_key())
        .env("SVC_BOOTSTRAP_PLAN", PLAN_NAME)
        .env("SVC_SANDBOX_TICK_SECONDS", "0")
        .env("SVC_WEBHOOK_ALLOW_NETWORKS", "127.0.0.0/8")
        .stderr(File::create(setup.dir.join(format!("bench-{role}.log")))?);
    Ok(command)
}
