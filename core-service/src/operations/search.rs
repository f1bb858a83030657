//! Searches theses, profiles and tokens. The index finds them, the store has their present state. Fails with
//! `HISTORY_LIMIT`; with `RATE_LIMITED` while too many searches of the organization run; with `VALIDATION_FAILED` also
//! for a search that is too broad or matches too many rows; with `SERVICE_UNAVAILABLE` for one that takes too long, or
//! while the index is built after a start.

use futures::future::try_join_all;
use thesis_proto::v1::{self, SearchSort, SearchType};

use super::{
    fields::Fields,
    resolve,
    theses::{still_there, with_references},
    token_figures::TokenFigures,
};
use crate::{
    access::gate::Call,
    convert,
    domain::{dataset::Dataset, reference::TokenReference},
    error::{Error, Result},
    search::{
        Cancellation, Kind, Order, ParsedSearch, SearchFilter,
        months::{SearchCores, ThesisSearch, find_theses},
        parse,
        run::{wait_until_complete, with_timeout},
    },
    service::Core,
    tables::theses::RowReader,
};

/// Inclusive bounds, in unix milliseconds.
type Window = (Option<i64>, Option<i64>);

/// Checks a request. Returns the parsed text, the bounds of theses, and the limit of rows of each kind.
fn check(message: &v1::SearchRequest) -> Result<(ParsedSearch, Window, usize)> {
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
    fields.optional_length("chain", message.chain.as_deref(), 1..=32);
    fields.optional_length("token", message.token.as_deref(), 1..=200);
    fields.optional_length("handle", message.handle.as_deref(), 1..=200);
    if SearchSort::try_from(message.sort).is_err() {
        fields.reject("sort", "must be relevance or created_at_desc");
    }
    let limit = fields.limit("limit", message.limit, 1..=50, 10);
    let window = fields.window(message.created_after.as_ref(), message.created_before.as_ref());
    fields.finish()?;
    Ok((parsed.map_err(Error::internal)?, window, limit))
}

/// True if a request is for rows of a kind.
fn is_for(message: &v1::SearchRequest, kind: SearchType) -> bool {
    message.types.is_empty() || message.types.contains(&kind.into())
}

pub async fn search(core: &Core, call: &Call, message: v1::SearchRequest) -> Result<v1::SearchResponse> {
    let (parsed, window, limit) = check(&message)?;
    call.charge().await?;
    let view = &call.caller.view;
    let narrow = narrow(core, call, &message, window).await?;
    let mut position_of_live = 0;
    with_timeout(async {
        wait_until_complete(&core.search, view).await;
        for dataset in view.datasets() {
            // The index catches up within the second that a search may miss, with the entries since it follows the log.
            let position = core.datasets.refresh_unless_notified(dataset).await?;
            core.search.wait_for_position(dataset, position).await;
            if *dataset == Dataset::Live {
                position_of_live = position;
            }
        }
        Ok(())
    })
    .await?;
    let limits = [SearchType::Theses, SearchType::Profiles, SearchType::Tokens]
        .map(|kind| if is_for(&message, kind) { limit } else { 0 });
    let order = if message.sort() == SearchSort::CreatedAtDesc { Order::Newest } else { Order::Relevance };
    // Twice the limit, since some rows may be deleted by now.
    let (words, limit_of_theses) = ((message.q.clone(), parsed.clone()), 2 * limits[0]);
    let theses = ThesisSearch::new(view.clone(), words, narrow.clone(), order, limit_of_theses, position_of_live);
    let cores = SearchCores { index: &core.search, peers: &core.peers, organization: &call.caller.organization.id };
    let searched = view.clone();
    let searching = find_theses(cores, theses, move |index| {
        let find = |kind, limit| index.find(kind, &searched, &parsed, &narrow, Order::Relevance, limit);
        Ok((find(Kind::Profile, limits[1])?, find(Kind::Token, limits[2])?))
    });
    let reader = async { Ok::<_, Error>(core.shared.theses.reader(view).await?) };
    let ((theses, (profiles, tokens)), reader) = tokio::try_join!(searching, reader)?;
    let result = v1::SearchResult {
        query: message.q,
        theses: shown_theses(&reader, theses, limit).await?,
        profiles: shown_profiles(&reader, call, &profiles).await?,
        tokens: shown_tokens(core, call, &reader, &tokens).await?,
        livemode: view.livemode(),
    };
    Ok(v1::SearchResponse { result: Some(result) })
}

async fn narrow(
    core: &Core,
    call: &Call,
    message: &v1::SearchRequest,
    (after, before): Window,
) -> Result<SearchFilter> {
    let (view, chain) = (&call.caller.view, message.chain.clone());
    let reader = core.shared.theses.direct_reader();
    let floor = call.history_floor(after)?;
    // No row has an empty id, so a search restricted to an unknown profile finds nothing.
    let profile = match &message.handle {
        Some(handle) => Some(reader.profile_id_by_handle(view, handle).await?.unwrap_or_default()),
        None => None,
    };
    let token = message.token.clone().map(|text| TokenReference::new(text, chain.clone()));
    let tokens = resolve::filtered_tokens(&reader, view, token.as_ref()).await?;
    let to = before.unwrap_or(i64::MAX);
    Ok(SearchFilter { profile, tokens, chain, floor, to, cancellation: Cancellation::default() })
}

fn keys(found: &[(Dataset, String)]) -> Vec<(&str, &str)> {
    found.iter().map(|(dataset, id)| (dataset.name(), id.as_str())).collect()
}

async fn shown_theses(reader: &RowReader<'_>, found: Vec<(Dataset, String)>, limit: usize) -> Result<Vec<v1::Thesis>> {
    let mut there = still_there(reader, found).await?;
    there.truncate(limit);
    Ok(with_references(reader, &there).await?)
}

async fn shown_profiles(reader: &RowReader<'_>, call: &Call, found: &[(Dataset, String)]) -> Result<Vec<v1::Profile>> {
    let with_wallet = call.shows_wallets();
    let rows = reader.profiles(&keys(found)).await?;
    let shown = |((dataset, _), row): (&(Dataset, String), Option<_>)| -> Option<v1::Profile> {
        Some(convert::row::profile(dataset, row.as_deref()?, with_wallet))
    };
    Ok(found.iter().zip(rows).filter_map(shown).collect())
}

async fn shown_tokens(
    core: &Core,
    call: &Call,
    reader: &RowReader<'_>,
    found: &[(Dataset, String)],
) -> Result<Vec<v1::Token>> {
    let rows = reader.tokens(&keys(found)).await?;
    let there = found.iter().zip(rows).filter_map(|((dataset, _), row)| Some((dataset, row?)));
    let counting = there.map(|(dataset, token)| async move {
        let figures = TokenFigures::new(core, call, reader, &token, None).await?;
        figures.read_token(dataset).await
    });
    try_join_all(counting).await
}

#[cfg(test)]
mod tests;
