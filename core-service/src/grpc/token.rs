//! `TokenService`.

use thesis_proto::v1::{self, token_service_server::TokenService};
use tonic::{Request, Response, Status, async_trait};

use super::{Api, answer::answer, fields::Fields};
use crate::{
    domain::operation::Operation,
    operations::{
        get_thesis_velocity::get_thesis_velocity, get_token::get_token, get_token_activity::get_token_activity,
    },
};

fn named(reference: &str, chain: Option<&str>) -> Fields {
    let mut fields = Fields::default();
    fields.length("ref", reference, 1..=200);
    fields.optional_length("chain", chain, 1..=32);
    fields
}

#[async_trait]
impl TokenService for Api {
    async fn get_token(&self, request: Request<v1::GetTokenRequest>) -> Result<Response<v1::GetTokenResponse>, Status> {
        answer(&self.core, Operation::GetToken, request, |call, message| async move {
            named(&message.r#ref, message.chain.as_deref()).finish()?;
            call.charge().await?;
            let token = get_token(&self.core, &call, &message.r#ref, message.chain.as_deref()).await?;
            Ok(v1::GetTokenResponse { token: Some(token) })
        })
        .await
    }

    async fn get_token_activity(
        &self,
        request: Request<v1::GetTokenActivityRequest>,
    ) -> Result<Response<v1::GetTokenActivityResponse>, Status> {
        answer(&self.core, Operation::GetTokenActivity, request, |call, message| async move {
            let mut fields = named(&message.r#ref, message.chain.as_deref());
            let recent = fields.limit("recent", message.recent, 1..=50, 10);
            fields.finish()?;
            call.charge().await?;
            let chain = message.chain.as_deref();
            let activity = get_token_activity(&self.core, &call, &message.r#ref, chain, recent).await?;
            Ok(v1::GetTokenActivityResponse { activity: Some(activity) })
        })
        .await
    }

    async fn get_thesis_velocity(
        &self,
        request: Request<v1::GetThesisVelocityRequest>,
    ) -> Result<Response<v1::GetThesisVelocityResponse>, Status> {
        answer(&self.core, Operation::GetThesisVelocity, request, |call, message| async move {
            named(&message.r#ref, message.chain.as_deref()).finish()?;
            call.charge().await?;
            let velocity = get_thesis_velocity(&self.core, &call, &message.r#ref, message.chain.as_deref()).await?;
            Ok(v1::GetThesisVelocityResponse { velocity: Some(velocity) })
        })
        .await
    }
}
