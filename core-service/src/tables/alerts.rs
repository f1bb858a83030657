//! The progress of alerts, as the log of their project and environment has it last.

use prost::Message as _;

use super::decode_message;
use crate::{
    domain::alert::{AlertChange, AlertProgress},
    key,
    store::{Change, Row, SharedBackend, StoreResult, schema},
};

/// The change that stores the progress of an alert.
pub fn progress_change(dataset: &str, change: &AlertChange, version: i64) -> Change {
    let body = change.progress.encode_to_vec().into();
    Change {
        table: &schema::ALERT_PROGRESS,
        key: key![dataset, &change.alert.id],
        version,
        body: Some(body),
        ttl: None,
    }
}

/// Deletes the progress of an alert that was deleted. `head` is the last entry of its log since then. A repeat is safe.
///
/// The judge on another core may not know of the deletion yet. The log refuses its later entries, since the progress
/// before them is missing, unless the alert had none: then its first entry is taken and its row stays. A cluster
/// ignores the rows of its entries up to the head: their versions are not higher. The embedded store forgets deletions,
/// and may keep the row of an entry that was under way. Such a row only takes space. The version is no higher than the
/// head, because a request that was interrupted may create the alert again.
pub async fn delete_progress(backend: &SharedBackend, dataset: &str, alert: &str, head: u64) -> StoreResult<()> {
    let (key, version) = (key![dataset, alert], i64::try_from(head).unwrap_or(i64::MAX));
    backend.apply(vec![Change { table: &schema::ALERT_PROGRESS, key, version, body: None, ttl: None }]).await
}

/// Reads the progress of alerts of one dataset. An alert without a row has the default: its first value is still to
/// come.
pub async fn progress(backend: &SharedBackend, dataset: &str, ids: &[&str]) -> StoreResult<Vec<AlertProgress>> {
    let keys: Vec<_> = ids.iter().map(|id| key![dataset, *id]).collect();
    let rows = backend.get_many(&schema::ALERT_PROGRESS, &keys).await?;
    let decode = |row: Option<Row>| match row {
        Some(row) => decode_message(row.body, "the progress of an alert"),
        None => Ok(AlertProgress::default()),
    };
    rows.into_iter().map(decode).collect()
}
