//! `ProfileService`: not built yet.

use thesis_proto::v1::{self, profile_service_server::ProfileService};
use tonic::{Request, Response, Status, async_trait};

use super::Api;

#[async_trait]
impl ProfileService for Api {
    async fn get_profile(&self, _: Request<v1::GetProfileRequest>) -> Result<Response<v1::GetProfileResponse>, Status> {
        Err(Status::unimplemented("profiles are not built yet"))
    }

    async fn get_profile_wallets(
        &self,
        _: Request<v1::GetProfileWalletsRequest>,
    ) -> Result<Response<v1::GetProfileWalletsResponse>, Status> {
        Err(Status::unimplemented("profiles are not built yet"))
    }
}
