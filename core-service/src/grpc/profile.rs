//! `ProfileService`.

use thesis_proto::v1::{self, profile_service_server::ProfileService};
use tonic::{Request, Response, Status, async_trait};

use super::{Api, answer::answer, fields::Fields};
use crate::{
    domain::operation::Operation,
    error::Result as Outcome,
    operations::{get_profile::get_profile, get_profile_wallets::get_profile_wallets, resolve::ProfileReference},
};

fn reference(message: v1::GetProfileRequest) -> Outcome<ProfileReference> {
    let mut fields = Fields::default();
    fields.optional_length("ref", message.r#ref.as_deref(), 1..=80);
    fields.optional_length("id", message.id.as_deref(), 1..=64);
    fields.optional_length("handle", message.handle.as_deref(), 1..=64);
    fields.optional_length("upstream_user_id", message.upstream_user_id.as_deref(), 1..=64);
    let mut given: Vec<ProfileReference> = [
        message.r#ref.map(ProfileReference::Any),
        message.id.map(ProfileReference::Id),
        message.handle.map(ProfileReference::Handle),
        message.upstream_user_id.map(ProfileReference::Upstream),
    ]
    .into_iter()
    .flatten()
    .collect();
    if given.len() != 1 {
        fields.reject("id", "give exactly one of id, handle and upstream_user_id");
    }
    fields.finish()?;
    given.pop().ok_or_else(|| crate::error::Error::internal("a reference that was there is gone"))
}

#[async_trait]
impl ProfileService for Api {
    async fn get_profile(
        &self,
        request: Request<v1::GetProfileRequest>,
    ) -> Result<Response<v1::GetProfileResponse>, Status> {
        answer(&self.core, Operation::GetProfile, request, |call, message| async move {
            let reference = reference(message)?;
            call.charge().await?;
            Ok(v1::GetProfileResponse { profile: Some(get_profile(&self.core, &call, &reference).await?) })
        })
        .await
    }

    async fn get_profile_wallets(
        &self,
        request: Request<v1::GetProfileWalletsRequest>,
    ) -> Result<Response<v1::GetProfileWalletsResponse>, Status> {
        answer(&self.core, Operation::GetProfileWallets, request, |call, message| async move {
            let mut fields = Fields::default();
            fields.length("ref", &message.r#ref, 1..=80);
            fields.finish()?;
            call.charge().await?;
            let wallets = get_profile_wallets(&self.core, &call, &message.r#ref).await?;
            Ok(v1::GetProfileWalletsResponse { profile_wallets: Some(wallets) })
        })
        .await
    }
}
