//! The beginnings of the bodies with which endpoints answered failed attempts, encrypted, for 30 days.

use bytes::Bytes;

use crate::{
    key,
    store::{Change, Scan, SharedBackend, StoreResult, schema},
};

/// Retention time, in seconds.
pub const RETENTION_SECONDS: u32 = 30 * 86_400;
/// Maximum number of responses that a read of a delivery returns.
const MAX_ATTEMPTS: usize = 16;

/// The change that stores the encrypted beginning of a body. `at` is the time of the attempt in unix milliseconds.
pub fn change(delivery: &str, attempt: i32, at: i64, sealed: Vec<u8>) -> Change {
    Change {
        table: &schema::FAILED_RESPONSE,
        key: key![delivery, i64::from(attempt)],
        version: at,
        body: Some(sealed.into()),
        ttl: Some(RETENTION_SECONDS),
    }
}

/// Reads the stored responses of a delivery: the numbers of attempts, and the encrypted beginnings of the bodies.
pub async fn list(backend: &SharedBackend, delivery: &str, now_ms: i64) -> StoreResult<Vec<(i32, Bytes)>> {
    let oldest = now_ms - i64::from(RETENTION_SECONDS) * 1_000;
    let rows = backend.scan(&Scan::all(&schema::FAILED_RESPONSE, key![delivery], MAX_ATTEMPTS)).await?;
    let kept = rows.into_iter().filter(|row| row.version > oldest);
    Ok(kept.filter_map(|row| Some((i32::try_from(row.clustering.first()?.int()).ok()?, row.body))).collect())
}
