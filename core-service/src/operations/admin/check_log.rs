//! Reads a whole log and counts its entries, gaps and duplicates. It keeps only one page in memory.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use thesis_proto::v1;

use super::invalid;
use crate::{
    control::CONTROL_LOG,
    convert::entry::event_type,
    domain::{account::Actor, dataset::Dataset},
    error::Result,
    log::projection::ROWS,
    service::Core,
    store::{Consistency, StoreResult},
    tables::log::{LogStore, decode},
};

/// Entries of one read while a log is checked.
const PAGE: usize = 1_000;
/// Number of positions that are read concurrently.
const CONCURRENT_READS: usize = 32;

pub async fn check_log(core: &Core, _: &Actor, message: &v1::CheckLogRequest) -> Result<v1::CheckLogResponse> {
    let dataset = message.dataset.as_str();
    let is_control = dataset == CONTROL_LOG;
    if !is_control && Dataset::parse(dataset).is_none() {
        return Err(invalid("dataset", "must be live, sandbox, project/<id> or control"));
    }
    // It checks the store, not the entries that are in memory.
    let log = LogStore::new(Arc::clone(&core.shared.backend));
    let known = if is_control { core.shared.control.head() } else { log.checkpoint(dataset, ROWS).await? };
    let head = log.head(dataset, known, Consistency::Serial).await?;
    let mut answer = v1::CheckLogResponse { head, ..v1::CheckLogResponse::default() };
    let mut next = 1;
    while next <= head {
        let entries = log.read(dataset, next - 1, head, PAGE).await?;
        let Some((last, _)) = entries.last() else {
            answer.gaps += 1;
            next += 1;
            continue;
        };
        next = last + 1;
        answer.entries += entries.len() as u64;
        if !is_control {
            answer.duplicates += duplicates(core, dataset, entries).await?;
        }
    }
    Ok(answer)
}

/// Counts the events that are not at the position of their id. An id has one position, so all but one of the events
/// with one id are counted, whatever page they are in. An event without a position is not projected yet.
async fn duplicates(core: &Core, dataset: &str, entries: Vec<(u64, Bytes)>) -> StoreResult<u64> {
    let mut events = Vec::with_capacity(entries.len());
    for (seq, body) in entries {
        let entry = decode(seq, body)?;
        if event_type(&entry).is_some() {
            events.push((seq, entry.id));
        }
    }
    let are_elsewhere = stream::iter(events).map(|(seq, id)| async move {
        let position = core.shared.event_positions.position_of(dataset, &id).await?;
        StoreResult::Ok(position.is_some_and(|at| at != seq))
    });
    let are_elsewhere: Vec<bool> = are_elsewhere.buffer_unordered(CONCURRENT_READS).try_collect().await?;
    Ok(are_elsewhere.into_iter().filter(|is_elsewhere| *is_elsewhere).count() as u64)
}
