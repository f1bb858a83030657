//! The audit log: each act with its actor and origin, for a year.

use std::ops::Bound;

use prost::Message as _;

use crate::{
    domain::{
        account::{Act, AuditRow},
        window::DAY_MS,
    },
    key,
    store::{Change, Scan, SharedBackend, StoreError, StoreResult, schema},
};

pub const RETENTION_DAYS: i64 = 366;
/// Length of an organization's partition, in milliseconds.
const BUCKET_MS: i64 = 32 * DAY_MS;
/// Partition of acts that concern no organization, mostly sign-ins.
const INSTALLATION: &str = "installation";
/// Length of such a partition, in milliseconds.
const INSTALLATION_MS: i64 = DAY_MS;

/// The partition key of an organization, or of none, and the length of a partition in milliseconds.
fn partitions(organization_id: Option<&str>) -> (&str, i64) {
    organization_id.map_or((INSTALLATION, INSTALLATION_MS), |id| (id, BUCKET_MS))
}

/// The change that stores an entry. A repeat changes nothing.
pub fn change(at: i64, id: &str, act: &Act) -> Change {
    let (of, bucket_ms) = partitions(act.organization_id.as_deref());
    Change {
        table: &schema::AUDIT,
        key: key![of, at.div_euclid(bucket_ms), at, id],
        version: at,
        body: Some(act.encode_to_vec().into()),
        ttl: u32::try_from(RETENTION_DAYS * DAY_MS / 1_000).ok(),
    }
}

/// Lists the first `limit` entries of an organization, or of none, after a position, newest first.
pub async fn list(
    backend: &SharedBackend,
    organization_id: Option<&str>,
    after: Option<(i64, String)>,
    now_ms: i64,
    limit: usize,
) -> StoreResult<Vec<AuditRow>> {
    let (of, bucket_ms) = partitions(organization_id);
    let oldest = now_ms - RETENTION_DAYS * DAY_MS;
    let newest = after.as_ref().map_or(now_ms, |(at, _)| *at);
    let mut found = Vec::new();
    // Another core's clock may be ahead of this one's.
    let first = newest.div_euclid(bucket_ms) + i64::from(after.is_none());
    for bucket in (oldest.div_euclid(bucket_ms)..=first).rev() {
        let to = match &after {
            Some((at, id)) => Bound::Excluded(key![*at, id]),
            None => Bound::Unbounded,
        };
        let scan = Scan {
            from: Bound::Included(key![oldest]),
            to,
            reverse: true,
            ..Scan::all(&schema::AUDIT, key![of, bucket], limit - found.len())
        };
        for row in backend.scan(&scan).await? {
            let act = Act::decode(row.body).map_err(|error| StoreError::Damaged(format!("audit: {error}")))?;
            let [at, id] = &*row.clustering else { continue };
            found.push(AuditRow { at: at.int(), id: id.text().to_owned(), act });
        }
        if found.len() >= limit {
            break;
        }
    }
    Ok(found)
}
