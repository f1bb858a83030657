//! Core's services, as edge and worker call them: through the generated service traits. In one process they are core's
//! own implementation, and nothing is encoded. Between processes they are an adapter over the generated clients.

use std::{net::IpAddr, sync::Arc};

use futures::{StreamExt as _, stream::BoxStream};
use http::{HeaderValue, header::InvalidHeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use thesis_proto::{
    metadata::{CLIENT_ADDRESS, MALFORMED, REQUEST_ID, SERVICE_TOKEN},
    v1::{
        self, account_service_client::AccountServiceClient, account_service_server::AccountService,
        admin_service_client::AdminServiceClient, admin_service_server::AdminService,
        delivery_service_client::DeliveryServiceClient, delivery_service_server::DeliveryService,
        event_service_client::EventServiceClient, event_service_server::EventService,
        gate_service_client::GateServiceClient, gate_service_server::GateService,
        meta_service_client::MetaServiceClient, meta_service_server::MetaService,
        peer_service_client::PeerServiceClient, peer_service_server::PeerService,
        profile_service_client::ProfileServiceClient, profile_service_server::ProfileService,
        search_service_client::SearchServiceClient, search_service_server::SearchService,
        stream_service_client::StreamServiceClient, stream_service_server::StreamService,
        test_data_service_client::TestDataServiceClient, test_data_service_server::TestDataService,
        thesis_service_client::ThesisServiceClient, thesis_service_server::ThesisService,
        token_service_client::TokenServiceClient, token_service_server::TokenService,
        webhook_service_client::WebhookServiceClient, webhook_service_server::WebhookService,
    },
};
use tonic::{
    Request, Response, Status, async_trait,
    body::Body,
    client::GrpcService,
    codegen::{self, Bytes, StdError},
    metadata::MetadataMap,
};

use crate::{channel::CoreChannel, clock::SharedClock};

/// Most bytes of an answer of core: a full page of the longest theses takes some megabytes.
const MAX_ANSWER: usize = 32 * 1024 * 1024;

/// Most attempts of a worker that are unreported, for each of its places: core gives the places of late ones to others.
pub const ATTEMPTS_A_PLACE: usize = 2;

/// The messages of a server-streaming call.
pub type Stream<T> = BoxStream<'static, Result<T, Status>>;

/// `PeerService` of another core.
pub type PeerCore = dyn PeerService<AppendStream = Stream<v1::AppendResponse>, NewsStream = Stream<v1::NewsResponse>>;

/// Another core of the cluster, called with the service credential.
///
/// # Errors
/// When the address is no URL, or the credential cannot travel in a header.
pub fn peer(address: &str, credential: &SecretString, clock: SharedClock) -> Result<Arc<PeerCore>, StdError> {
    let channel = CoreChannel::new(&[address.to_owned()], clock)?;
    Ok(Arc::new(Remote { channel, credential: sensitive(credential)? }))
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
    >;

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
    /// The edge could not read all of the request: core refuses it.
    pub malformed: bool,
}

/// The services that edge and worker call.
#[derive(Clone)]
pub struct Services {
    /// `AccountService`.
    pub accounts: Arc<dyn AccountService>,
    /// `AdminService`. A call without a session is an operator's: the edge calls it with one only.
    pub admin: Arc<Admin>,
    /// `DeliveryService` of each core apart: an attempt is reported to the core that handed it out.
    pub deliveries: Vec<Arc<Deliveries>>,
    /// `EventService`.
    pub events: Arc<Events>,
    /// `GateService`.
    pub gate: Arc<dyn GateService>,
    /// `MetaService`.
    pub meta: Arc<dyn MetaService>,
    /// `ProfileService`.
    pub profiles: Arc<dyn ProfileService>,
    /// `SearchService`.
    pub search: Arc<dyn SearchService>,
    /// `StreamService`.
    pub streams: Arc<Streams>,
    /// `StreamService` of each core apart: a stream belongs to one of them.
    pub streams_of: Vec<Arc<Streams>>,
    /// `TestDataService`.
    pub test_data: Arc<dyn TestDataService>,
    /// `ThesisService`.
    pub theses: Arc<dyn ThesisService>,
    /// `TokenService`.
    pub tokens: Arc<dyn TokenService>,
    /// `WebhookService`.
    pub webhooks: Arc<dyn WebhookService>,
}

impl Services {
    /// One implementation of every service.
    pub fn of<T>(api: T) -> Self
    where
        T: AccountService
            + AdminService<
                ReplayWebhookDeliveriesStream = Stream<v1::ReplayWebhookDeliveriesResponse>,
                BackfillStream = Stream<v1::BackfillResponse>,
            > + DeliveryService<ClaimStream = Stream<v1::ClaimResponse>>
            + EventService<SubscribeStream = Stream<v1::SubscribeResponse>>
            + GateService
            + MetaService
            + ProfileService
            + SearchService
            + StreamService<EndingsStream = Stream<v1::EndingsResponse>, TailStream = Stream<v1::TailResponse>>
            + TestDataService
            + ThesisService
            + TokenService
            + WebhookService,
    {
        let api = Arc::new(api);
        Self {
            accounts: api.clone(),
            admin: api.clone(),
            deliveries: vec![api.clone()],
            events: api.clone(),
            gate: api.clone(),
            meta: api.clone(),
            profiles: api.clone(),
            search: api.clone(),
            streams: api.clone(),
            streams_of: vec![api.clone()],
            test_data: api.clone(),
            theses: api.clone(),
            tokens: api.clone(),
            webhooks: api,
        }
    }

    /// The services of cores behind a channel, called with the service credential. `each` has the channels to each core
    /// apart.
    ///
    /// # Errors
    /// When the credential cannot travel in a header.
    pub fn remote<C: Channel>(channel: C, each: Vec<C>, credential: &SecretString) -> Result<Self, InvalidHeaderValue> {
        let credential = sensitive(credential)?;
        let remote = |channel| Remote { channel, credential: credential.clone() };
        let each: Vec<_> = each.into_iter().map(|channel| Arc::new(remote(channel))).collect();
        let deliveries = each.iter().map(|core| Arc::clone(core) as Arc<Deliveries>).collect();
        let streams_of = each.into_iter().map(|core| core as Arc<Streams>).collect();
        Ok(Self { deliveries, streams_of, ..Self::of(remote(channel)) })
    }
}

/// A way to a core that the generated clients can use.
pub trait Channel:
    GrpcService<
        Body,
        Future: Send,
        Error: Into<StdError>,
        ResponseBody: codegen::Body<Data = Bytes, Error: Into<StdError> + Send> + Send + 'static,
    > + Clone
    + Send
    + Sync
    + 'static
{
}

impl<C> Channel for C where
    C: GrpcService<
            Body,
            Future: Send,
            Error: Into<StdError>,
            ResponseBody: codegen::Body<Data = Bytes, Error: Into<StdError> + Send> + Send + 'static,
        > + Clone
        + Send
        + Sync
        + 'static
{
}

/// The services of a core in another process.
struct Remote<C> {
    channel: C,
    credential: HeaderValue,
}

impl<C> Remote<C> {
    /// The request as it travels: its `Trusted` facts become metadata beside the credential.
    fn outward<T>(&self, request: Request<T>) -> Request<T> {
        let (metadata, mut extensions, message) = request.into_parts();
        let trusted = extensions.remove::<Trusted>().unwrap_or_default();
        let mut headers = metadata.into_headers();
        headers.insert(SERVICE_TOKEN, self.credential.clone());
        if let Some(address) = trusted.client_address {
            let address = HeaderValue::try_from(address.to_string()).expect("an address is printable");
            headers.insert(CLIENT_ADDRESS, address);
        }
        if let Some(request_id) = trusted.request_id {
            headers.insert(REQUEST_ID, request_id);
        }
        if trusted.malformed {
            headers.insert(MALFORMED, HeaderValue::from_static("true"));
        }
        Request::from_parts(MetadataMap::from_headers(headers), extensions, message)
    }
}

/// Implements a service by its client: methods with one answer, then methods that answer with several messages.
macro_rules! remote {
    ($service:ident by $client:ident {
        $($method:ident: $request:ident -> $response:ident;)*
    } $(streaming {
        $($streaming:ident: $first:ident -> $messages:ident as $stream:ident;)*
    })?) => {
        #[async_trait]
        impl<C: Channel> $service for Remote<C> {
            $(async fn $method(
                &self,
                request: Request<v1::$request>,
            ) -> Result<Response<v1::$response>, Status> {
                let mut client = $client::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER);
                client.$method(self.outward(request)).await
            })*
            $($(type $stream = Stream<v1::$messages>;
            async fn $streaming(
                &self,
                request: Request<v1::$first>,
            ) -> Result<Response<Self::$stream>, Status> {
                let mut client = $client::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER);
                let answer = client.$streaming(self.outward(request)).await?;
                Ok(answer.map(|messages| messages.boxed()))
            })*)?
        }
    };
}

remote!(AccountService by AccountServiceClient {
    sign_up: SignUpRequest -> SignUpResponse;
    sign_in: SignInRequest -> SignInResponse;
    get_link: GetLinkRequest -> GetLinkResponse;
    accept_invitation: AcceptInvitationRequest -> AcceptInvitationResponse;
    request_password_reset: RequestPasswordResetRequest -> RequestPasswordResetResponse;
    reset_password: ResetPasswordRequest -> ResetPasswordResponse;
    get_account: GetAccountRequest -> GetAccountResponse;
    sign_out: SignOutRequest -> SignOutResponse;
    change_password: ChangePasswordRequest -> ChangePasswordResponse;
    list_sessions: ListSessionsRequest -> ListSessionsResponse;
    revoke_session: RevokeSessionRequest -> RevokeSessionResponse;
    create_organization: AccountServiceCreateOrganizationRequest -> AccountServiceCreateOrganizationResponse;
    get_organization: GetOrganizationRequest -> GetOrganizationResponse;
    update_organization: UpdateOrganizationRequest -> UpdateOrganizationResponse;
    list_members: ListMembersRequest -> ListMembersResponse;
    update_member: UpdateMemberRequest -> UpdateMemberResponse;
    remove_member: RemoveMemberRequest -> RemoveMemberResponse;
    create_invitation: CreateInvitationRequest -> CreateInvitationResponse;
    list_invitations: ListInvitationsRequest -> ListInvitationsResponse;
    delete_invitation: DeleteInvitationRequest -> DeleteInvitationResponse;
    create_project: AccountServiceCreateProjectRequest -> AccountServiceCreateProjectResponse;
    list_projects: AccountServiceListProjectsRequest -> AccountServiceListProjectsResponse;
    update_project: UpdateProjectRequest -> UpdateProjectResponse;
    archive_project: AccountServiceArchiveProjectRequest -> AccountServiceArchiveProjectResponse;
    request_live_access: RequestLiveAccessRequest -> RequestLiveAccessResponse;
    create_key: AccountServiceCreateKeyRequest -> AccountServiceCreateKeyResponse;
    list_keys: AccountServiceListKeysRequest -> AccountServiceListKeysResponse;
    revoke_key: AccountServiceRevokeKeyRequest -> AccountServiceRevokeKeyResponse;
    get_project_usage: GetProjectUsageRequest -> GetProjectUsageResponse;
    list_key_usage: ListKeyUsageRequest -> ListKeyUsageResponse;
    list_audit_entries: ListAuditEntriesRequest -> ListAuditEntriesResponse;
});
remote!(AdminService by AdminServiceClient {
    create_organization: CreateOrganizationRequest -> CreateOrganizationResponse;
    list_organizations: ListOrganizationsRequest -> ListOrganizationsResponse;
    set_organization_plan: SetOrganizationPlanRequest -> SetOrganizationPlanResponse;
    create_project: CreateProjectRequest -> CreateProjectResponse;
    list_projects: ListProjectsRequest -> ListProjectsResponse;
    approve_project: ApproveProjectRequest -> ApproveProjectResponse;
    withdraw_project: WithdrawProjectRequest -> WithdrawProjectResponse;
    refuse_project: RefuseProjectRequest -> RefuseProjectResponse;
    archive_project: ArchiveProjectRequest -> ArchiveProjectResponse;
    create_key: CreateKeyRequest -> CreateKeyResponse;
    list_keys: ListKeysRequest -> ListKeysResponse;
    revoke_key: RevokeKeyRequest -> RevokeKeyResponse;
    list_abuse: ListAbuseRequest -> ListAbuseResponse;
    list_project_webhooks: ListProjectWebhooksRequest -> ListProjectWebhooksResponse;
    get_ingest_status: GetIngestStatusRequest -> GetIngestStatusResponse;
    create_user: CreateUserRequest -> CreateUserResponse;
    list_users: ListUsersRequest -> ListUsersResponse;
    set_administrator: SetAdministratorRequest -> SetAdministratorResponse;
    create_reset_link: CreateResetLinkRequest -> CreateResetLinkResponse;
    list_audit_log: ListAuditLogRequest -> ListAuditLogResponse;
    check_log: CheckLogRequest -> CheckLogResponse;
} streaming {
    replay_webhook_deliveries: ReplayWebhookDeliveriesRequest -> ReplayWebhookDeliveriesResponse
        as ReplayWebhookDeliveriesStream;
    backfill: BackfillRequest -> BackfillResponse as BackfillStream;
});
remote!(DeliveryService by DeliveryServiceClient {
    report: ReportRequest -> ReportResponse;
} streaming {
    claim: ClaimRequest -> ClaimResponse as ClaimStream;
});
remote!(EventService by EventServiceClient {
    list_events: ListEventsRequest -> ListEventsResponse;
    get_event: GetEventRequest -> GetEventResponse;
    create_stream_ticket: CreateStreamTicketRequest -> CreateStreamTicketResponse;
} streaming {
    subscribe: SubscribeRequest -> SubscribeResponse as SubscribeStream;
});
remote!(GateService by GateServiceClient {
    refuse: RefuseRequest -> RefuseResponse;
});
remote!(MetaService by MetaServiceClient {
    get_me: GetMeRequest -> GetMeResponse;
    get_usage: GetUsageRequest -> GetUsageResponse;
});
remote!(PeerService by PeerServiceClient {
    look_up: LookUpRequest -> LookUpResponse;
    get_feed_status: GetFeedStatusRequest -> GetFeedStatusResponse;
    count_theses: CountThesesRequest -> CountThesesResponse;
} streaming {
    append: AppendRequest -> AppendResponse as AppendStream;
    news: NewsRequest -> NewsResponse as NewsStream;
});
remote!(ProfileService by ProfileServiceClient {
    get_profile: GetProfileRequest -> GetProfileResponse;
    get_profile_wallets: GetProfileWalletsRequest -> GetProfileWalletsResponse;
});
remote!(SearchService by SearchServiceClient {
    search: SearchRequest -> SearchResponse;
    semantic_search: SemanticSearchRequest -> SemanticSearchResponse;
});
remote!(StreamService by StreamServiceClient {
    open: OpenRequest -> OpenResponse;
    close: CloseRequest -> CloseResponse;
    read: ReadRequest -> ReadResponse;
} streaming {
    endings: EndingsRequest -> EndingsResponse as EndingsStream;
    tail: TailRequest -> TailResponse as TailStream;
});
remote!(TestDataService by TestDataServiceClient {
    create_test_thesis: CreateTestThesisRequest -> CreateTestThesisResponse;
});
remote!(ThesisService by ThesisServiceClient {
    list_theses: ListThesesRequest -> ListThesesResponse;
    get_thesis: GetThesisRequest -> GetThesisResponse;
    verify_thesis: VerifyThesisRequest -> VerifyThesisResponse;
});
remote!(TokenService by TokenServiceClient {
    get_token: GetTokenRequest -> GetTokenResponse;
    get_token_activity: GetTokenActivityRequest -> GetTokenActivityResponse;
    get_thesis_velocity: GetThesisVelocityRequest -> GetThesisVelocityResponse;
});
remote!(WebhookService by WebhookServiceClient {
    create_webhook: CreateWebhookRequest -> CreateWebhookResponse;
    list_webhooks: ListWebhooksRequest -> ListWebhooksResponse;
    get_webhook: GetWebhookRequest -> GetWebhookResponse;
    update_webhook: UpdateWebhookRequest -> UpdateWebhookResponse;
    delete_webhook: DeleteWebhookRequest -> DeleteWebhookResponse;
    rotate_webhook_secret: RotateWebhookSecretRequest -> RotateWebhookSecretResponse;
    test_webhook: TestWebhookRequest -> TestWebhookResponse;
    list_deliveries: ListDeliveriesRequest -> ListDeliveriesResponse;
    replay_delivery: ReplayDeliveryRequest -> ReplayDeliveryResponse;
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    #[tokio::test]
    async fn a_credential_that_cannot_travel_is_refused() {
        let channel = CoreChannel::new(&["http://127.0.0.1:1".to_owned()], Arc::new(SystemClock)).unwrap();
        assert!(Services::remote(channel.clone(), channel.each(), &"line\nbreak".into()).is_err());
        assert!(Services::remote(channel.clone(), channel.each(), &"a-service-token".into()).is_ok());
    }
}
