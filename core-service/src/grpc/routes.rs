//! The routes of the public services: each method leads to the operation of its name.

use futures::{StreamExt as _, TryStreamExt as _, stream::BoxStream};
use thesis_proto::v1::{
    self, alert_service_server::AlertService, archive_service_server::ArchiveService,
    event_service_server::EventService, log_service_server::LogService, meta_service_server::MetaService,
    profile_service_server::ProfileService, search_service_server::SearchService, status_service_server::StatusService,
    test_data_service_server::TestDataService, thesis_service_server::ThesisService,
    token_service_server::TokenService, webhook_service_server::WebhookService,
};
use tonic::{Request, Response, Status, async_trait};

use super::{
    Api,
    answer::{answer, change, status},
    log,
    subscribe::subscribe,
};
use crate::{domain::operation::Operation, operations};

/// Implements a service by its operations. `answer` is for reads, `change` for operations that change data. Methods of
/// another form follow after the table.
macro_rules! service {
    ($service:ident {
        $($with:ident $method:ident $operation:ident: $request:ident -> $response:ident;)*
    } $($other:tt)*) => {
        #[async_trait]
        impl $service for Api {
            $(async fn $method(&self, request: Request<v1::$request>) -> Result<Response<v1::$response>, Status> {
                $with(&self.core, Operation::$operation, request, |core, call, message| async move {
                    operations::$method::$method(&core, &call, message).await
                })
                .await
            })*

            $($other)*
        }
    };
}

service!(MetaService {
    answer get_me GetMe: GetMeRequest -> GetMeResponse;
    answer get_usage GetUsage: GetUsageRequest -> GetUsageResponse;
});

service!(ProfileService {
    answer get_profile GetProfile: GetProfileRequest -> GetProfileResponse;
    answer get_profile_wallets GetProfileWallets: GetProfileWalletsRequest -> GetProfileWalletsResponse;
});

service!(ThesisService {
    answer list_theses ListTheses: ListThesesRequest -> ListThesesResponse;
    answer get_thesis GetThesis: GetThesisRequest -> GetThesisResponse;
    answer verify_thesis VerifyThesis: VerifyThesisRequest -> VerifyThesisResponse;
});

service!(TokenService {
    answer get_token GetToken: GetTokenRequest -> GetTokenResponse;
    answer get_token_activity GetTokenActivity: GetTokenActivityRequest -> GetTokenActivityResponse;
    answer get_thesis_velocity GetThesisVelocity: GetThesisVelocityRequest -> GetThesisVelocityResponse;
});

service!(SearchService {
    answer search Search: SearchRequest -> SearchResponse;
    answer semantic_search SemanticSearch: SemanticSearchRequest -> SemanticSearchResponse;
});

service!(TestDataService {
    change create_test_thesis CreateTestThesis: CreateTestThesisRequest -> CreateTestThesisResponse;
});

service!(WebhookService {
    change create_webhook CreateWebhook: CreateWebhookRequest -> CreateWebhookResponse;
    answer list_webhooks ListWebhooks: ListWebhooksRequest -> ListWebhooksResponse;
    answer get_webhook GetWebhook: GetWebhookRequest -> GetWebhookResponse;
    change update_webhook UpdateWebhook: UpdateWebhookRequest -> UpdateWebhookResponse;
    change delete_webhook DeleteWebhook: DeleteWebhookRequest -> DeleteWebhookResponse;
    change rotate_webhook_secret RotateWebhookSecret: RotateWebhookSecretRequest -> RotateWebhookSecretResponse;
    change test_webhook TestWebhook: TestWebhookRequest -> TestWebhookResponse;
    answer list_deliveries ListDeliveries: ListDeliveriesRequest -> ListDeliveriesResponse;
    answer get_delivery GetDelivery: GetDeliveryRequest -> GetDeliveryResponse;
    change replay_delivery ReplayDelivery: ReplayDeliveryRequest -> ReplayDeliveryResponse;
    answer get_webhook_insight GetWebhookInsight: GetWebhookInsightRequest -> GetWebhookInsightResponse;
    change start_webhook_replay StartWebhookReplay: StartWebhookReplayRequest -> StartWebhookReplayResponse;
});

service!(AlertService {
    change create_alert CreateAlert: CreateAlertRequest -> CreateAlertResponse;
    answer list_alerts ListAlerts: ListAlertsRequest -> ListAlertsResponse;
    answer get_alert GetAlert: GetAlertRequest -> GetAlertResponse;
    change update_alert UpdateAlert: UpdateAlertRequest -> UpdateAlertResponse;
    change delete_alert DeleteAlert: DeleteAlertRequest -> DeleteAlertResponse;
});

service!(EventService {
    answer list_events ListEvents: ListEventsRequest -> ListEventsResponse;
    answer get_event GetEvent: GetEventRequest -> GetEventResponse;
    change create_stream_ticket CreateStreamTicket: CreateStreamTicketRequest -> CreateStreamTicketResponse;
}

type SubscribeStream = BoxStream<'static, Result<v1::SubscribeResponse, Status>>;

async fn subscribe(&self, request: Request<v1::SubscribeRequest>) -> Result<Response<Self::SubscribeStream>, Status> {
    subscribe(&self.core, self.hub(), request).await
});

service!(LogService {
    answer get_receipt GetReceipt: GetReceiptRequest -> GetReceiptResponse;
}

async fn get_checkpoint(
    &self,
    request: Request<v1::GetCheckpointRequest>,
) -> Result<Response<v1::GetCheckpointResponse>, Status> {
    log::get_checkpoint(&self.core, request).await
}

async fn get_tile(&self, request: Request<v1::GetTileRequest>) -> Result<Response<v1::GetTileResponse>, Status> {
    log::get_tile(&self.core, request).await
}

async fn list_keys(
    &self,
    request: Request<v1::LogServiceListKeysRequest>,
) -> Result<Response<v1::LogServiceListKeysResponse>, Status> {
    log::list_keys(&self.core, request).await
});

service!(StatusService {}

async fn get_status(&self, request: Request<v1::GetStatusRequest>) -> Result<Response<v1::GetStatusResponse>, Status> {
    log::get_status(&self.core, request).await
});

service!(ArchiveService {
    answer list_archive_files ListArchiveFiles: ListArchiveFilesRequest -> ListArchiveFilesResponse;
    answer get_archive_receipt GetArchiveReceipt: GetArchiveReceiptRequest -> GetArchiveReceiptResponse;
}

type GetArchiveFileStream = BoxStream<'static, Result<v1::GetArchiveFileResponse, Status>>;

async fn get_archive_file(
    &self,
    request: Request<v1::GetArchiveFileRequest>,
) -> Result<Response<Self::GetArchiveFileStream>, Status> {
    answer(&self.core, Operation::GetArchiveFile, request, |core, call, message| async move {
        let pieces = operations::get_archive_file::get_archive_file(&core, &call, message).await?;
        let name = Operation::GetArchiveFile.name();
        Ok(pieces.map_err(move |error| status(&error, &call.meta.request_id, name)).boxed())
    })
    .await
});
