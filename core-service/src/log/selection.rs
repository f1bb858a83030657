//! Selects the entries of a view's logs that can match an event filter, by the index of one dimension.

use bytes::Bytes;
use thesis_proto::{filter::CompiledFilter, names::is_of_alerts, reference::TokenReadings, v1};

use crate::{
    convert,
    domain::{
        dataset::{Dataset, View},
        entry::EntryOutline,
    },
    error::Result,
    store::StoreResult,
    tables::{events::EventScope, log::decode, theses::RowReader},
};

/// Maximum number of scopes that are merged. A filter that names more tokens reads the log itself.
const MAX_SCOPES: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    All,
    /// The entries in any of these scopes.
    Scopes(Vec<EventScope>),
}

/// Returns whether a dataset has events of the types that a filter names. A read for alerts' events alone passes over
/// the logs of theses, which have far more entries.
pub fn has_types(dataset: &Dataset, filter: &CompiledFilter) -> bool {
    match dataset {
        Dataset::Alerts(_) => filter.names_alerts(),
        Dataset::Live | Dataset::Sandbox | Dataset::Project(_) => {
            !filter.names_alerts() || !filter.types().iter().copied().all(is_of_alerts)
        }
    }
}

/// Finds the entries that can match. The reader must not be older than the end position of the read: then it finds all
/// tokens introduced before that position.
pub async fn select(reader: &RowReader<'_>, view: &View, filter: &CompiledFilter) -> Result<Selection> {
    if !filter.handles().is_empty() {
        return Ok(scopes(filter.handles().iter().cloned().map(EventScope::Handle).collect()));
    }
    if !filter.tokens().is_empty() {
        let mut ids = Vec::new();
        for reference in filter.tokens() {
            ids.extend(tokens(reader, view, reference).await?);
            if ids.len() > MAX_SCOPES {
                return Ok(Selection::All);
            }
        }
        return Ok(scopes(ids.into_iter().map(EventScope::Token).collect()));
    }
    if !filter.chains().is_empty() {
        return Ok(scopes(filter.chains().iter().cloned().map(EventScope::Chain).collect()));
    }
    Ok(if filter.types() == [EventScope::RARE_TYPE] {
        scopes(vec![EventScope::ProfileUpdated])
    } else {
        Selection::All
    })
}

/// Returns the event of a stored entry if a filter matches it. Most entries of other types are not decoded, so damage
/// in one is not noticed.
pub fn matching_event(
    dataset: &Dataset,
    seq: u64,
    outline: &EntryOutline,
    body: Bytes,
    filter: &CompiledFilter,
) -> StoreResult<Option<v1::Event>> {
    if !convert::entry::may_be_event(outline, filter.types()) {
        return Ok(None);
    }
    let event = convert::entry::event(dataset, &decode(seq, body)?);
    Ok(event.filter(|event| filter.matches(event)))
}

fn scopes(mut scopes: Vec<EventScope>) -> Selection {
    scopes.sort_unstable_by_key(|scope| format!("{scope:?}"));
    scopes.dedup();
    Selection::Scopes(scopes)
}

/// The ids of all tokens that a reference means or meant, in any reading.
async fn tokens(reader: &RowReader<'_>, view: &View, reference: &TokenReadings) -> Result<Vec<String>> {
    let TokenReadings { id, on_chain, address, symbol } = reference;
    let limit = MAX_SCOPES + 1;
    let mut ids: Vec<String> = id.iter().cloned().collect();
    if let Some((chain, address)) = on_chain {
        ids.extend(reader.token_ids_by_address(view, address, Some(chain), limit).await?);
    }
    if let Some(address) = address {
        ids.extend(reader.token_ids_by_address(view, address, None, limit).await?);
    }
    ids.extend(reader.token_ids_by_any_symbol(view, symbol, limit).await?);
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_are_looked_for_in_their_log_alone() {
        let (live, alerts) = (Dataset::Live, Dataset::of_alerts("prj_1", true));
        let (fired, posted) = (v1::EventType::AlertFiring, v1::EventType::ThesisCreated);
        for (types, expected) in [
            (Vec::new(), [true, false]),
            (vec![posted], [true, false]),
            (vec![fired], [false, true]),
            (vec![fired, posted], [true, true]),
        ] {
            let filter = CompiledFilter::new(&types, None).unwrap();
            assert_eq!([&live, &alerts].map(|dataset| has_types(dataset, &filter)), expected, "{types:?}");
        }
    }
}
