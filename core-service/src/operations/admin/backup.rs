//! Sends a backup of the store.

use futures::{Stream, StreamExt as _};
use thesis_proto::{error::ErrorCode, v1};
use tokio_stream::wrappers::ReceiverStream;

use crate::{
    error::{Error, Result},
    operations::Core,
    store::{Backup, BackupPiece},
};

/// Begins a backup; it is made as fast as its pieces are taken.
///
/// # Errors
/// `BACKUP_IN_PROGRESS`, `BACKUP_UNSUPPORTED`, or when the store does not answer.
pub fn backup(core: &Core) -> Result<impl Stream<Item = Result<v1::BackupResponse>> + use<>> {
    let pieces = match core.shared.backend.backup(core.shared.clock.now_ms())? {
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
    Ok(ReceiverStream::new(pieces).map(move |piece| piece.map(message).map_err(Error::from)))
}
