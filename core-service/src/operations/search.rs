//! Searches theses, profiles and tokens. The index finds them, the store has their present state. Fails with
//! `HISTORY_LIMIT`; with `RATE_LIMITED` while too many searches of the organization run; with `VALIDATION_FAILED` also
//! for a search that is too broad; with `SERVICE_UNAVAILABLE` for one that takes too long, or while the index is built
//! after a start.

use futures::future::try_join_all;
use thesis_proto::v1::{self, SearchType};

use super::{
    fields::Fields,
    resolve,
    theses::{still_there, with_references},
    token_counts::counted,
};
use crate::{
    access::gate::Call,
    convert,
    domain::{dataset::Dataset, reference::TokenReference},
    error::{Error, Result},
    search::{
        Cancellation, ParsedSearch, SearchFilter, parse,
        run::{run_in_turn, wait_until_complete, with_timeout},
    },
    service::Core,
};

/// A checked request.
struct SearchQuery {
    parsed: ParsedSearch,
    theses: bool,
    profiles: bool,
    tokens: bool,
    /// The token of theses, and the tokens themselves.
    token: Option<TokenReference>,
    /// Bounds of theses; inclusive, unix milliseconds.
    window: (Option<i64>, Option<i64>),
    /// Sorts theses by time instead of by score.
    newest: bool,
    /// Rows of each kind.
    limit: usize,
}

impl SearchQuery {
    fn read(message: &v1::SearchRequest) -> Result<Self> {
        let mut fields = Fields::default();
        fields.length("q", &message.q, 1..=512);
        let parsed = parse(&message.q);
        if let Err(malformed) = &parsed {
            fields.reject("q", malformed.0);
        }
        let known = |number: &i32| SearchType::try_from(*number).is_ok_and(|kind| kind != SearchType::Unspecified);
        if !message.types.iter().all(known) {
            fields.reject("types", "must be a list of theses, profiles and tokens");
        }
        let wanted = |kind: SearchType| message.types.is_empty() || message.types.contains(&kind.into());
        fields.optional_length("chain", message.chain.as_deref(), 1..=32);
        fields.optional_length("token", message.token.as_deref(), 1..=200);
        fields.optional_length("handle", message.handle.as_deref(), 1..=200);
        if v1::SearchSort::try_from(message.sort).is_err() {
            fields.reject("sort", "must be relevance or created_at_desc");
        }
        let limit = fields.limit("limit", message.limit, 1..=50, 10);
        let window = fields.window(message.created_after.as_ref(), message.created_before.as_ref());
        fields.finish()?;
        Ok(Self {
            parsed: parsed.map_err(Error::internal)?,
            theses: wanted(SearchType::Theses),
            profiles: wanted(SearchType::Profiles),
            tokens: wanted(SearchType::Tokens),
            token: message.token.clone().map(|text| TokenReference::new(text, message.chain.clone())),
            window,
            newest: message.sort() == v1::SearchSort::CreatedAtDesc,
            limit,
        })
    }
}

pub async fn search(core: &Core, call: &Call, message: v1::SearchRequest) -> Result<v1::SearchResponse> {
    let query = SearchQuery::read(&message)?;
    call.charge().await?;
    let view = &call.caller.view;
    let narrow = narrow(core, call, &message, &query).await?;
    with_timeout(async {
        wait_until_complete(&core.search, view).await;
        for dataset in view.datasets() {
            // The index catches up within the second that a search may miss.
            core.datasets.refresh_if_disconnected(dataset).await?;
        }
        Ok(())
    })
    .await?;
    let limit = query.limit;
    let of = move |wanted: bool, limit: usize| if wanted { limit } else { 0 };
    let searched = view.clone();
    let cancellation = narrow.cancellation.clone();
    let (theses, profiles, tokens) =
        run_in_turn(&core.search, &call.caller.organization.id, &cancellation, move |index| {
            let parsed = &query.parsed;
            // Twice the limit, since some rows may be deleted by now.
            let theses = index.theses(&searched, parsed, &narrow, query.newest, of(query.theses, 2 * limit))?;
            let profiles = index.profiles(&searched, parsed, &narrow, of(query.profiles, limit))?;
            let tokens = index.tokens(&searched, parsed, &narrow, of(query.tokens, limit))?;
            Ok((theses, profiles, tokens))
        })
        .await?;
    let result = v1::SearchResult {
        query: message.q,
        theses: shown_theses(core, theses, limit).await?,
        profiles: shown_profiles(core, call, &profiles).await?,
        tokens: shown_tokens(core, call, &tokens).await?,
        livemode: view.livemode(),
    };
    Ok(v1::SearchResponse { result: Some(result) })
}

async fn narrow(core: &Core, call: &Call, message: &v1::SearchRequest, query: &SearchQuery) -> Result<SearchFilter> {
    let (shared, view, (after, before)) = (&core.shared, &call.caller.view, query.window);
    let floor = call.history_floor(after)?;
    // No row has an empty id, so a search restricted to an unknown profile finds nothing.
    let profile = match &message.handle {
        Some(handle) => Some(shared.theses.profile_id_by_handle(view, handle).await?.unwrap_or_default()),
        None => None,
    };
    let tokens = resolve::filtered_tokens(shared, view, query.token.as_ref()).await?;
    let (chain, to) = (message.chain.clone(), before.unwrap_or(i64::MAX));
    Ok(SearchFilter { profile, tokens, chain, floor, to, cancellation: Cancellation::default() })
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
