//! The adapter that implements core's service traits over the generated clients.

use futures::StreamExt as _;
use http::HeaderValue;
use secrecy::ExposeSecret as _;
use thesis_proto::{
    metadata::{CLIENT_ADDRESS, ENVIRONMENT, LIVE, MALFORMED, PROJECT, REQUEST_ID, SERVICE_TOKEN, SESSION, TEST},
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

use super::{MemberSession, Stream, Trusted};
use crate::trace::TRACEPARENT;

/// Maximum bytes of a response of core: a full page of the longest theses takes some megabytes.
const MAX_ANSWER: usize = 32 * 1024 * 1024;

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
pub(super) struct Remote<C> {
    pub(super) channel: C,
    pub(super) credential: HeaderValue,
}

impl<C> Remote<C> {
    /// Turns the request's `Trusted` facts into metadata beside the credential.
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
        if let Some(trace) = trusted.trace {
            let trace = HeaderValue::from_bytes(&trace.header()).expect("digits and dashes are printable");
            headers.insert(TRACEPARENT, trace);
        }
        if trusted.malformed {
            headers.insert(MALFORMED, HeaderValue::from_static("true"));
        }
        if let Some(MemberSession { token, project_id, live }) = trusted.member {
            // A text that cannot travel in a header is no valid token or project.
            let value = |text: &str| HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""));
            let mut token = value(token.expose_secret());
            token.set_sensitive(true);
            headers.insert(SESSION, token);
            headers.insert(PROJECT, value(&project_id));
            headers.insert(ENVIRONMENT, HeaderValue::from_static(if live { LIVE } else { TEST }));
        }
        Request::from_parts(MetadataMap::from_headers(headers), extensions, message)
    }
}

/// Implements a service by its client: first the unary methods, then the server-streaming ones.
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
                let response = client.$streaming(self.outward(request)).await?;
                Ok(response.map(|messages| messages.boxed()))
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
    confirm_email: ConfirmEmailRequest -> ConfirmEmailResponse;
    get_account: GetAccountRequest -> GetAccountResponse;
    send_confirmation: SendConfirmationRequest -> SendConfirmationResponse;
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
    confirm_user: ConfirmUserRequest -> ConfirmUserResponse;
    list_audit_log: ListAuditLogRequest -> ListAuditLogResponse;
    check_log: CheckLogRequest -> CheckLogResponse;
    import_dataset: ImportDatasetRequest -> ImportDatasetResponse;
} streaming {
    replay_webhook_deliveries: ReplayWebhookDeliveriesRequest -> ReplayWebhookDeliveriesResponse
        as ReplayWebhookDeliveriesStream;
    backfill: BackfillRequest -> BackfillResponse as BackfillStream;
    backup: BackupRequest -> BackupResponse as BackupStream;
    export_dataset: ExportDatasetRequest -> ExportDatasetResponse as ExportDatasetStream;
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
    get_delivery: GetDeliveryRequest -> GetDeliveryResponse;
    get_webhook: GetWebhookRequest -> GetWebhookResponse;
    update_webhook: UpdateWebhookRequest -> UpdateWebhookResponse;
    delete_webhook: DeleteWebhookRequest -> DeleteWebhookResponse;
    rotate_webhook_secret: RotateWebhookSecretRequest -> RotateWebhookSecretResponse;
    test_webhook: TestWebhookRequest -> TestWebhookResponse;
    list_deliveries: ListDeliveriesRequest -> ListDeliveriesResponse;
    replay_delivery: ReplayDeliveryRequest -> ReplayDeliveryResponse;
});
