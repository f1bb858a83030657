//! Sends a backup of the store, as fast as the caller takes its pieces. The audit log records it, also in the backup
//! itself.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use thesis_proto::{error::ErrorCode, v1};
use tokio_stream::wrappers::ReceiverStream;

use crate::{
    accounts::sessions::audit_row,
    domain::{account::Actor, window::HOUR_MS},
    error::{Error, Result},
    service::Core,
    store::{Backup, BackupPiece},
};

/// Duration limit of a backup, in milliseconds. The file of the store grows during a backup, since the store reuses no
/// old page.
const MAX_MS: i64 = 6 * HOUR_MS;

pub async fn backup(
    core: &Core,
    actor: &Actor,
    _: &v1::BackupRequest,
) -> Result<impl Stream<Item = Result<v1::BackupResponse>> + Send + use<>> {
    let (clock, begun_at) = (Arc::clone(&core.shared.clock), core.shared.clock.now_ms());
    let audit_rows = vec![audit_row(&core.shared, &actor.does("store.backup_begun").to("store"))];
    let pieces = match core.shared.backend.backup(begun_at, audit_rows).await? {
        Backup::Begun(pieces) => pieces,
        Backup::Busy => {
            let text = "another backup is being made; wait for its end, then try again";
            return Err(Error::new(ErrorCode::BackupInProgress, text));
        }
        Backup::Elsewhere => {
            let text = "the store is a cluster, which only its own tools can save: ScyllaDB Manager (sctool backup), or \
                        nodetool snapshot on every node";
            return Err(Error::new(ErrorCode::BackupUnsupported, text));
        }
    };
    tracing::info!("a backup begins");
    let message = |BackupPiece { bytes, rows, of }| v1::BackupResponse { data: bytes.into(), rows, rows_total: of };
    Ok(ReceiverStream::new(pieces)
        .map(move |piece| if clock.now_ms() - begun_at > MAX_MS { Err(too_slow()) } else { Ok(message(piece?)) }))
}

/// Ends a backup that would hold old pages for too long.
fn too_slow() -> Error {
    let text = format!(
        "the backup was not whole after {} hours, so it ends; make it on the core's machine, to a fast disk",
        MAX_MS / HOUR_MS
    );
    Error::new(ErrorCode::ServiceUnavailable, text)
}
