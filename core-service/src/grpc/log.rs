//! Reads of the trees over the logs, and of the status. They need no key, so the caller's address has a limit.

use std::sync::Arc;

use thesis_proto::{error::ApiError, v1};
use tonic::{Request, Response, Status};

use super::answer::{meta, reached, status};
use crate::{
    access::gate::RequestMeta,
    error::Result as Outcome,
    operations::{get_status, log},
    service::Core,
};

/// Answers a read without a key. `name` is `Service/Method`.
async fn read<M, T, F>(
    core: &Arc<Core>,
    name: &str,
    request: Request<M>,
    work: impl FnOnce(Arc<Core>, M) -> F,
) -> Result<Response<T>, Status>
where
    F: Future<Output = Outcome<T>>,
{
    let RequestMeta { client, request_id, malformed, .. } = meta(core, &request);
    let answered = async {
        core.gate.count_log_read(client.as_deref())?;
        if malformed {
            // The edge adds the fields that it could not read.
            return Err(ApiError::validation(&[]).into());
        }
        reached(core, work(Arc::clone(core), request.into_inner())).await
    };
    answered.await.map(Response::new).map_err(|error| status(&error, &request_id, name))
}

pub(super) async fn get_checkpoint(
    core: &Arc<Core>,
    request: Request<v1::GetCheckpointRequest>,
) -> Result<Response<v1::GetCheckpointResponse>, Status> {
    let work = |core: Arc<Core>, message| async move { log::get_checkpoint(&core, message).await };
    read(core, "LogService/GetCheckpoint", request, work).await
}

pub(super) async fn get_tile(
    core: &Arc<Core>,
    request: Request<v1::GetTileRequest>,
) -> Result<Response<v1::GetTileResponse>, Status> {
    let work = |core: Arc<Core>, message| async move { log::get_tile(&core, message).await };
    read(core, "LogService/GetTile", request, work).await
}

pub(super) async fn list_keys(
    core: &Arc<Core>,
    request: Request<v1::LogServiceListKeysRequest>,
) -> Result<Response<v1::LogServiceListKeysResponse>, Status> {
    let work = |core: Arc<Core>, message| async move { log::list_keys(&core, message).await };
    read(core, "LogService/ListKeys", request, work).await
}

pub(super) async fn get_status(
    core: &Arc<Core>,
    request: Request<v1::GetStatusRequest>,
) -> Result<Response<v1::GetStatusResponse>, Status> {
    let work = |core: Arc<Core>, message| async move { Ok(get_status::get_status(&core, message)) };
    read(core, "StatusService/GetStatus", request, work).await
}
