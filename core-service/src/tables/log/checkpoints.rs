//! Checkpoints of the projections of logs.

use bytes::Bytes;

use super::{LogStore, int};
use crate::{
    key,
    store::{Change, Consistency, Row, StoreResult, schema},
};

fn position_of(row: Option<Row>) -> u64 {
    row.and_then(|row| u64::try_from(row.version).ok()).unwrap_or_default()
}

impl LogStore {
    /// Reads the checkpoint of a projection of a log; 0 at first.
    pub async fn checkpoint(&self, log: &str, projection: &str) -> StoreResult<u64> {
        let key = key![log, projection];
        Ok(position_of(self.backend.get(&schema::LOG_CHECKPOINT, &key, Consistency::Quorum).await?))
    }

    /// Reads the checkpoints of a projection of several logs, in the same order.
    pub async fn checkpoints(&self, logs: &[&str], projection: &str) -> StoreResult<Vec<u64>> {
        let keys: Vec<_> = logs.iter().map(|log| key![*log, projection]).collect();
        let rows = self.backend.get_many(&schema::LOG_CHECKPOINT, &keys).await?;
        Ok(rows.into_iter().map(position_of).collect())
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
