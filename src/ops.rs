//! Health, readiness and metrics of a process.

use std::{sync::Arc, time::Duration};

use axum::{Router, extract::State, http::StatusCode, response::IntoResponse as _, routing::get};
use core_service::Core;
use metrics_exporter_prometheus::PrometheusHandle;
use thesis_net::{
    channel::CoreChannel,
    server::{self, Limits, ServiceHandler},
};
use tokio::{net::TcpListener, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{health, metrics, version};

/// Timeout for the store's check, and for open connections at the end.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum bytes of unread responses.
const MAX_UNTAKEN: usize = 16 * 1024 * 1024;

/// The dependency that a process needs to be ready.
#[derive(Clone)]
pub(crate) enum Need {
    Store(Arc<Core>),
    /// A core elsewhere.
    Core(CoreChannel),
}

impl Need {
    /// Fails with the reason, in few words.
    async fn is_met(&self) -> Result<(), String> {
        match self {
            Self::Store(core) if !core.shared.control.is_current() => Err("the store was not read lately".to_owned()),
            Self::Store(core) => {
                let checked = timeout(STORE_TIMEOUT, core.shared.backend.check()).await;
                checked.map_err(|_| "the store does not answer in time".to_owned())?.map_err(|error| error.to_string())
            }
            Self::Core(cores) => health::of_cores(cores).await.map_err(|reason| format!("no core serves: {reason}")),
        }
    }
}

#[derive(Clone)]
struct Ops {
    need: Need,
    leaving: CancellationToken,
}

/// Serves until the process ends, without TLS: only operators reach it. Not ready from `leaving` on.
pub(crate) async fn serve(
    listener: TcpListener,
    metrics: PrometheusHandle,
    need: Need,
    connections: usize,
    leaving: CancellationToken,
) {
    let router = Router::new()
        .route("/healthz", get(async || version::HEALTHY))
        .route("/readyz", get(ready))
        .with_state(Ops { need, leaving })
        .route(
            "/metrics",
            get(async move || ([("content-type", "text/plain; version=0.0.4")], metrics::render(&metrics))),
        );
    let limits = Limits {
        server: "ops",
        connections,
        requests: 8,
        head: 16 * 1024,
        given_up: 100,
        untaken: MAX_UNTAKEN,
        lag: Duration::MAX,
        drain: STORE_TIMEOUT,
    };
    let called =
        ServiceHandler { service: router, refusal: || StatusCode::SERVICE_UNAVAILABLE.into_response(), calls: 0 };
    // It reports that the other listeners stop, and does not stop itself.
    server::serve(listener, None, Arc::new(called), limits, CancellationToken::new()).await;
}

async fn ready(State(ops): State<Ops>) -> (StatusCode, String) {
    if ops.leaving.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned());
    }
    match ops.need.is_met().await {
        Ok(()) => (StatusCode::OK, "ready\n".to_owned()),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")),
    }
}
