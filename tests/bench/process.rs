//! The processes that are measured: the release binary, and this benchmark's own.

use std::{fs::File, net::SocketAddr, path::Path, process::Stdio, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use core_service::service::secrets::{KEY_LENGTH, TEST_PREFIX};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::{Instant, timeout},
};

use crate::{Failure, report::cpu_seconds};

pub(crate) const SECRET_KEY: [u8; 32] = [7; 32];
pub(crate) const SERVICE_TOKEN: &str = "the-service-token-of-the-benchmark";
pub(crate) const PLAN_NAME: &str = "benchmark";
/// Limits that nothing here reaches.
pub(crate) const PLAN: Limits = Limits { history_days: 365, many: 1_000_000_000 };
const PATIENCE: Duration = Duration::from_mins(1);

/// Of the plan's figures.
pub(crate) struct Limits {
    pub(crate) history_days: u32,
    pub(crate) many: u32,
}

/// The key of every request.
pub(crate) fn test_key() -> String {
    format!("{TEST_PREFIX}{}", "b".repeat(KEY_LENGTH))
}

/// A process that said where it listens.
pub(crate) struct Process {
    child: Child,
    said: Value,
}

impl Process {
    async fn start(command: &mut Command) -> Result<Self, Failure> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let out = child.stdout.take().ok_or("a process has no stdout")?;
        let mut line = String::new();
        timeout(PATIENCE, BufReader::new(out).read_line(&mut line)).await??;
        let said = serde_json::from_str(&line).map_err(|error| format!("a process said {line:?}: {error}"))?;
        Ok(Self { child, said })
    }

    /// Starts the bare handler with its two answers.
    pub(crate) async fn bare(by_id: &Path, list: &Path) -> Result<Self, Failure> {
        Self::start(Command::new(std::env::current_exe()?).arg("bare").args([by_id, list])).await
    }

    /// Where it listens for `http` or `grpc`.
    pub(crate) fn address(&self, name: &str) -> Result<SocketAddr, Failure> {
        let url = self.said[name].as_str().unwrap_or_default();
        Ok(url.strip_prefix("http://").unwrap_or(url).parse().map_err(|_| format!("{name} is at no address: {url}"))?)
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// The processor time it has used.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        cpu_seconds(self.id()).unwrap_or_default()
    }
}

/// The release binary on a loaded folder.
pub(crate) struct Service {
    pub(crate) process: Process,
    pub(crate) ready_ms: f64,
}

impl Service {
    pub(crate) async fn start(dir: &Path) -> Result<Self, Failure> {
        let plans = dir.join("bench-plans.toml");
        let Limits { history_days, many } = PLAN;
        let plan = format!(
            "[plans.{PLAN_NAME}]\nhistory_days = {history_days}\nconcurrent_streams = {many}\n\
             webhook_endpoints = {many}\nrequests_per_month = {many}\nstandard_per_minute = {many}\n\
             heavy_per_minute = {many}\nverify_per_minute = {many}\n"
        );
        std::fs::write(&plans, plan)?;
        let started = Instant::now();
        let process = Process::start(
            Command::new(env!("CARGO_BIN_EXE_trade-thesis"))
                .env("SVC_DATA_DIR", dir)
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
                .stderr(File::create(dir.join("bench-service.log"))?),
        )
        .await?;
        Ok(Self { process, ready_ms: started.elapsed().as_secs_f64() * 1e3 })
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }
}
