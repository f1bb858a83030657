//! Checks a log.

use std::collections::HashSet;

use thesis_proto::v1;

use super::invalid;
use crate::{
    domain::dataset::Dataset, error::Result, operations::Core, shared::control::CONTROL_LOG, store::Consistency,
    tables::log::decode,
};

/// Most entries read at once when a log is checked.
const PAGE: usize = 1_000;

/// Reads a whole log and counts its entries, gaps and duplicates.
///
/// # Errors
/// 422 for an unknown dataset, or when the store does not answer.
pub async fn check_log(core: &Core, dataset: &str) -> Result<v1::CheckLogResponse> {
    if dataset != CONTROL_LOG && Dataset::parse(dataset).is_none() {
        return Err(invalid("dataset", "must be live, sandbox, project/<id> or control"));
    }
    let log = &core.shared.log;
    let head = log.head(dataset, 0, Consistency::Serial).await?;
    let mut answer = v1::CheckLogResponse { head, ..v1::CheckLogResponse::default() };
    let mut ids = HashSet::new();
    let mut next = 1;
    while next <= head {
        let rows = log.read(dataset, next - 1, head, PAGE).await?;
        if rows.is_empty() {
            answer.gaps += 1;
            next += 1;
        }
        for (seq, body) in rows {
            answer.entries += 1;
            next = seq + 1;
            if dataset != CONTROL_LOG && !ids.insert(decode(body)?.id) {
                answer.duplicates += 1;
            }
        }
    }
    Ok(answer)
}
