//! Core's services, as edge and worker call them: through the generated service traits. In one process they are core's
//! own implementation, and nothing is encoded. Between processes they are an adapter over the generated clients.

mod remote;
mod request_line;

use std::{net::IpAddr, sync::Arc};

use futures::stream::BoxStream;
use http::{HeaderValue, Request, Response, header::InvalidHeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use thesis_proto::v1::{
    self, account_service_server::AccountService, admin_service_server::AdminService,
    alert_service_server::AlertService, archive_service_server::ArchiveService,
    delivery_service_server::DeliveryService, event_service_server::EventService, gate_service_server::GateService,
    log_service_server::LogService, meta_service_server::MetaService, peer_service_server::PeerService,
    profile_service_server::ProfileService, search_service_server::SearchService, status_service_server::StatusService,
    stream_service_server::StreamService, test_data_service_server::TestDataService,
    thesis_service_server::ThesisService, token_service_server::TokenService, webhook_service_server::WebhookService,
};
use tonic::{Status, body::Body, codegen::StdError};
use tower::{
    Service,
    util::{BoxCloneSyncService, MapErr},
};

use self::remote::Remote;
pub use self::request_line::RequestLine;
use crate::{channel::CoreChannel, trace::Trace};

/// Maximum unreported attempts for each slot of a worker: core gives the slots of late attempts to others.
pub const ATTEMPTS_A_PLACE: usize = 2;

/// The messages of a server-streaming call.
pub type Stream<T> = BoxStream<'static, Result<T, Status>>;

/// `PeerService` of another core.
pub type PeerCore = dyn PeerService<
        AppendStream = Stream<v1::AppendResponse>,
        CopyShardStream = Stream<v1::CopyShardResponse>,
        NewsStream = Stream<v1::NewsResponse>,
    >;

/// Another core of the cluster, called over its channel with the service credential.
///
/// # Errors
/// Fails when the credential cannot travel in a header.
pub fn peer(channel: CoreChannel, credential: &SecretString) -> Result<Arc<PeerCore>, InvalidHeaderValue> {
    Ok(Arc::new(Remote {
        channel: BoxCloneSyncService::new(MapErr::new(channel, Status::from_error)),
        credential: sensitive(credential)?,
    }))
}

fn sensitive(credential: &SecretString) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut credential = HeaderValue::try_from(credential.expose_secret())?;
    credential.set_sensitive(true);
    Ok(credential)
}

/// `AdminService`.
pub type Admin = dyn AdminService<
        ReplayWebhookDeliveriesStream = Stream<v1::ReplayWebhookDeliveriesResponse>,
        BackfillStream = Stream<v1::BackfillResponse>,
        BackupStream = Stream<v1::BackupResponse>,
        ExportDatasetStream = Stream<v1::ExportDatasetResponse>,
        BuildArchiveStream = Stream<v1::BuildArchiveResponse>,
    >;

/// `ArchiveService`.
pub type Archive = dyn ArchiveService<GetArchiveFileStream = Stream<v1::GetArchiveFileResponse>>;

/// `DeliveryService`.
pub type Deliveries = dyn DeliveryService<ClaimStream = Stream<v1::ClaimResponse>>;

/// `EventService`.
pub type Events = dyn EventService<SubscribeStream = Stream<v1::SubscribeResponse>>;

/// `StreamService`.
pub type Streams =
    dyn StreamService<EndingsStream = Stream<v1::EndingsResponse>, TailStream = Stream<v1::TailResponse>>;

/// Facts about a request from an edge or a worker, which core believes. In one process they are an extension of the
/// request, which no client can send. Between processes they travel as metadata beside the service credential.
#[derive(Clone, Debug, Default)]
pub struct Trusted {
    /// The client's address, as the edge sees it.
    pub client_address: Option<IpAddr>,
    /// The request's id.
    pub request_id: Option<HeaderValue>,
    /// The request's place in its trace.
    pub trace: Option<Trace>,
    /// True if the edge could not read the whole request: core refuses it.
    pub malformed: bool,
    /// The session of the caller, if it is a person.
    pub member: Option<MemberSession>,
    /// True if the caller takes the rows of a list as JSON, in the extension [`thesis_proto::json::RenderedRows`]. It
    /// never travels between processes.
    pub renders: bool,
    /// The HTTP request that the edge translates; none for calls over gRPC.
    pub line: Option<RequestLine>,
}

impl Trusted {
    /// A request of this process itself.
    pub fn request<T>(message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        request.extensions_mut().insert(Self::default());
        request
    }
}

/// The session of a person that calls a public service in a project, in place of a key.
#[derive(Clone, Debug)]
pub struct MemberSession {
    /// Its token.
    pub token: SecretString,
    /// The project.
    pub project_id: String,
    /// True for the project's live environment.
    pub live: bool,
}

/// The services that edge and worker call.
#[derive(Clone)]
#[expect(missing_docs, reason = "a field has the name of its service")]
pub struct Services {
    pub accounts: Arc<dyn AccountService>,
    /// `AdminService`. A call without a session is an operator's: the edge calls it with one only.
    pub admin: Arc<Admin>,
    pub alerts: Arc<dyn AlertService>,
    pub archive: Arc<Archive>,
    /// One `DeliveryService` for each core: an attempt is reported to the core that assigned it.
    pub deliveries: Vec<Arc<Deliveries>>,
    pub events: Arc<Events>,
    pub gate: Arc<dyn GateService>,
    pub log: Arc<dyn LogService>,
    pub meta: Arc<dyn MetaService>,
    /// `PeerService`. Edge and worker send it their reports.
    pub peer: Arc<PeerCore>,
    pub profiles: Arc<dyn ProfileService>,
    pub search: Arc<dyn SearchService>,
    pub status: Arc<dyn StatusService>,
    pub streams: Arc<Streams>,
    /// One `StreamService` for each core: a stream belongs to one core.
    pub streams_of: Vec<Arc<Streams>>,
    pub test_data: Arc<dyn TestDataService>,
    pub theses: Arc<dyn ThesisService>,
    pub tokens: Arc<dyn TokenService>,
    pub webhooks: Arc<dyn WebhookService>,
}

/// The services of one implementation. It is a macro, because the bounds of a function would name each stream.
#[macro_export]
macro_rules! services_of {
    ($api:expr) => {{
        let api = std::sync::Arc::new($api);
        $crate::services::Services {
            accounts: api.clone(),
            admin: api.clone(),
            alerts: api.clone(),
            archive: api.clone(),
            deliveries: vec![api.clone()],
            events: api.clone(),
            gate: api.clone(),
            log: api.clone(),
            meta: api.clone(),
            peer: api.clone(),
            profiles: api.clone(),
            search: api.clone(),
            status: api.clone(),
            streams: api.clone(),
            streams_of: vec![api.clone()],
            test_data: api.clone(),
            theses: api.clone(),
            tokens: api.clone(),
            webhooks: api,
        }
    }};
}

impl Services {
    /// The services of cores behind a channel, called with the service credential. `each` has the channels to each core
    /// apart.
    ///
    /// # Errors
    /// Fails when the credential cannot travel in a header.
    pub fn remote<C>(channel: C, each: Vec<C>, credential: &SecretString) -> Result<Self, InvalidHeaderValue>
    where
        C: Service<Request<Body>, Response = Response<Body>, Error: Into<StdError>, Future: Send + 'static>
            + Clone
            + Send
            + Sync
            + 'static,
    {
        let credential = sensitive(credential)?;
        let remote = |channel: C| Remote {
            channel: BoxCloneSyncService::new(MapErr::new(channel, |error: C::Error| Status::from_error(error.into()))),
            credential: credential.clone(),
        };
        let each: Vec<_> = each.into_iter().map(|channel| Arc::new(remote(channel))).collect();
        let deliveries = each.iter().map(|core| Arc::clone(core) as Arc<Deliveries>).collect();
        let streams_of = each.into_iter().map(|core| core as Arc<Streams>).collect();
        Ok(Self { deliveries, streams_of, ..services_of!(remote(channel)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::SystemClock, tls::Authorities};

    #[tokio::test]
    async fn a_credential_that_cannot_travel_is_refused() {
        let addresses = ["http://127.0.0.1:1".to_owned()];
        let channel = CoreChannel::new(&addresses, &Authorities::default(), Arc::new(SystemClock)).unwrap();
        assert!(Services::remote(channel.clone(), channel.each(), &"line\nbreak".into()).is_err());
        assert!(Services::remote(channel.clone(), channel.each(), &"a-service-token".into()).is_ok());
    }
}
