//! The health of processes: `health` checks that the process on this machine is ready, for containers that have neither
//! shell nor curl. Edges and workers check core.

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

/// Timeout for the readiness check, which itself waits 2 s for the store or core.
const READINESS_TIMEOUT: Duration = Duration::from_secs(4);
/// Timeout for a core.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between two checks of the cores.
const POLL_INTERVAL: Duration = Duration::from_secs(3);
/// Maximum characters of another process's reason.
const MAX_REASON: usize = 1_000;

/// Succeeds if the process that listens at the ops address is ready.
pub(crate) async fn run(settings: &Settings) -> Result<(), Failure> {
    let address = reachable(settings.addresses.ops_addr);
    if address.port() == 0 {
        return Err(Refused::new("SVC_OPS_ADDR", "port 0 tells no address to ask; name the process's port").into());
    }
    // The address is this machine's own: neither a proxy nor TLS is on the way.
    let client = Client::builder().no_proxy().tls_certs_only([]).timeout(READINESS_TIMEOUT).build()?;
    let response = client.get(format!("http://{address}/readyz")).send().await;
    let mut response = response.map_err(|error| {
        let why =
            if error.is_timeout() { "does not answer in time" } else { "cannot be reached; does the process run?" };
        Refused::new("SVC_OPS_ADDR", format!("{address} {why}"))
    })?;
    let status = response.status();
    if status == StatusCode::OK {
        return Ok(());
    }
    // The first chunk has the whole response of this service.
    let body = response.chunk().await.ok().flatten().unwrap_or_default();
    let body: String = String::from_utf8_lossy(&body).trim().chars().take(MAX_REASON).collect();
    let reason = body.strip_prefix("not ready: ").unwrap_or(&body);
    Err(format!("not ready: {address} answers {}: {reason}", status.as_u16()).into())
}

/// Checks the cores repeatedly, and logs when none serves for a while and when one serves again.
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

/// Succeeds once a core serves. Otherwise returns each core's reason.
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

/// Succeeds if the one core of a channel serves; otherwise returns the reason.
async fn serves(core: CoreChannel) -> Result<(), String> {
    let address = core.addresses();
    match timeout(RESPONSE_TIMEOUT, of_core(core)).await {
        Err(_) => Err(format!("{address} does not answer within {} s", RESPONSE_TIMEOUT.as_secs())),
        Ok(Err(status)) => Err(format!("{address}: {}", status.message())),
        Ok(Ok(response)) if response.get_ref().status() == ServingStatus::Serving => Ok(()),
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

pub(crate) async fn of_service(channel: CoreChannel, service: &str) -> Result<Response<HealthCheckResponse>, Status> {
    HealthClient::new(channel).check(HealthCheckRequest { service: service.to_owned() }).await
}
