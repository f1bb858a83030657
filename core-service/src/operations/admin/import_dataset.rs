//! Takes a part of an exported log in.

use std::sync::Arc;

use thesis_proto::v1;

use super::{invalid, known_dataset, tell_of_dataset};
use crate::{
    domain::{account::Actor, entry::Entry},
    error::Result,
    log::writer::Import,
    operations::Core,
    tables::log::ImportMark,
};

/// Copies a part of an exported log into a dataset. Gives the dataset's last sequence number. The audit log tells of the
/// first part, and of a part without entries, by which a caller goes on with an import.
///
/// # Errors
/// 422, `PROJECT_NOT_FOUND`, or when the store does not answer.
pub async fn import_dataset(core: &Arc<Core>, actor: &Actor, asked: v1::ImportDatasetRequest) -> Result<u64> {
    let dataset = known_dataset(core, &asked.dataset).await?;
    let sha256 = asked.sha256.as_ref().try_into().map_err(|_| invalid("sha256", "must have 32 bytes"))?;
    let mut entries = Vec::with_capacity(asked.entries.len());
    for (seq, body) in (asked.after.saturating_add(1)..).zip(&asked.entries) {
        let entry = Entry::read_whole(body).and_then(|entry| {
            entry.must_suit(&dataset)?;
            Ok(entry)
        });
        entries.push(entry.map_err(|why| invalid("entries", &format!("cannot be taken in: entry {seq} {why}")))?);
    }
    if asked.after.saturating_add(entries.len() as u64) > asked.head {
        return Err(invalid("head", "must be the number of entries of the whole import"));
    }
    let mark = ImportMark { entries: asked.head, sha256 };
    let begins =
        if entries.is_empty() { core.shared.log.import(&asked.dataset).await? == Some(mark) } else { asked.after == 0 };
    if begins {
        tell_of_dataset(core, actor, "dataset.import_begun", &dataset).await?;
    }
    let is_last = asked.after + entries.len() as u64 == asked.head && !entries.is_empty();
    let refused = core.datasets.import_here(&dataset, Import { mark, after: asked.after, entries }).await?;
    if let Some(why) = refused {
        return Err(invalid("dataset", why));
    }
    if is_last {
        tracing::info!(%dataset, entries = asked.head, "an import has come to its end");
    }
    core.datasets.refresh(&dataset).await
}
