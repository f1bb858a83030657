//! Health, readiness and metrics of a process.

use std::{sync::Arc, time::Duration};

use axum::{Router, extract::State, http::StatusCode, response::IntoResponse as _, routing::get};
use core_service::operations::Core;
use metrics_exporter_prometheus::PrometheusHandle;
use thesis_net::{
    channel::CoreChannel,
    server::{self, Limits, ServiceAnswers},
};
use tokio::{net::TcpListener, time::timeout};
use tokio_util::sync::CancellationToken;
use tonic_health::pb::health_check_response::ServingStatus;

use crate::{figures, health, version};

/// Longest wait for what the process needs, and longest time to end a connection.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most bytes of answers that clients have not taken.
const MAX_UNTAKEN: usize = 16 * 1024 * 1024;

/// What a process needs to be ready.
#[derive(Clone)]
pub(crate) enum Need {
    /// The store.
    Store(Arc<Core>),
    /// A core elsewhere.
    Core(CoreChannel),
}

impl Need {
    async fn is_met(&self) -> bool {
        match self {
            Self::Store(core) => core.shared.control.is_current() && core.shared.backend.check().await.is_ok(),
            Self::Core(channel) => {
                let answer = health::of_core(channel.clone()).await;
                answer.is_ok_and(|answer| answer.get_ref().status() == ServingStatus::Serving)
            }
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
            get(async move || ([("content-type", "text/plain; version=0.0.4")], figures::render(&metrics))),
        );
    let limits = Limits {
        server: "ops",
        connections,
        requests: 8,
        head: 16 * 1024,
        given_up: 100,
        untaken: MAX_UNTAKEN,
        lag: Duration::MAX,
        drain: PATIENCE,
    };
    let called = ServiceAnswers { service: router, refusal: || StatusCode::SERVICE_UNAVAILABLE.into_response() };
    // It tells that the other listeners stop, and does not stop itself.
    server::serve(listener, None, Arc::new(called), limits, CancellationToken::new()).await;
}

async fn ready(State(ops): State<Ops>) -> (StatusCode, &'static str) {
    if ops.leaving.is_cancelled() {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping\n")
    } else if timeout(PATIENCE, ops.need.is_met()).await == Ok(true) {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready\n")
    }
}
