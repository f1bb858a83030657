//! Searches theses, profiles and tokens. The index finds them, the store has their present state.

use futures::future::try_join_all;
use thesis_proto::v1;

use super::{
    resolve,
    theses::{still_there, with_references},
    token_counts::counted,
};
use crate::{
    access::gate::Call,
    convert,
    domain::dataset::Dataset,
    error::Result,
    search::{
        Cancellation, ParsedSearch, SearchFilter,
        run::{run_in_turn, wait_until_complete, with_timeout},
    },
    service::Core,
};

/// A search, with checked shape.
#[derive(Clone, Debug)]
pub struct SearchQuery {
    /// The text in the client's spelling.
    pub text: String,
    /// The parsed text.
    pub looked: ParsedSearch,
    /// Search theses.
    pub theses: bool,
    /// Search profiles.
    pub profiles: bool,
    /// Search tokens.
    pub tokens: bool,
    /// The chain of theses and tokens.
    pub chain: Option<String>,
    /// The token of theses, and the tokens themselves: a reference.
    pub token: Option<String>,
    /// The author of theses, and the profile itself.
    pub handle: Option<String>,
    /// Bound of theses; inclusive, unix milliseconds.
    pub created_after: Option<i64>,
    /// Bound of theses; inclusive, unix milliseconds.
    pub created_before: Option<i64>,
    /// Sorts theses by time instead of by score.
    pub newest: bool,
    /// Rows of each kind.
    pub limit: usize,
}

/// Searches.
///
/// # Errors
/// `HISTORY_LIMIT`; 422 on `token` or for a search that is too broad; `RATE_LIMITED` while too many searches of the
/// organization run; `SERVICE_UNAVAILABLE` for a search that takes too long, or while the index is built after a start;
/// or if the store or the index does not answer.
pub async fn search(core: &Core, call: &Call, query: SearchQuery) -> Result<v1::SearchResult> {
    let view = &call.caller.view;
    let narrow = narrow(core, call, &query).await?;
    with_timeout(async {
        wait_until_complete(&core.search, view).await;
        for dataset in view.datasets() {
            // The index catches up within the second that a search may miss.
            core.datasets.refresh_if_disconnected(dataset).await?;
        }
        Ok(())
    })
    .await?;
    let SearchQuery { text, looked, limit, newest, .. } = query;
    let of = move |wanted: bool, limit: usize| if wanted { limit } else { 0 };
    let searched = view.clone();
    let cancellation = narrow.cancellation.clone();
    let (theses, profiles, tokens) =
        run_in_turn(&core.search, &call.caller.organization.id, &cancellation, move |index| {
            // Twice the limit, since some rows may be deleted by now.
            let theses = index.theses(&searched, &looked, &narrow, newest, of(query.theses, 2 * limit))?;
            let profiles = index.profiles(&searched, &looked, &narrow, of(query.profiles, limit))?;
            let tokens = index.tokens(&searched, &looked, &narrow, of(query.tokens, limit))?;
            Ok((theses, profiles, tokens))
        })
        .await?;
    Ok(v1::SearchResult {
        query: text,
        theses: shown_theses(core, theses, limit).await?,
        profiles: shown_profiles(core, call, &profiles).await?,
        tokens: shown_tokens(core, call, &tokens).await?,
        livemode: view.livemode(),
    })
}

async fn narrow(core: &Core, call: &Call, query: &SearchQuery) -> Result<SearchFilter> {
    let (shared, view) = (&core.shared, &call.caller.view);
    let floor = call.history_floor(query.created_after)?;
    // No row has an empty id, so a search restricted to an unknown profile finds nothing.
    let profile = match &query.handle {
        Some(handle) => Some(shared.theses.profile_id_by_handle(view, handle).await?.unwrap_or_default()),
        None => None,
    };
    let tokens = resolve::filtered_tokens(shared, view, query.token.as_deref(), query.chain.as_deref()).await?;
    let to = query.created_before.unwrap_or(i64::MAX);
    Ok(SearchFilter { profile, tokens, chain: query.chain.clone(), floor, to, cancellation: Cancellation::default() })
}

fn keys(found: &[(Dataset, String)]) -> Vec<(String, &str)> {
    found.iter().map(|(dataset, id)| (dataset.to_string(), id.as_str())).collect()
}

async fn shown_theses(core: &Core, found: Vec<(Dataset, String)>, limit: usize) -> Result<Vec<v1::Thesis>> {
    let mut there = still_there(&core.shared.theses, found).await?;
    there.truncate(limit);
    Ok(with_references(&core.shared.theses, &there).await?)
}

async fn shown_profiles(core: &Core, call: &Call, found: &[(Dataset, String)]) -> Result<Vec<v1::Profile>> {
    let with_wallet = call.shows_wallets();
    let rows = core.shared.theses.profiles(&keys(found)).await?;
    let shown = |((dataset, _), row): (&(Dataset, String), Option<_>)| -> Option<v1::Profile> {
        Some(convert::row::profile(dataset, row.as_deref()?, with_wallet))
    };
    Ok(found.iter().zip(rows).filter_map(shown).collect())
}

async fn shown_tokens(core: &Core, call: &Call, found: &[(Dataset, String)]) -> Result<Vec<v1::Token>> {
    let rows = core.shared.theses.tokens(&keys(found)).await?;
    let there = found.iter().zip(rows).filter_map(|((dataset, _), row)| Some((dataset, row?)));
    try_join_all(there.map(|(dataset, token)| async move { counted(core, call, dataset, &token).await })).await
}

#[cfg(test)]
mod tests;
