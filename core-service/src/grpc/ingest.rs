//! `IngestService`.

use std::sync::Arc;

use thesis_proto::v1::{self, ingest_service_server::IngestService};
use tonic::{Request, Response, Status, async_trait};

use super::{
    Api,
    answer::{internal, reached, service_only},
};
use crate::{domain::dataset::Dataset, operations::ingest::ingest};

#[async_trait]
impl IngestService for Api {
    async fn ingest(&self, request: Request<v1::IngestRequest>) -> Result<Response<v1::IngestResponse>, Status> {
        service_only(&self.core, &request)?;
        let request = request.into_inner();
        if Dataset::parse(&request.dataset) == Some(Dataset::Live)
            && let Err(error) = self.core.pushes.note().await
        {
            tracing::debug!(%error, "noting a push failed");
        }
        if Dataset::parse(&request.dataset).is_some()
            && let Some(answer) = self.core.peers.ingest(&request).await
        {
            return answer.map(Response::new);
        }
        let core = Arc::clone(&self.core);
        let taken = self.core.run_to_end(async move { ingest(&core, request).await });
        internal(&self.core, "IngestService/Ingest", reached(&self.core, taken)).await
    }
}
