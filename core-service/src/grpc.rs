//! The gRPC surface: the routes to the operations, streams, internal services, and the layers around every call.

mod account;
mod admin;
mod answer;
mod deadline;
mod delivery;
mod entrance;
mod exposure;
mod gate;
mod guard;
mod ingest;
mod log;
mod measured;
mod peer;
mod reflection;
mod routes;
mod stream;
mod subscribe;
#[cfg(test)]
mod tests;
mod traced;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::middleware::{from_fn, from_fn_with_state};
use http::{
    HeaderName, HeaderValue, Method,
    header::{ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_REQUEST_HEADERS},
};
use ipnet::IpNet;
use prost::Message as _;
use thesis_net::{
    server::{Limits, Listen, ServiceHandler},
    services::{Services, Streams},
    tls::Acceptor,
};
use thesis_proto::{descriptors, error::ApiError, v1};
use thesis_streams::{Hub, Render};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic_health::{ServingStatus, server::HealthReporter};
use tower::ServiceBuilder;
use tower_http::cors::{AllowHeaders, Any, CorsLayer};

pub use self::exposure::Exposure;
use self::{
    answer::error_status,
    entrance::{Entrance, MAX_CALLS_OF_CONNECTION},
    guard::Guard,
};
use crate::service::Core;

/// Byte limit of a request message; bodies over REST are smaller.
const MAX_MESSAGE: usize = 256 * 1024;
/// Open calls of one connection: every stream of an edge is one.
const MAX_CALLS: u32 = 100_000;
/// Calls that a connection may cancel beyond those that it lets end. An edge cancels calls while the store does not
/// answer.
const MAX_GIVEN_UP: u32 = 100_000;
/// Byte limit of the headers of a request.
const MAX_HEADERS: u32 = 32 * 1024;
/// Byte limit of unread responses.
const MAX_UNTAKEN: usize = 256 * 1024 * 1024;
/// Limit of the scheduling delay. While calls wait longer, new ones are refused.
const MAX_LAG: Duration = Duration::from_millis(300);
/// Time for open calls to end once the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// A service's part of a core.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) core: Arc<Core>,
    /// Streams of callers of this core; created when the first is opened.
    hub: Arc<OnceLock<Arc<Hub>>>,
}

impl Api {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core), hub: Arc::default() }
    }

    fn hub(&self) -> &Arc<Hub> {
        self.hub.get_or_init(|| {
            let own: Arc<Streams> = Arc::new(Self::new(&self.core));
            let render: Render = |event| event.encode_to_vec();
            Hub::new(&[Arc::clone(&own)], &own, render, &self.core.shared.ids, self.core.stop.clone())
        })
    }
}

/// The services that edge and worker call, in process.
#[must_use]
pub fn local(core: &Arc<Core>) -> Services {
    thesis_net::services_of!(Api::new(core))
}

fn guarded(routes: Routes, guard: Guard) -> Routes {
    let routes = routes.into_axum_router().layer(from_fn_with_state(guard, guard::guard));
    Routes::from(routes.layer(from_fn(measured::measure))).prepare()
}

/// Adds services of a core to routes.
macro_rules! with_services {
    ($routes:expr, $api:expr, $($module:ident::$server:ident),+) => {{
        let api = $api;
        $routes$(.add_service(v1::$module::$server::new(api.clone()).max_decoding_message_size(MAX_MESSAGE)))+
    }};
}

/// The services for callers with a key.
fn public_services(core: &Arc<Core>) -> Routes {
    with_services!(
        Routes::default(),
        Api::new(core),
        thesis_service_server::ThesisServiceServer,
        event_service_server::EventServiceServer,
        meta_service_server::MetaServiceServer,
        profile_service_server::ProfileServiceServer,
        token_service_server::TokenServiceServer,
        search_service_server::SearchServiceServer,
        test_data_service_server::TestDataServiceServer,
        alert_service_server::AlertServiceServer,
        webhook_service_server::WebhookServiceServer,
        log_service_server::LogServiceServer,
        archive_service_server::ArchiveServiceServer,
        status_service_server::StatusServiceServer
    )
}

/// All services.
fn services(core: &Arc<Core>) -> Routes {
    with_services!(
        public_services(core),
        Api::new(core),
        stream_service_server::StreamServiceServer,
        delivery_service_server::DeliveryServiceServer,
        gate_service_server::GateServiceServer,
        admin_service_server::AdminServiceServer,
        account_service_server::AccountServiceServer,
        ingest_service_server::IngestServiceServer,
        peer_service_server::PeerServiceServer
    )
}

/// Settings of a gRPC server.
#[derive(Debug)]
pub struct Serving {
    /// The services that are offered.
    pub exposure: Exposure,
    /// TLS of the connections; none serves plain HTTP.
    pub tls: Option<Acceptor>,
    /// Limit of open connections.
    pub connections: usize,
    /// Networks whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// Once cancelled, health reports the public services as not serving.
    pub leaving: CancellationToken,
    /// Once cancelled, the server stops; open calls may still end.
    pub shutdown: CancellationToken,
}

/// Serves gRPC and gRPC-web with reflection and health at a listener until told to stop.
///
/// # Errors
/// Fails if the description of the services cannot be read.
pub async fn serve(
    listener: impl Listen,
    core: Arc<Core>,
    serving: Serving,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let Serving { exposure, tls, connections, trusted_proxies, leaving, shutdown } = serving;
    let server = exposure.server();
    let (health, health_service) = tonic_health::server::health_reporter();
    let services = if exposure == Exposure::Public { public_services(&core) } else { services(&core) };
    let routes = reflection::add(services.add_service(health_service), &core)?;
    // An edge in this process limits its calls itself.
    let entrance = from_fn_with_state(Entrance::new(&core, server), entrance::enter);
    let routes = Routes::from(routes.into_axum_router().layer(entrance));
    let routes = guarded(routes, Guard::new(&core, exposure, trusted_proxies));
    let service = ServiceBuilder::new().layer(cors()).layer(tonic_web::GrpcWebLayer::new()).service(routes);
    // A refusal bypasses the layers, but browsers must be able to read it.
    let refusing = Arc::clone(&core);
    let refusal = move || {
        let mut response = error_status(&ApiError::unavailable(), &refusing.gate.new_request_id()).into_http();
        response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        response
    };
    measured::declare();
    // A client that needs more concurrent calls waits for one to end, or opens another connection.
    let (requests, given_up) = match exposure {
        Exposure::Public => (MAX_CALLS_OF_CONNECTION, MAX_CALLS_OF_CONNECTION),
        Exposure::All | Exposure::Internal => (MAX_CALLS, MAX_GIVEN_UP),
    };
    let limits = Limits {
        server,
        connections,
        requests,
        head: MAX_HEADERS,
        given_up,
        untaken: MAX_UNTAKEN,
        lag: MAX_LAG,
        drain: DRAIN_TIMEOUT,
    };
    tokio::join!(
        thesis_net::server::serve(
            listener,
            tls,
            Arc::new(ServiceHandler { service, refusal, calls: MAX_CALLS_OF_CONNECTION as usize }),
            limits,
            shutdown.clone()
        ),
        report_health(&core, exposure, &health, &leaving, &shutdown)
    );
    Ok(())
}

/// Reports the health of the whole and of each service of a listener until `shutdown`. From `leaving` on, load
/// balancers should use other cores. The roles stay until `shutdown`, and then find another core by themselves.
async fn report_health(
    core: &Core,
    exposure: Exposure,
    health: &HealthReporter,
    leaving: &CancellationToken,
    shutdown: &CancellationToken,
) {
    let set_status = async |serves: bool, leaves: bool| {
        for service in descriptors::services().filter(|service| exposure.has(service)).chain([String::new()]) {
            let serves = serves && (!leaves || reflection::is_internal(&service));
            let status = if serves { ServingStatus::Serving } else { ServingStatus::NotServing };
            health.set_service_status(service, status).await;
        }
    };
    let mut current = core.shared.control.current();
    // Some stores are never unavailable, and so have no signal for it.
    let mut away = core.shared.backend.away().unwrap_or_else(|| watch::Sender::new(false).subscribe());
    let mut leaves = false;
    loop {
        set_status(*current.borrow_and_update() && !*away.borrow_and_update(), leaves).await;
        tokio::select! {
            Ok(()) = current.changed() => {}
            Ok(()) = away.changed() => {}
            () = leaving.cancelled(), if !leaves => leaves = true,
            () = shutdown.cancelled() => break,
        }
    }
    set_status(false, true).await;
}

/// gRPC-web is for browsers of any origin: keys travel in a header, never in a cookie.
fn cors() -> CorsLayer {
    let exposed = ["grpc-status", "grpc-message", "grpc-status-details-bin"]
        .into_iter()
        .chain(thesis_proto::metadata::ANSWER_HEADERS)
        .chain([thesis_proto::metadata::REQUEST_ID])
        .map(HeaderName::from_static);
    CorsLayer::new()
        .allow_origin(Any)
        .allow_methods([Method::POST])
        // Not `*`, which leaves out `authorization`.
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(exposed.collect::<Vec<_>>())
        .max_age(Duration::from_hours(1))
        .vary([ACCESS_CONTROL_REQUEST_HEADERS])
}
