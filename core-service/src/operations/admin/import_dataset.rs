//! Copies a part of an exported log into a dataset. Returns the last sequence number of the dataset. The audit log
//! records the first part, and a part without entries, by which a caller resumes an import.

use thesis_proto::v1;

use super::{audit_dataset_action, invalid, known_dataset};
use crate::{
    domain::{account::Actor, entry::Entry},
    error::Result,
    log::writer::Import,
    service::Core,
    tables::log::ImportMark,
};

pub async fn import_dataset(
    core: &Core,
    actor: &Actor,
    request: &v1::ImportDatasetRequest,
) -> Result<v1::ImportDatasetResponse> {
    let dataset = known_dataset(core, &request.dataset).await?;
    let sha256 = request.sha256.as_ref().try_into().map_err(|_| invalid("sha256", "must have 32 bytes"))?;
    let last = request.after.checked_add(request.entries.len() as u64).filter(|last| *last <= request.head);
    // Beyond the store's numbers there is no entry.
    let Some(last) = last.filter(|_| i64::try_from(request.head).is_ok()) else {
        return Err(invalid("head", "must be the number of entries of the whole import"));
    };
    let mut entries = Vec::new();
    for (seq, body) in (request.after + 1..).zip(&request.entries) {
        let entry = Entry::read_whole(seq, body).and_then(|entry| {
            entry.must_suit(&dataset, seq)?;
            Ok(entry)
        });
        entries.push(entry.map_err(|why| invalid("entries", &format!("cannot be taken in: entry {seq} {why}")))?);
    }
    let mark = ImportMark { entries: request.head, sha256 };
    let begins = if entries.is_empty() {
        core.shared.log.import(&request.dataset).await? == Some(mark)
    } else {
        request.after == 0
    };
    if begins {
        audit_dataset_action(core, actor, "dataset.import_begun", &dataset).await?;
    }
    let is_last = last == request.head && !entries.is_empty();
    let refused = core.datasets.import_here(&dataset, Import { mark, after: request.after, entries }).await?;
    if let Some(why) = refused {
        return Err(invalid("dataset", why));
    }
    if is_last {
        tracing::info!(%dataset, entries = request.head, "an import has come to its end");
    }
    Ok(v1::ImportDatasetResponse { head: core.datasets.refresh(&dataset).await? })
}
