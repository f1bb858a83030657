//! Reads the contents of theses as of an earlier time from the log. Each entry that creates or edits a thesis contains
//! the whole thesis, and an edit names the edit before it.

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

/// Returns the sequence number of the entry that wrote a thesis before the entry at `seq` did.
fn entry_before(seq: u64, entry: &Entry, thesis: &Thesis) -> Option<u64> {
    let previous = match &entry.kind {
        Some(Kind::ThesisEdited(edited)) => edited.previous,
        _ => None,
    };
    previous.or(thesis.sequence).filter(|before| *before < seq)
}

/// Replaces each thesis, which was recorded by `at`, with its version as of `at`: after the last edit by then, or as it
/// was posted.
pub(super) async fn read_as_of(
    log: &LogStore,
    mut theses: Vec<(Dataset, Arc<Thesis>)>,
    at: i64,
) -> StoreResult<Vec<(Dataset, Arc<Thesis>)>> {
    let last =
        |(index, (_, thesis)): (usize, &(Dataset, Arc<Thesis>))| Some((index, thesis.changed_in.or(thesis.sequence)?));
    let mut unread: Vec<(usize, u64)> = theses.iter().enumerate().filter_map(last).collect();
    while !unread.is_empty() {
        let places: Vec<(&str, u64)> = unread.iter().map(|(index, seq)| (theses[*index].0.name(), *seq)).collect();
        let entries = log.listed_entries_at(&places).await?;
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
