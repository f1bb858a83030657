//! `AdminService`.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures::{Stream, StreamExt as _, TryStreamExt as _, stream::BoxStream};
use thesis_proto::{
    error::ErrorCode,
    v1::{self, admin_service_server::AdminService},
};
use tonic::{Request, Response, Status, async_trait};

use super::{
    Api,
    answer::{address, internal, service_only, session, status, unbroken},
};
use crate::{
    accounts::sessions::{admit, demand_confirmation},
    domain::account::Actor,
    error::{Error, Result as Outcome},
    operations::admin,
};

impl Api {
    /// Finds the caller: the user of the session, who must be an administrator, or an operator with the service
    /// credential.
    async fn operator<T>(&self, request: &Request<T>, is_sensitive: bool) -> Result<Actor, Status> {
        service_only(&self.core, request)?;
        let (token, from) = (session(request), address(&self.core, request));
        let Some(token) = token else { return Ok(Actor::operator(from)) };
        let who = async {
            // The user has just lost the rights of an administrator.
            self.core.shared.control.refresh().await?;
            let person = admit(&self.core.shared, Some(&token), from).await?;
            if !person.user.administrator {
                return Err(Error::new(ErrorCode::InsufficientRole, "only an administrator may do this"));
            }
            if is_sensitive {
                demand_confirmation(&person)?;
            }
            Ok(Actor { is_member: false, ..person.actor })
        };
        internal(&self.core, "AdminService", who).await.map(Response::into_inner)
    }

    /// Streams a response until the core stops.
    fn streamed<T: 'static>(
        &self,
        method: &'static str,
        pieces: impl Stream<Item = Outcome<T>> + Send + 'static,
    ) -> Response<BoxStream<'static, Result<T, Status>>> {
        let (core, stop) = (Arc::clone(&self.core), self.core.stop.clone());
        let pieces = pieces.map_err(move |error| status(&error, &core.gate.new_request_id(), method));
        Response::new(pieces.take_until(async move { stop.cancelled().await }).boxed())
    }
}

/// Implements the service by its operations. A change continues although its caller may give up; `with None` stands for
/// the seed that only forms have. `after confirmation` marks the sensitive changes, which need a fresh proof of the
/// password or a factor. A read and a stream end with their caller.
macro_rules! admin_service {
    (changes {
        $($change_file:ident::$change:ident $(with $seed:ident)? $(after $proof:ident)? $change_name:literal:
            $change_request:ident -> $change_response:ident;)*
    } reads {
        $($read_file:ident::$read:ident $read_name:literal: $read_request:ident -> $read_response:ident;)*
    } streams {
        $($stream_file:ident::$stream:ident $stream_name:literal as $pieces:ident:
            $stream_request:ident -> $stream_response:ident;)*
    }) => {
        #[async_trait]
        impl AdminService for Api {
            $(async fn $change(
                &self,
                request: Request<v1::$change_request>,
            ) -> Result<Response<v1::$change_response>, Status> {
                let is_sensitive = false $(|| stringify!($proof) == "confirmation")?;
                let actor = self.operator(&request, is_sensitive).await?;
                let (core, message) = (Arc::clone(&self.core), request.into_inner());
                let work = async move { admin::$change_file::$change(&core, &actor, &message $(, $seed)?).await };
                unbroken(&self.core, concat!("AdminService/", $change_name), work).await
            })*

            $(async fn $read(
                &self,
                request: Request<v1::$read_request>,
            ) -> Result<Response<v1::$read_response>, Status> {
                let actor = self.operator(&request, false).await?;
                let work = admin::$read_file::$read(&self.core, &actor, request.get_ref());
                internal(&self.core, concat!("AdminService/", $read_name), work).await
            })*

            $(type $pieces = BoxStream<'static, Result<v1::$stream_response, Status>>;

            async fn $stream(&self, request: Request<v1::$stream_request>) -> Result<Response<Self::$pieces>, Status> {
                let actor = self.operator(&request, false).await?;
                let method = concat!("AdminService/", $stream_name);
                let begun = admin::$stream_file::$stream(&self.core, &actor, request.get_ref());
                Ok(self.streamed(method, internal(&self.core, method, begun).await?.into_inner()))
            })*
        }
    };
}

admin_service!(changes {
    create_organization::create_organization "CreateOrganization":
        CreateOrganizationRequest -> CreateOrganizationResponse;
    set_organization_plan::set_organization_plan "SetOrganizationPlan":
        SetOrganizationPlanRequest -> SetOrganizationPlanResponse;
    create_project::create_project with None "CreateProject": CreateProjectRequest -> CreateProjectResponse;
    change_project::approve_project "ApproveProject": ApproveProjectRequest -> ApproveProjectResponse;
    change_project::withdraw_project "WithdrawProject": WithdrawProjectRequest -> WithdrawProjectResponse;
    change_project::refuse_project "RefuseProject": RefuseProjectRequest -> RefuseProjectResponse;
    change_project::archive_project "ArchiveProject": ArchiveProjectRequest -> ArchiveProjectResponse;
    create_key::create_key with None "CreateKey": CreateKeyRequest -> CreateKeyResponse;
    revoke_key::revoke_key "RevokeKey": RevokeKeyRequest -> RevokeKeyResponse;
    create_user::create_user after confirmation "CreateUser": CreateUserRequest -> CreateUserResponse;
    set_administrator::set_administrator after confirmation "SetAdministrator":
        SetAdministratorRequest -> SetAdministratorResponse;
    create_reset_link::create_reset_link after confirmation "CreateResetLink":
        CreateResetLinkRequest -> CreateResetLinkResponse;
    remove_second_factors::remove_second_factors after confirmation "RemoveSecondFactors":
        RemoveSecondFactorsRequest -> RemoveSecondFactorsResponse;
    confirm_user::confirm_user "ConfirmUser": ConfirmUserRequest -> ConfirmUserResponse;
    import_dataset::import_dataset "ImportDataset": ImportDatasetRequest -> ImportDatasetResponse;
    erase_thesis::erase_thesis "EraseThesis": EraseThesisRequest -> EraseThesisResponse;
} reads {
    list_organizations::list_organizations "ListOrganizations": ListOrganizationsRequest -> ListOrganizationsResponse;
    list_projects::list_projects "ListProjects": ListProjectsRequest -> ListProjectsResponse;
    list_keys::list_keys "ListKeys": ListKeysRequest -> ListKeysResponse;
    list_abuse::list_abuse "ListAbuse": ListAbuseRequest -> ListAbuseResponse;
    list_project_webhooks::list_project_webhooks "ListProjectWebhooks":
        ListProjectWebhooksRequest -> ListProjectWebhooksResponse;
    ingest::get_ingest_status "GetIngestStatus": GetIngestStatusRequest -> GetIngestStatusResponse;
    list_users::list_users "ListUsers": ListUsersRequest -> ListUsersResponse;
    list_audit_log::list_audit_log "ListAuditLog": ListAuditLogRequest -> ListAuditLogResponse;
    check_log::check_log "CheckLog": CheckLogRequest -> CheckLogResponse;
    archive::list_archive "ListArchive": ListArchiveRequest -> ListArchiveResponse;
} streams {
    replay_deliveries::replay_webhook_deliveries "ReplayWebhookDeliveries" as ReplayWebhookDeliveriesStream:
        ReplayWebhookDeliveriesRequest -> ReplayWebhookDeliveriesResponse;
    ingest::backfill "Backfill" as BackfillStream: BackfillRequest -> BackfillResponse;
    archive::build_archive "BuildArchive" as BuildArchiveStream: BuildArchiveRequest -> BuildArchiveResponse;
    backup::backup "Backup" as BackupStream: BackupRequest -> BackupResponse;
    export_dataset::export_dataset "ExportDataset" as ExportDatasetStream:
        ExportDatasetRequest -> ExportDatasetResponse;
});
