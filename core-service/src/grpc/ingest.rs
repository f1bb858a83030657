//! `IngestService`: not built yet.

use thesis_proto::v1::{self, ingest_service_server::IngestService};
use tonic::{Request, Response, Status, async_trait};

use super::Api;

#[async_trait]
impl IngestService for Api {
    async fn ingest(&self, _: Request<v1::IngestRequest>) -> Result<Response<v1::IngestResponse>, Status> {
        Err(Status::unimplemented("ingestion is not built yet"))
    }
}
