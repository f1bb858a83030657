//! Erases the text of a deleted thesis from its row and from the entries of the log, and so from events, exports and
//! later backups. The search index lost it at the deletion.
//!
//! 1. The writer appends the row without its text, and the projection writes it as it writes every row. When other
//!    cores and edges read this entry, they drop all cached data from earlier entries. The checkpoint of the rows names
//!    the entry, so a core that reads only the checkpoint learns of the erasure too.
//! 2. The entries from the creation to the deletion are replaced. They keep their leaves, so the Merkle tree stays the
//!    same.
//! 3. The writer appends the row again. Cores and edges drop their caches a second time, since they may have read old
//!    entries before step 2.
//!
//! A repeat after a crash does all steps again, and finds entries without text.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use thesis_proto::{error::ErrorCode, v1};

use super::{audit_in_dataset, demand_reason, invalid, known_dataset};
use crate::{
    domain::{
        account::{Act, Actor},
        dataset::Dataset,
        entry::Kind,
        evidence::leaf,
        id_kind::unknown_to_operator,
        row::Thesis,
    },
    error::Result,
    service::Core,
    store::StoreError,
    tables::log::{LogStore, decode},
};

/// Entries of one read.
const PAGE: usize = 1_000;

pub async fn erase_thesis(
    core: &Core,
    actor: &Actor,
    message: &v1::EraseThesisRequest,
) -> Result<v1::EraseThesisResponse> {
    let v1::EraseThesisRequest { dataset, id, reason } = message;
    demand_reason(reason)?;
    let dataset = known_dataset(core, dataset).await?;
    let found = core.shared.theses.theses(&[(dataset.name(), id.as_str())]).await?.pop().flatten();
    let thesis = found.filter(|thesis| !thesis.is_awaited());
    let thesis = thesis.ok_or_else(|| unknown_to_operator(ErrorCode::ThesisNotFound, id))?;
    if thesis.deleted_at.is_none() {
        return Err(invalid("id", "is of a thesis that is not deleted; only the text of a deleted one can be erased"));
    }
    let act = Act { reason: Some(reason.clone()), ..actor.does("thesis.erased").to(id) };
    audit_in_dataset(core, act, &dataset).await?;
    core.datasets.erase_text_here(&dataset, id).await?;
    let entries = erase_entries(core, &dataset, &thesis).await?;
    core.datasets.erase_text_here(&dataset, id).await?;
    core.shared.rendered.clear();
    core.dispatcher.forget_bodies();
    tracing::info!(%dataset, thesis = id, entries, "the text of a deleted thesis is erased");
    Ok(v1::EraseThesisResponse { entries })
}

/// Replaces the entries that have the text of a thesis, from its creation to its deletion. Returns their number.
async fn erase_entries(core: &Core, dataset: &Dataset, thesis: &Thesis) -> Result<u64> {
    let name = dataset.name();
    // This reads the store directly, so that old entries do not get into the memory of recent entries.
    let stored = LogStore::new(Arc::clone(&core.shared.backend));
    let upto = core.datasets.refresh(dataset).await?;
    let mut after = thesis.sequence.map_or(0, |created| created - 1);
    let mut erased = 0;
    while after < upto {
        let page = stored.read(name, after, upto, PAGE).await?;
        let damaged = || StoreError::Damaged(format!("log {name} has no readable entry {}", after + 1));
        after = page.last().ok_or_else(damaged)?.0;
        for (seq, body) in page {
            let leaf = leaf(name, seq, &body).map_err(|error| StoreError::Damaged(error.to_string()))?;
            let mut entry = decode(seq, body)?;
            if entry.erase_text_of(&thesis.id, &leaf) {
                core.shared.log.replace(name, seq, entry.stored(seq).into()).await?;
                erased += 1;
            }
            if let Some(Kind::ThesisDeleted(deleted)) = &entry.kind
                && deleted.thesis.id == thesis.id
            {
                return Ok(erased);
            }
        }
    }
    Ok(erased)
}
