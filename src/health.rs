//! The health of processes: `health` asks the one of this machine whether it is ready, for containers that have neither
//! shell nor curl, and edges and workers ask core.

use std::time::Duration;

use futures::{StreamExt as _, stream::FuturesUnordered};
use reqwest::{Client, StatusCode};
use thesis_net::{channel::CoreChannel, failure_log::FailureLog};
use thesis_proto::v1::gate_service_server::SERVICE_NAME as GATE;
use tokio::time::{sleep, timeout};
use tonic::{Code, Response, Status};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::{
    Failure,
    config::{Refused, Settings, reachable},
};

/// Longest wait for the answer, which itself waits 2 s for what the process needs.
const PATIENCE: Duration = Duration::from_secs(4);
/// Longest wait for a core.
const ANSWER: Duration = Duration::from_secs(2);
/// Time from one look at the cores to the next.
const POLL_INTERVAL: Duration = Duration::from_secs(3);
/// Most characters of a reason that another process tells.
const REASON: usize = 1_000;

/// Succeeds if the process that listens at the ops address is ready.
pub(crate) async fn run(settings: &Settings) -> Result<(), Failure> {
    let address = reachable(settings.addresses.ops_addr);
    if address.port() == 0 {
        return Err(Refused::new("SVC_OPS_ADDR", "port 0 tells no address to ask; name the process's port").into());
    }
    // The address is this machine's own: neither a proxy nor TLS is on the way.
    let client = Client::builder().no_proxy().tls_certs_only([]).timeout(PATIENCE).build()?;
    let asked = client.get(format!("http://{address}/readyz")).send().await;
    let mut answer = asked.map_err(|error| {
        let why =
            if error.is_timeout() { "does not answer in time" } else { "cannot be reached; does the process run?" };
        Refused::new("SVC_OPS_ADDR", format!("{address} {why}"))
    })?;
    let status = answer.status();
    if status == StatusCode::OK {
        return Ok(());
    }
    // This service's whole answer is in the first piece.
    let told = answer.chunk().await.ok().flatten().unwrap_or_default();
    let told: String = String::from_utf8_lossy(&told).trim().chars().take(REASON).collect();
    let reason = told.strip_prefix("not ready: ").unwrap_or(&told);
    Err(format!("not ready: {address} answers {}: {reason}", status.as_u16()).into())
}

/// Looks at the cores again and again, so that the log tells when none serves for a while, and when one does again.
pub(crate) async fn watch(cores: CoreChannel) {
    let (mut failure_log, mut failed_before) = (FailureLog::default(), false);
    loop {
        let seen = of_cores(&cores).await;
        if seen.is_ok() && failure_log.note_success() {
            tracing::info!(cores = cores.addresses(), "a core serves again");
        }
        // One failure alone may be a core that is just starting.
        if let Err(reason) = &seen
            && failed_before
            && failure_log.note_failure()
        {
            let todo = "start core, set SVC_CORE_URL to its SVC_INTERNAL_ADDR (SVC_GRPC_ADDR without one; https:// if core \
                        has TLS), and let the network reach it";
            tracing::warn!(error = reason, "no core serves; {todo}");
        }
        failed_before = seen.is_err();
        sleep(POLL_INTERVAL).await;
    }
}

/// Succeeds once a core serves. Otherwise tells of each core why it does not.
pub(crate) async fn of_cores(cores: &CoreChannel) -> Result<(), String> {
    let mut looks: FuturesUnordered<_> = cores.each().into_iter().map(serves).collect();
    let mut reasons = Vec::new();
    while let Some(seen) = looks.next().await {
        match seen {
            Ok(()) => return Ok(()),
            Err(reason) => reasons.push(reason),
        }
    }
    Err(reasons.join("; "))
}

/// Whether the one core of a channel serves, or why it does not.
async fn serves(core: CoreChannel) -> Result<(), String> {
    let address = core.addresses();
    match timeout(ANSWER, of_core(core)).await {
        Err(_) => Err(format!("{address} does not answer within {} s", ANSWER.as_secs())),
        Ok(Err(status)) => Err(format!("{address}: {}", status.message())),
        Ok(Ok(answer)) if answer.get_ref().status() == ServingStatus::Serving => Ok(()),
        Ok(Ok(_)) => Err(format!("{address} starts, stops or lacks its store")),
    }
}

/// Asks a core for the health of a service that only roles call: a stopping core still serves it.
pub(crate) async fn of_core(channel: CoreChannel) -> Result<Response<HealthCheckResponse>, Status> {
    of_service(channel, GATE).await.map_err(|status| match status.code() {
        Code::NotFound => {
            Status::not_found("this address is for customers; name core's SVC_INTERNAL_ADDR in its place")
        }
        _ => status,
    })
}

/// Asks a core for the health of a service.
pub(crate) async fn of_service(channel: CoreChannel, service: &str) -> Result<Response<HealthCheckResponse>, Status> {
    HealthClient::new(channel).check(HealthCheckRequest { service: service.to_owned() }).await
}
