//! Theses as they were at an earlier time. The log has them: each entry that creates or edits a thesis contains all of
//! it, and an edit names the one before.

use std::{mem::take, sync::Arc};

use crate::{
    domain::{
        dataset::Dataset,
        entry::{Entry, Kind},
        row::Thesis,
    },
    store::StoreResult,
    tables::log::LogStore,
};

/// Returns the sequence number of the entry that wrote a thesis before this one at `seq`.
fn entry_before(seq: u64, entry: &Entry, thesis: &Thesis) -> Option<u64> {
    let previous = match &entry.kind {
        Some(Kind::ThesisEdited(edited)) => edited.previous,
        _ => None,
    };
    previous.or(thesis.sequence).filter(|before| *before < seq)
}

/// Reads theses that were recorded by `at` as their last edit by then left them, or else as they were posted.
pub(super) async fn as_they_were(
    log: &LogStore,
    mut theses: Vec<(Dataset, Arc<Thesis>)>,
    at: i64,
) -> StoreResult<Vec<(Dataset, Arc<Thesis>)>> {
    let last =
        |(index, (_, thesis)): (usize, &(Dataset, Arc<Thesis>))| Some((index, thesis.changed_in.or(thesis.sequence)?));
    let mut unread: Vec<(usize, u64)> = theses.iter().enumerate().filter_map(last).collect();
    while !unread.is_empty() {
        let places: Vec<(&str, u64)> = unread.iter().map(|(index, seq)| (theses[*index].0.name(), *seq)).collect();
        let entries = log.entries_at(&places).await?;
        for ((index, seq), entry) in take(&mut unread).into_iter().zip(entries) {
            let thesis = &theses[index].1;
            if entry.created_at > at {
                unread.extend(entry_before(seq, &entry, thesis).map(|before| (index, before)));
                continue;
            }
            let was = entry.kind.and_then(Kind::into_thesis).filter(|was| was.id == thesis.id);
            if let Some(was) = was {
                theses[index].1 = Arc::new(was);
            }
        }
    }
    Ok(theses)
}
