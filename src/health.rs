//! The health of processes: `health` asks the one of this machine whether it is ready, for containers that have neither
//! shell nor curl, and edges and workers ask core.

use std::time::Duration;

use reqwest::{Client, StatusCode};
use thesis_net::channel::CoreChannel;
use thesis_proto::v1::gate_service_server::SERVICE_NAME as GATE;
use tonic::{Response, Status};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_client::HealthClient};

use crate::{
    Failure,
    config::{Refused, Settings, reachable},
};

/// Longest wait for the answer, which itself waits 2 s for what the process needs.
const PATIENCE: Duration = Duration::from_secs(4);

/// Succeeds if the process that listens at the ops address is ready.
pub(crate) async fn run(settings: &Settings) -> Result<(), Failure> {
    let address = reachable(settings.addresses.ops_addr);
    if address.port() == 0 {
        return Err(Refused::new("SVC_OPS_ADDR", "port 0 tells no address to ask; name the process's port").into());
    }
    // The address is this machine's own: neither a proxy nor TLS is on the way.
    let client = Client::builder().no_proxy().tls_certs_only([]).timeout(PATIENCE).build()?;
    let asked = client.get(format!("http://{address}/readyz")).send().await;
    let answer = asked.map_err(|error| {
        let why =
            if error.is_timeout() { "does not answer in time" } else { "cannot be reached; does the process run?" };
        Refused::new("SVC_OPS_ADDR", format!("{address} {why}"))
    })?;
    match answer.status() {
        StatusCode::OK => Ok(()),
        status => Err(format!("not ready: {address} answers {}", status.as_u16()).into()),
    }
}

/// Asks a core for the health of a service that only roles call: a stopping core still serves it.
pub(crate) async fn of_core(channel: CoreChannel) -> Result<Response<HealthCheckResponse>, Status> {
    HealthClient::new(channel).check(HealthCheckRequest { service: GATE.to_owned() }).await
}
