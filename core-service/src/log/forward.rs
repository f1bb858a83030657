//! Reads a log forward, in pages: as it grows, or from further back.

use thesis_proto::{filter::CompiledFilter, v1};

use crate::{
    domain::dataset::Dataset,
    error::Result,
    log::selection::{Selection, matching_event, select},
    shared::Shared,
    tables::{events::SeqRange, log::outline},
};

/// Maximum number of entries in a page. A page of all entries ends at a multiple of it, so readers from different
/// positions soon read the same pages.
const PAGE_ENTRIES: usize = 256;

/// A page ends with the entry that reaches this size.
const PAGE_BYTES: usize = 64 * 1024;

/// Reads the matching events of a dataset after a position, up to a projected one.
pub async fn read_forward(
    shared: &Shared,
    dataset: &Dataset,
    filter: &CompiledFilter,
    after: u64,
    upto: u64,
) -> Result<v1::ReadResponse> {
    let (name, log) = (dataset.to_string(), &shared.log);
    let reader = shared.theses.direct_reader();
    let (rows, whole) = match select(&reader, &dataset.counted_with(), filter).await? {
        Selection::All => {
            let upto = upto.min((after / PAGE_ENTRIES as u64 + 1) * PAGE_ENTRIES as u64);
            (log.read(&name, after, upto, PAGE_ENTRIES).await?, after)
        }
        Selection::Scopes(scopes) => {
            let between = SeqRange { after, before: upto + 1, projected: upto };
            let seqs = shared.events.positions(&name, &scopes, between, false, PAGE_ENTRIES).await?;
            let whole = if seqs.len() < PAGE_ENTRIES { upto } else { after };
            (log.get_many(&name, &seqs).await?, whole)
        }
    };
    let (mut events, mut position, mut bytes) = (Vec::new(), after, 0);
    for (seq, body) in rows {
        if bytes >= PAGE_BYTES {
            // The next call reads the rest.
            return Ok(v1::ReadResponse { events, position });
        }
        bytes += body.len();
        position = seq;
        let event = matching_event(dataset, seq, &outline(&body)?, body, filter)?;
        events.extend(event.map(|event| v1::TailEvent { position: seq, event: Some(event) }));
    }
    Ok(v1::ReadResponse { events, position: position.max(whole) })
}

#[cfg(test)]
mod tests;
