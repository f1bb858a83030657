//! `MetaService`.

use thesis_proto::v1::{self, meta_service_server::MetaService};
use tonic::{Request, Response, Status, async_trait};

use super::{Api, answer::answer};
use crate::{convert, domain::operation::Operation, operations::get_usage::get_usage};

#[async_trait]
impl MetaService for Api {
    async fn get_me(&self, request: Request<v1::GetMeRequest>) -> Result<Response<v1::GetMeResponse>, Status> {
        answer(&self.core, Operation::GetMe, request, |call, _| async move {
            call.charge().await?;
            let caller = &call.caller;
            let key = convert::control::key_info(&caller.key, &caller.project, &caller.organization);
            Ok(v1::GetMeResponse { key: Some(key) })
        })
        .await
    }

    async fn get_usage(&self, request: Request<v1::GetUsageRequest>) -> Result<Response<v1::GetUsageResponse>, Status> {
        answer(&self.core, Operation::GetUsage, request, |call, _| async move {
            call.charge().await?;
            Ok(v1::GetUsageResponse { usage: Some(get_usage(&self.core, &call).await?) })
        })
        .await
    }
}
