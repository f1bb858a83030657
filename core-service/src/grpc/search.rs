//! `SearchService`: not built yet.

use thesis_proto::v1::{self, search_service_server::SearchService};
use tonic::{Request, Response, Status, async_trait};

use super::Api;

#[async_trait]
impl SearchService for Api {
    async fn search(&self, _: Request<v1::SearchRequest>) -> Result<Response<v1::SearchResponse>, Status> {
        Err(Status::unimplemented("search is not built yet"))
    }

    async fn semantic_search(
        &self,
        _: Request<v1::SemanticSearchRequest>,
    ) -> Result<Response<v1::SemanticSearchResponse>, Status> {
        Err(Status::unimplemented("search is not built yet"))
    }
}
