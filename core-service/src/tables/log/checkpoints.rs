//! Checkpoints of the projections of logs. The checkpoint of the rows also names the newest erasure. So a core that
//! reads only the checkpoint learns that earlier entries have changed.

use bytes::Bytes;
use prost::Message as _;

use super::{LogStore, ROWS, int};
use crate::{
    key,
    store::{Change, Consistency, Row, StoreError, StoreResult, schema},
};

/// The body of a checkpoint.
#[derive(Clone, PartialEq, prost::Message)]
struct CheckpointBody {
    /// The newest entry that begins or ends an erasure; 0 if there is none, and for other projections than [`ROWS`].
    #[prost(uint64, tag = "1")]
    erasure: u64,
}

impl LogStore {
    /// Reads the checkpoint of a projection of a log; 0 at first.
    pub async fn checkpoint(&self, log: &str, projection: &str) -> StoreResult<u64> {
        let key = key![log, projection];
        let row = self.backend.get(&schema::LOG_CHECKPOINT, &key, Consistency::Quorum).await?;
        self.read_checkpoint(log, row)
    }

    /// Reads the checkpoints of a projection of several logs, in the same order.
    pub async fn checkpoints(&self, logs: &[&str], projection: &str) -> StoreResult<Vec<u64>> {
        let keys: Vec<_> = logs.iter().map(|log| key![*log, projection]).collect();
        let rows = self.backend.get_many(&schema::LOG_CHECKPOINT, &keys).await?;
        logs.iter().zip(rows).map(|(log, row)| self.read_checkpoint(log, row)).collect()
    }

    /// Returns the position of a checkpoint, and notes the erasure that it names.
    fn read_checkpoint(&self, log: &str, row: Option<Row>) -> StoreResult<u64> {
        let Some(Row { body, version, .. }) = row else { return Ok(0) };
        let damaged = |error: prost::DecodeError| StoreError::Damaged(format!("checkpoint of log {log}: {error}"));
        self.recent.note_erasure(log, CheckpointBody::decode(body).map_err(damaged)?.erasure);
        Ok(u64::try_from(version).unwrap_or_default())
    }
}

pub fn checkpoint_change(log: &str, projection: &str, seq: u64) -> Change {
    Change {
        table: &schema::LOG_CHECKPOINT,
        key: key![log, projection],
        version: int(seq),
        body: Some(Bytes::new()),
        ttl: None,
    }
}

/// Makes the checkpoint of a log's rows. `erasure` is the newest erasure that the writer knows.
pub fn rows_checkpoint_change(log: &str, seq: u64, erasure: u64) -> Change {
    let body = CheckpointBody { erasure }.encode_to_vec().into();
    Change { body: Some(body), ..checkpoint_change(log, ROWS, seq) }
}
