//! Lists theses. Fails with `INVALID_CURSOR` or `HISTORY_LIMIT`.

use thesis_proto::v1::{self, ThesisSort};

use super::{
    fields::Fields,
    resolve,
    theses::{Slices, by_time, rendered, still_there, with_references},
};
use crate::{
    access::gate::Call,
    domain::{
        dataset::{Dataset, View},
        list_cursor::{TimePosition, list_name},
        reference::{ProfileReference, TokenReference},
        window::{Floor, parse_span},
    },
    error::{Error, Result},
    search::{
        Cancellation, ListedThesis, SearchFilter,
        months::{SearchCores, likes_page},
    },
    service::Core,
    tables::{index_scope::IndexScope, theses::RowReader},
};

pub async fn list_theses(core: &Core, call: &Call, message: v1::ListThesesRequest) -> Result<v1::ListThesesResponse> {
    let mut fields = Fields::default();
    fields.optional_length("profile", message.profile.as_deref(), 1..=200);
    fields.optional_length("handle", message.handle.as_deref(), 1..=200);
    fields.optional_length("token", message.token.as_deref(), 1..=200);
    fields.optional_length("chain", message.chain.as_deref(), 1..=32);
    let span = message.since.as_deref().and_then(parse_span);
    if message.since.is_some() && span.is_none() {
        fields.reject("since", "must be a span such as 90s, 30m, 1h or 7d");
    }
    if ThesisSort::try_from(message.sort).is_err() {
        fields.reject("sort", "must be created_at_desc, created_at_asc or likes_desc");
    }
    let limit = fields.page(message.limit, message.cursor.as_deref());
    let (after, before) = fields.window(message.created_after.as_ref(), message.created_before.as_ref());
    fields.finish()?;
    call.charge().await?;

    let signer = core.shared.keys.cursor_signer();
    let name = name(&message, (after, before), &call.caller.view);
    let read = |cursor| signer.read::<TimePosition>(&name, cursor).ok_or_else(Error::invalid_cursor);
    let position = message.cursor.as_deref().map(read).transpose()?;
    let explicit = after.max(span.map(|span| call.now_ms - span));
    let floor = match &position {
        Some(position) => call.later_floor(position.from, explicit.is_some()),
        None => call.history_floor(explicit)?,
    };
    let to = before.unwrap_or(i64::MAX);
    let reader = core.shared.theses.reader(&call.caller.view).await?;
    let Some(mut rows) = rows(core, call, &message, &reader, (floor, to), position, limit + 1).await? else {
        return Ok(v1::ListThesesResponse::default());
    };
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let next_cursor = rows.last().filter(|_| has_more).map(|last| {
        let (created_at, id, from) = (last.created_at, last.id.clone(), floor.carried());
        signer.sign(&name, &TimePosition { created_at, id, from, likes: last.likes })
    });
    let rows: Vec<_> = rows.into_iter().map(|row| (row.dataset, row.id)).collect();
    let data = if call.meta.renders {
        let rows = rendered(core, &reader, rows).await?;
        *call.rendered.lock() = Some(rows);
        Vec::new()
    } else {
        with_references(&reader, &still_there(&reader, rows).await?).await?
    };
    Ok(v1::ListThesesResponse { data, next_cursor, has_more })
}

/// Names a list, the same for all its pages and page sizes.
fn name(message: &v1::ListThesesRequest, window: (Option<i64>, Option<i64>), view: &View) -> [u8; 32] {
    // The name contains every field of a request, except those of the page.
    let v1::ListThesesRequest {
        profile,
        handle,
        token,
        chain,
        created_after: _,
        created_before: _,
        since,
        sort: _,
        limit: _,
        cursor: _,
    } = message;
    let number = |number: Option<i64>| number.map(|number| number.to_string()).unwrap_or_default();
    let text = |text: &Option<String>| text.as_ref().map(|text| format!("={text}")).unwrap_or_default();
    let view: Vec<&str> = view.datasets().iter().map(Dataset::name).collect();
    list_name(&[
        "theses",
        &view.join(","),
        &text(profile),
        &text(handle),
        &text(token),
        &text(chain),
        &number(window.0),
        &number(window.1),
        &text(since),
        match message.sort() {
            ThesisSort::Unspecified | ThesisSort::CreatedAtDesc => "desc",
            ThesisSort::CreatedAtAsc => "asc",
            ThesisSort::LikesDesc => "likes",
        },
    ])
}

/// Reads the rows behind a position; none if a request names no existing profile.
async fn rows(
    core: &Core,
    call: &Call,
    message: &v1::ListThesesRequest,
    reader: &RowReader<'_>,
    (floor, to): (Floor, i64),
    position: Option<TimePosition>,
    limit: usize,
) -> Result<Option<Vec<ListedThesis>>> {
    let (view, chain) = (&call.caller.view, &message.chain);
    let Some((profile, tokens)) = resolve_names(reader, view, message).await? else { return Ok(None) };
    if message.sort() == ThesisSort::LikesDesc {
        let chain = chain.clone();
        let narrow = SearchFilter { profile, tokens, chain, floor, to, cancellation: Cancellation::default() };
        let after = position.map(|position| (position.likes, position.created_at, position.id));
        let organization = &call.caller.organization.id;
        let cores = SearchCores { index: &core.search, peers: &core.peers, organization };
        return likes_page(cores, &core.datasets, view, narrow, after, limit).await.map(Some);
    }
    let descending = message.sort() != ThesisSort::CreatedAtAsc;
    let slices = Slices { scopes: scopes(profile, tokens, chain.as_ref()), floor, to, descending, as_of: None };
    let after = position.map(|position| (position.created_at, position.id));
    by_time(reader, view, &slices, after, limit).await.map(Some)
}

/// The ids of a profile and of tokens.
type Names = (Option<String>, Option<Vec<String>>);

/// Finds the profile and the tokens that a request names; none if no profile matches.
async fn resolve_names(reader: &RowReader<'_>, view: &View, message: &v1::ListThesesRequest) -> Result<Option<Names>> {
    let mut profile = None;
    if let Some(text) = &message.profile {
        profile = resolve::profile_id(reader, view, &ProfileReference::Any(text.clone())).await?;
        if profile.is_none() {
            return Ok(None);
        }
    }
    if let Some(handle) = &message.handle {
        let by_handle = reader.profile_id_by_handle(view, handle).await?;
        if by_handle.is_none() || profile.as_ref().is_some_and(|id| by_handle.as_ref() != Some(id)) {
            return Ok(None);
        }
        profile = by_handle;
    }
    let token = message.token.clone().map(|text| TokenReference::new(text, message.chain.clone()));
    let tokens = resolve::filtered_tokens(reader, view, token.as_ref()).await?;
    Ok(Some((profile, tokens)))
}

/// Returns the index scopes that serve a profile, tokens and a chain.
fn scopes(profile: Option<String>, tokens: Option<Vec<String>>, chain: Option<&String>) -> Vec<IndexScope> {
    match (profile, tokens, chain) {
        (None, None, None) => vec![IndexScope::All],
        (Some(profile), None, None) => vec![IndexScope::Profile(profile)],
        (None, None, Some(chain)) => vec![IndexScope::Chain(chain.clone())],
        (Some(profile), None, Some(chain)) => vec![IndexScope::ProfileChain(profile, chain.clone())],
        (None, Some(tokens), _) => tokens.into_iter().map(IndexScope::Token).collect(),
        (Some(profile), Some(tokens), _) => {
            tokens.into_iter().map(|token| IndexScope::ProfileToken(profile.clone(), token)).collect()
        }
    }
}
