//! The gRPC surface: thin. Convert, call, convert.

mod admin;
mod answer;
mod delivery;
mod event;
mod gate;
mod ingest;
mod meta;
mod profile;
mod search;
mod stream;
mod test_data;
mod thesis;
mod token;
mod webhook;

use std::{sync::Arc, time::Duration};

use http::{HeaderName, Method};
use thesis_proto::v1;
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;
use tonic::{service::Routes, transport::server::TcpIncoming};
use tonic_health::ServingStatus;
use tower_http::cors::{AllowHeaders, Any, CorsLayer};

use crate::service::core::Core;

/// Bytes of a request message at most; bodies over REST are smaller.
const MAX_MESSAGE: usize = 256 * 1024;
/// Calls that one connection may have open: every stream of an edge is one.
const MAX_CALLS: u32 = 100_000;
/// Bytes of a request's headers at most.
const MAX_HEADERS: u32 = 32 * 1024;

/// A service's part of a core.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) core: Arc<Core>,
}

/// Every service, to be called in process or served.
#[must_use]
pub fn routes(core: &Arc<Core>) -> Routes {
    use v1::{
        admin_service_server::AdminServiceServer, delivery_service_server::DeliveryServiceServer,
        event_service_server::EventServiceServer, gate_service_server::GateServiceServer,
        ingest_service_server::IngestServiceServer, meta_service_server::MetaServiceServer,
        profile_service_server::ProfileServiceServer, search_service_server::SearchServiceServer,
        stream_service_server::StreamServiceServer, test_data_service_server::TestDataServiceServer,
        thesis_service_server::ThesisServiceServer, token_service_server::TokenServiceServer,
        webhook_service_server::WebhookServiceServer,
    };
    let api = Api { core: Arc::clone(core) };
    macro_rules! services {
        ($first:ident $(, $server:ident)*) => {
            Routes::new($first::new(api.clone()).max_decoding_message_size(MAX_MESSAGE))
                $(.add_service($server::new(api.clone()).max_decoding_message_size(MAX_MESSAGE)))*
        };
    }
    services!(
        ThesisServiceServer,
        EventServiceServer,
        StreamServiceServer,
        MetaServiceServer,
        ProfileServiceServer,
        TokenServiceServer,
        SearchServiceServer,
        TestDataServiceServer,
        WebhookServiceServer,
        DeliveryServiceServer,
        GateServiceServer,
        AdminServiceServer,
        IngestServiceServer
    )
    .prepare()
}

/// Serves gRPC and gRPC-web with reflection and health until told to stop; then calls under way may end.
///
/// # Errors
/// When the transport fails.
pub async fn serve(
    listener: TcpListener,
    core: Arc<Core>,
    shutdown: CancellationToken,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let reflection =
        || tonic_reflection::server::Builder::configure().register_encoded_file_descriptor_set(v1::FILE_DESCRIPTOR_SET);
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_service_status("", ServingStatus::Serving).await;
    let routes = routes(&core)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?)
        .add_service(health_service);
    let mut current = core.shared.control.current();
    // What cannot be away has no news of it.
    let mut away = core.shared.backend.away().unwrap_or_else(|| watch::Sender::new(false).subscribe());
    let following = async {
        loop {
            tokio::select! {
                Ok(()) = current.changed() => {}
                Ok(()) = away.changed() => {}
                else => return,
            }
            let serves = *current.borrow_and_update() && !*away.borrow_and_update();
            let status = if serves { ServingStatus::Serving } else { ServingStatus::NotServing };
            health.set_service_status("", status).await;
        }
    };
    let stopping = async {
        shutdown.run_until_cancelled(following).await;
        shutdown.cancelled().await;
        health.set_service_status("", ServingStatus::NotServing).await;
    };
    tonic::transport::Server::builder()
        .accept_http1(true)
        .http2_keepalive_interval(Some(Duration::from_secs(20)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
        .http2_max_header_list_size(Some(MAX_HEADERS))
        .max_concurrent_streams(Some(MAX_CALLS))
        .layer(cors())
        .layer(tonic_web::GrpcWebLayer::new())
        .add_routes(routes)
        .serve_with_incoming_shutdown(TcpIncoming::from(listener).with_nodelay(Some(true)), stopping)
        .await?;
    Ok(())
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
}
