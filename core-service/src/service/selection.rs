//! Which entries of a view's logs can match a filter of events, by the index of one of its dimensions.

use thesis_proto::{filter::CompiledFilter, v1};

use super::{core::Shared, error::Result};
use crate::{
    domain::{dataset::View, handle, reference::TokenReference},
    store::events::EventScope,
};

/// Most scopes that are merged; a filter that names more tokens reads the log itself.
const MOST_SCOPES: usize = 200;

/// A filter of events, as given and as it is matched.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// As given.
    pub given: v1::EventFilters,
    /// As it is matched.
    pub compiled: CompiledFilter,
}

/// What is to be read of each log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Every entry.
    All,
    /// The entries in any of these scopes.
    Scopes(Vec<EventScope>),
}

/// Finds what can match. It is to be asked after the position up to which is read was: tokens that the log introduces up
/// to there are found then.
///
/// # Errors
/// When the store does not answer.
pub async fn select(shared: &Shared, view: &View, filter: &EventFilter) -> Result<Selection> {
    let EventFilter { given, compiled } = filter;
    if !given.handle.is_empty() {
        let handles = given.handle.iter().map(|text| EventScope::Handle(handle::claim(text)));
        return Ok(scopes(handles.collect()));
    }
    if !given.token.is_empty() {
        let mut ids = Vec::new();
        for text in &given.token {
            ids.extend(tokens(shared, view, text).await?);
            if ids.len() > MOST_SCOPES {
                return Ok(Selection::All);
            }
        }
        return Ok(scopes(ids.into_iter().map(EventScope::Token).collect()));
    }
    if !given.chain.is_empty() {
        return Ok(scopes(given.chain.iter().cloned().map(EventScope::Chain).collect()));
    }
    Ok(if compiled.types() == [EventScope::RARE] { scopes(vec![EventScope::ProfileUpdated]) } else { Selection::All })
}

fn scopes(mut scopes: Vec<EventScope>) -> Selection {
    scopes.sort_unstable_by_key(|scope| format!("{scope:?}"));
    scopes.dedup();
    Selection::Scopes(scopes)
}

/// The ids of all tokens that a reference means or meant, however it is read.
async fn tokens(shared: &Shared, view: &View, text: &str) -> Result<Vec<String>> {
    let reference = TokenReference::new(text);
    let limit = MOST_SCOPES + 1;
    let mut ids: Vec<String> = reference.id().map(str::to_owned).into_iter().collect();
    if let Some((chain, address)) = reference.chain_and_address() {
        ids.extend(shared.theses.token_ids_by_address(view, &address, Some(chain), limit).await?);
    }
    if let Some(address) = reference.address() {
        ids.extend(shared.theses.token_ids_by_address(view, &address, None, limit).await?);
    }
    for dataset in view.datasets() {
        ids.extend(shared.events.tokens_named(&dataset.to_string(), &reference.symbol(), limit).await?);
    }
    Ok(ids)
}
