//! `TokenService`: not built yet.

use thesis_proto::v1::{self, token_service_server::TokenService};
use tonic::{Request, Response, Status, async_trait};

use super::Api;

#[async_trait]
impl TokenService for Api {
    async fn get_token(&self, _: Request<v1::GetTokenRequest>) -> Result<Response<v1::GetTokenResponse>, Status> {
        Err(Status::unimplemented("tokens are not built yet"))
    }

    async fn get_token_activity(
        &self,
        _: Request<v1::GetTokenActivityRequest>,
    ) -> Result<Response<v1::GetTokenActivityResponse>, Status> {
        Err(Status::unimplemented("tokens are not built yet"))
    }

    async fn get_thesis_velocity(
        &self,
        _: Request<v1::GetThesisVelocityRequest>,
    ) -> Result<Response<v1::GetThesisVelocityResponse>, Status> {
        Err(Status::unimplemented("tokens are not built yet"))
    }
}
