//! `AdminService`.

mod caller;
#[cfg(test)]
mod tests;

use futures::{
    TryFutureExt as _,
    stream::{BoxStream, try_unfold},
};
use thesis_proto::{
    error::ErrorCode,
    v1::{self, admin_service_server::AdminService},
};
use tonic::{Request, Response, Status, async_trait};

use super::{
    Api,
    answer::{internal, status},
};
use crate::{
    convert,
    domain::id_kind::unknown_to_operator,
    error::Error,
    operations::admin::{
        backup::backup,
        change_project::{approve_project, archive_project, refuse_project, withdraw_project},
        check_log::check_log,
        confirm_user::confirm_user,
        create_key::{NewKey, create_key},
        create_organization::create_organization,
        create_project::create_project,
        create_reset_link::create_reset_link,
        create_user::create_user,
        export_dataset::DatasetExport,
        import_dataset::import_dataset,
        ingest,
        list_abuse::list_abuse,
        list_audit_log::list_audit_log,
        list_keys::list_keys,
        list_project_webhooks::list_project_webhooks,
        list_users::list_users,
        replay_deliveries::DeliveryReplay,
        revoke_key::revoke_key,
        set_administrator::set_administrator,
        set_organization_plan::set_organization_plan,
    },
};

const REPLAY: &str = "AdminService/ReplayWebhookDeliveries";
const BACKUP: &str = "AdminService/Backup";
const BACKFILL: &str = "AdminService/Backfill";
const EXPORT: &str = "AdminService/ExportDataset";

#[async_trait]
impl AdminService for Api {
    async fn create_organization(
        &self,
        request: Request<v1::CreateOrganizationRequest>,
    ) -> Result<Response<v1::CreateOrganizationResponse>, Status> {
        self.change("AdminService/CreateOrganization", request, |core, actor, message| async move {
            let row = create_organization(&core, &actor, &message.name, message.plan.as_deref()).await?;
            Ok(v1::CreateOrganizationResponse { organization: Some(convert::control::organization(&row)) })
        })
        .await
    }

    async fn list_organizations(
        &self,
        request: Request<v1::ListOrganizationsRequest>,
    ) -> Result<Response<v1::ListOrganizationsResponse>, Status> {
        self.operator(&request).await?;
        self.refresh("AdminService/ListOrganizations").await?;
        let state = self.core.shared.control.state();
        let data = state.organizations().map(|row| convert::control::organization(row)).collect();
        Ok(Response::new(v1::ListOrganizationsResponse { data }))
    }

    async fn set_organization_plan(
        &self,
        request: Request<v1::SetOrganizationPlanRequest>,
    ) -> Result<Response<v1::SetOrganizationPlanResponse>, Status> {
        self.change("AdminService/SetOrganizationPlan", request, |core, actor, message| async move {
            let row = set_organization_plan(&core, &actor, &message.id, &message.plan).await?;
            Ok(v1::SetOrganizationPlanResponse { organization: Some(convert::control::organization(&row)) })
        })
        .await
    }

    async fn create_project(
        &self,
        request: Request<v1::CreateProjectRequest>,
    ) -> Result<Response<v1::CreateProjectResponse>, Status> {
        self.change("AdminService/CreateProject", request, |core, actor, message| async move {
            let row = create_project(&core, &actor, &message.organization_id, &message.name, None).await?;
            Ok(v1::CreateProjectResponse { project: Some(convert::control::project(&row)) })
        })
        .await
    }

    async fn list_projects(
        &self,
        request: Request<v1::ListProjectsRequest>,
    ) -> Result<Response<v1::ListProjectsResponse>, Status> {
        self.operator(&request).await?;
        let of = request.into_inner().organization_id;
        self.refresh("AdminService/ListProjects").await?;
        let state = self.core.shared.control.state();
        if let Some(of) = of.as_deref().filter(|of| state.organization(of).is_none()) {
            let error = unknown_to_operator(ErrorCode::OrganizationNotFound, of).into();
            return Err(status(&error, &self.core.gate.new_request_id(), "AdminService/ListProjects"));
        }
        let wanted = state.projects().filter(|row| of.as_ref().is_none_or(|of| *of == row.organization_id));
        let data = wanted.map(|row| convert::control::project(row)).collect();
        Ok(Response::new(v1::ListProjectsResponse { data }))
    }

    async fn approve_project(
        &self,
        request: Request<v1::ApproveProjectRequest>,
    ) -> Result<Response<v1::ApproveProjectResponse>, Status> {
        self.change("AdminService/ApproveProject", request, |core, actor, message| async move {
            let row = approve_project(&core, &actor, &message.id).await?;
            Ok(v1::ApproveProjectResponse { project: Some(convert::control::project(&row)) })
        })
        .await
    }

    async fn withdraw_project(
        &self,
        request: Request<v1::WithdrawProjectRequest>,
    ) -> Result<Response<v1::WithdrawProjectResponse>, Status> {
        self.change("AdminService/WithdrawProject", request, |core, actor, message| async move {
            let row = withdraw_project(&core, &actor, &message.id).await?;
            Ok(v1::WithdrawProjectResponse { project: Some(convert::control::project(&row)) })
        })
        .await
    }

    async fn refuse_project(
        &self,
        request: Request<v1::RefuseProjectRequest>,
    ) -> Result<Response<v1::RefuseProjectResponse>, Status> {
        self.change("AdminService/RefuseProject", request, |core, actor, message| async move {
            let row = refuse_project(&core, &actor, &message.id, &message.reason).await?;
            Ok(v1::RefuseProjectResponse { project: Some(convert::control::project(&row)) })
        })
        .await
    }

    async fn archive_project(
        &self,
        request: Request<v1::ArchiveProjectRequest>,
    ) -> Result<Response<v1::ArchiveProjectResponse>, Status> {
        self.change("AdminService/ArchiveProject", request, |core, actor, message| async move {
            let row = archive_project(&core, &actor, &message.id).await?;
            Ok(v1::ArchiveProjectResponse { project: Some(convert::control::project(&row)) })
        })
        .await
    }

    async fn create_key(
        &self,
        request: Request<v1::CreateKeyRequest>,
    ) -> Result<Response<v1::CreateKeyResponse>, Status> {
        self.change("AdminService/CreateKey", request, |core, actor, message| async move {
            let new = NewKey {
                environment: message.environment(),
                name: &message.name,
                scopes: &message.scopes,
                expires_at: message.expires_at.as_ref(),
                seed: None,
            };
            let (row, key) = create_key(&core, &actor, &message.project_id, &new).await?;
            Ok(v1::CreateKeyResponse { api_key: Some(convert::control::api_key(&row)), key })
        })
        .await
    }

    async fn list_keys(&self, request: Request<v1::ListKeysRequest>) -> Result<Response<v1::ListKeysResponse>, Status> {
        self.operator(&request).await?;
        let of = request.into_inner().project_id;
        let listed = list_keys(&self.core, &of).map_ok(|data| v1::ListKeysResponse { data });
        internal(&self.core, "AdminService/ListKeys", listed).await
    }

    async fn revoke_key(
        &self,
        request: Request<v1::RevokeKeyRequest>,
    ) -> Result<Response<v1::RevokeKeyResponse>, Status> {
        self.change("AdminService/RevokeKey", request, |core, actor, message| async move {
            let row = revoke_key(&core, &actor, &message.id).await?;
            Ok(v1::RevokeKeyResponse { api_key: Some(convert::control::api_key(&row)) })
        })
        .await
    }

    async fn list_abuse(
        &self,
        request: Request<v1::ListAbuseRequest>,
    ) -> Result<Response<v1::ListAbuseResponse>, Status> {
        self.operator(&request).await?;
        let message = request.into_inner();
        let listed = list_abuse(&self.core, message.limit, message.cursor.as_deref());
        internal(&self.core, "AdminService/ListAbuse", listed).await
    }

    async fn list_project_webhooks(
        &self,
        request: Request<v1::ListProjectWebhooksRequest>,
    ) -> Result<Response<v1::ListProjectWebhooksResponse>, Status> {
        self.operator(&request).await?;
        let message = request.into_inner();
        let listed = list_project_webhooks(&self.core, &message.project_id);
        let answer = listed.map_ok(|rows| v1::ListProjectWebhooksResponse {
            data: rows.iter().map(|row| convert::control::webhook(row)).collect(),
        });
        internal(&self.core, "AdminService/ListProjectWebhooks", answer).await
    }

    type ReplayWebhookDeliveriesStream = BoxStream<'static, Result<v1::ReplayWebhookDeliveriesResponse, Status>>;

    async fn replay_webhook_deliveries(
        &self,
        request: Request<v1::ReplayWebhookDeliveriesRequest>,
    ) -> Result<Response<Self::ReplayWebhookDeliveriesStream>, Status> {
        self.operator(&request).await?;
        let begun = DeliveryReplay::begin(&self.core, request.into_inner());
        let replaying = internal(&self.core, REPLAY, begun).await?.into_inner();
        let progress = try_unfold(replaying, |mut replaying| async move {
            let report = replaying.next().await?;
            Ok::<_, Error>(report.map(|report| (report, replaying)))
        });
        Ok(self.streamed(REPLAY, progress))
    }

    async fn get_ingest_status(
        &self,
        request: Request<v1::GetIngestStatusRequest>,
    ) -> Result<Response<v1::GetIngestStatusResponse>, Status> {
        self.operator(&request).await?;
        let answer = ingest::status(&self.core).map_ok(|status| v1::GetIngestStatusResponse { status: Some(status) });
        internal(&self.core, "AdminService/GetIngestStatus", answer).await
    }

    type BackfillStream = BoxStream<'static, Result<v1::BackfillResponse, Status>>;

    async fn backfill(&self, request: Request<v1::BackfillRequest>) -> Result<Response<Self::BackfillStream>, Status> {
        self.operator(&request).await?;
        let begun = ingest::backfill(&self.core, request.into_inner());
        let progress = internal(&self.core, BACKFILL, begun).await?.into_inner();
        Ok(self.streamed(BACKFILL, progress))
    }

    async fn create_user(
        &self,
        request: Request<v1::CreateUserRequest>,
    ) -> Result<Response<v1::CreateUserResponse>, Status> {
        self.change("AdminService/CreateUser", request, |core, actor, message| async move {
            create_user(&core, &actor, &message).await
        })
        .await
    }

    async fn list_users(
        &self,
        request: Request<v1::ListUsersRequest>,
    ) -> Result<Response<v1::ListUsersResponse>, Status> {
        let actor = self.operator(&request).await?;
        let work = list_users(&self.core, &actor, request.get_ref());
        internal(&self.core, "AdminService/ListUsers", work).await
    }

    async fn set_administrator(
        &self,
        request: Request<v1::SetAdministratorRequest>,
    ) -> Result<Response<v1::SetAdministratorResponse>, Status> {
        self.change("AdminService/SetAdministrator", request, |core, actor, message| async move {
            set_administrator(&core, &actor, &message).await
        })
        .await
    }

    async fn create_reset_link(
        &self,
        request: Request<v1::CreateResetLinkRequest>,
    ) -> Result<Response<v1::CreateResetLinkResponse>, Status> {
        self.change("AdminService/CreateResetLink", request, |core, actor, message| async move {
            create_reset_link(&core, &actor, &message).await
        })
        .await
    }

    async fn confirm_user(
        &self,
        request: Request<v1::ConfirmUserRequest>,
    ) -> Result<Response<v1::ConfirmUserResponse>, Status> {
        self.change("AdminService/ConfirmUser", request, |core, actor, message| async move {
            confirm_user(&core, &actor, &message).await
        })
        .await
    }

    async fn list_audit_log(
        &self,
        request: Request<v1::ListAuditLogRequest>,
    ) -> Result<Response<v1::ListAuditLogResponse>, Status> {
        let actor = self.operator(&request).await?;
        let work = list_audit_log(&self.core, &actor, request.get_ref());
        internal(&self.core, "AdminService/ListAuditLog", work).await
    }

    async fn check_log(&self, request: Request<v1::CheckLogRequest>) -> Result<Response<v1::CheckLogResponse>, Status> {
        self.operator(&request).await?;
        let message = request.into_inner();
        internal(&self.core, "AdminService/CheckLog", check_log(&self.core, &message.dataset)).await
    }

    type BackupStream = BoxStream<'static, Result<v1::BackupResponse, Status>>;

    async fn backup(&self, request: Request<v1::BackupRequest>) -> Result<Response<Self::BackupStream>, Status> {
        let actor = self.operator(&request).await?;
        let begun = internal(&self.core, BACKUP, backup(&self.core, &actor)).await?.into_inner();
        Ok(self.streamed(BACKUP, begun))
    }

    type ExportDatasetStream = BoxStream<'static, Result<v1::ExportDatasetResponse, Status>>;

    async fn export_dataset(
        &self,
        request: Request<v1::ExportDatasetRequest>,
    ) -> Result<Response<Self::ExportDatasetStream>, Status> {
        let actor = self.operator(&request).await?;
        let begun = DatasetExport::begin(&self.core, &actor, &request.get_ref().dataset);
        let exporting = internal(&self.core, EXPORT, begun).await?.into_inner();
        let parts = try_unfold(exporting, |mut exporting| async move {
            Ok::<_, Error>(exporting.next().await?.map(|part| (part, exporting)))
        });
        Ok(self.streamed(EXPORT, parts))
    }

    async fn import_dataset(
        &self,
        request: Request<v1::ImportDatasetRequest>,
    ) -> Result<Response<v1::ImportDatasetResponse>, Status> {
        self.change("AdminService/ImportDataset", request, |core, actor, message| async move {
            let head = import_dataset(&core, &actor, message).await?;
            Ok(v1::ImportDatasetResponse { head })
        })
        .await
    }
}
