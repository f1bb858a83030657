//! Addresses that failed to authenticate too often: a row for each replica, added up when read.

use std::{collections::BTreeMap, ops::Bound};

use prost::Message as _;

use super::shard_of_name;
use crate::{
    domain::abuse::{Abuse, AbusiveAddress, BadMinute, KEPT_MS},
    key,
    store::{Change, Consistency, Row, Scan, SharedBackend, StoreError, StoreResult, schema},
};

/// Addresses are spread over this number of partitions.
const SHARDS: i64 = 16;
const PAGE: usize = 1_000;

fn decode(row: &Row) -> StoreResult<Abuse> {
    Abuse::decode(row.body.clone()).map_err(|error| StoreError::Damaged(format!("abuse: {error}")))
}

/// Stores a replica's count of an address' bad minute. A repeat changes nothing. Only this replica writes its row,
/// one minute after another.
pub async fn note(backend: &SharedBackend, replica: &str, address: &str, bad: &BadMinute) -> StoreResult<()> {
    let key = key![shard_of_name(address, SHARDS), address, replica];
    let row = backend.get(&schema::ABUSE, &key, Consistency::Quorum).await?;
    let before = row.as_ref().map(decode).transpose()?.filter(|abuse| !abuse.is_over(bad.last_at));
    let after = before.unwrap_or_default().with(bad);
    if before == Some(after) {
        return Ok(());
    }
    // An expired row may still win over a lower version while the nodes remember its end.
    let version = row.map_or(0, |row| row.version + 1).max(bad.last_at);
    let ttl = u32::try_from(KEPT_MS / 1_000).ok();
    let body = Some(after.encode_to_vec().into());
    backend.apply(vec![Change { table: &schema::ABUSE, key, version, body, ttl }]).await
}

/// Lists the first `limit` addresses after a position, the latest failure first. This reads all rows, but holds
/// only the result in memory.
pub async fn list(
    backend: &SharedBackend,
    after: Option<&(i64, String)>,
    now_ms: i64,
    limit: usize,
) -> StoreResult<Vec<AbusiveAddress>> {
    let mut found = BTreeMap::new();
    let mut collect = |address: AbusiveAddress| {
        let position = (address.last_at, address.address.clone());
        if after.is_none_or(|after| position < *after) {
            found.insert(position, address);
            if found.len() > limit {
                found.pop_first();
            }
        }
    };
    for shard in 0..SHARDS {
        let mut scan = Scan::all(&schema::ABUSE, key![shard], PAGE);
        let mut current: Option<AbusiveAddress> = None;
        loop {
            let rows = backend.scan(&scan).await?;
            for row in &rows {
                let (Some(address), abuse) = (row.clustering.first(), decode(row)?) else { continue };
                if abuse.is_over(now_ms) {
                    continue;
                }
                match &mut current {
                    // This is another replica's row of the same address.
                    Some(current) if current.address == address.text() => {
                        current.failures += abuse.total();
                        current.first_at = current.first_at.min(abuse.first_at);
                        current.last_at = current.last_at.max(abuse.last_at);
                    }
                    _ => {
                        let next = AbusiveAddress {
                            address: address.text().to_owned(),
                            failures: abuse.total(),
                            first_at: abuse.first_at,
                            last_at: abuse.last_at,
                        };
                        current.replace(next).into_iter().for_each(&mut collect);
                    }
                }
            }
            match rows.last() {
                Some(last) if rows.len() == PAGE => scan.from = Bound::Excluded(last.clustering.clone()),
                _ => break,
            }
        }
        current.into_iter().for_each(&mut collect);
    }
    Ok(found.into_values().rev().collect())
}
