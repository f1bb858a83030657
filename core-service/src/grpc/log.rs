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

/// Makes the methods of the service of the log that need no key, each by the operation of its name.
macro_rules! log_reads {
    ($($method:ident $name:literal: $request:ident -> $response:ident;)*) => {
        $(pub(super) async fn $method(
            core: &Arc<Core>,
            request: Request<v1::$request>,
        ) -> Result<Response<v1::$response>, Status> {
            let work = |core: Arc<Core>, message| async move { log::$method(&core, message).await };
            read(core, concat!("LogService/", $name), request, work).await
        })*
    };
}

log_reads! {
    get_checkpoint "GetCheckpoint": GetCheckpointRequest -> GetCheckpointResponse;
    get_tile "GetTile": GetTileRequest -> GetTileResponse;
    list_keys "ListKeys": LogServiceListKeysRequest -> LogServiceListKeysResponse;
}

pub(super) async fn get_status(
    core: &Arc<Core>,
    request: Request<v1::GetStatusRequest>,
) -> Result<Response<v1::GetStatusResponse>, Status> {
    let work = |core: Arc<Core>, message| async move { Ok(get_status::get_status(&core, message)) };
    read(core, "StatusService/GetStatus", request, work).await
}
