//! Lists theses.

use thesis_proto::v1;

use super::{
    resolve,
    theses::{Slices, by_time, still_there, with_references},
};
use crate::{
    access::gate::Call,
    domain::{
        dataset::{Dataset, View},
        list_cursor::{TimePosition, list_name},
    },
    error::{Error, Result},
    search::{Cancellation, SearchFilter, run::likes_page},
    service::Core,
    tables::index_scope::IndexScope,
};

/// The order of a list of theses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThesisOrder {
    /// Newest first.
    #[default]
    Newest,
    /// Oldest first.
    Oldest,
    /// Most liked first, null last, then newest first.
    MostLiked,
}

/// A request for a list of theses, with checked shape.
#[derive(Clone, Debug, Default)]
pub struct ThesisQuery {
    /// `fp_` id, handle or upstream id.
    pub profile: Option<String>,
    /// A handle.
    pub handle: Option<String>,
    /// A token reference.
    pub token: Option<String>,
    /// A chain.
    pub chain: Option<String>,
    /// Inclusive, unix milliseconds.
    pub created_after: Option<i64>,
    /// Inclusive, unix milliseconds.
    pub created_before: Option<i64>,
    /// A span before now, in the client's spelling and in milliseconds.
    pub since: Option<(String, i64)>,
    /// The order.
    pub order: ThesisOrder,
    /// Rows of a page.
    pub limit: usize,
    /// Cursor of the page.
    pub cursor: Option<String>,
}

/// A page of a list.
#[derive(Debug)]
pub struct ThesisPage {
    /// The rows.
    pub theses: Vec<v1::Thesis>,
    /// Cursor of the next page, if there is one.
    pub next_cursor: Option<String>,
}

impl ThesisQuery {
    /// Returns the list's name, which is the same for all its pages and page sizes.
    fn name(&self, view: &View) -> [u8; 32] {
        // The name contains every field of a query, except those of the page.
        let Self { profile, handle, token, chain, created_after, created_before, since, order, limit: _, cursor: _ } =
            self;
        let number = |number: &Option<i64>| number.map(|number| number.to_string()).unwrap_or_default();
        let text = |text: &Option<String>| text.as_ref().map(|text| format!("={text}")).unwrap_or_default();
        let view: Vec<String> = view.datasets().iter().map(Dataset::to_string).collect();
        let since = since.as_ref().map(|(text, _)| text.clone());
        list_name(&[
            "theses",
            &view.join(","),
            &text(profile),
            &text(handle),
            &text(token),
            &text(chain),
            &number(created_after),
            &number(created_before),
            &text(&since),
            match order {
                ThesisOrder::Newest => "desc",
                ThesisOrder::Oldest => "asc",
                ThesisOrder::MostLiked => "likes",
            },
        ])
    }
}

/// Lists theses.
///
/// # Errors
/// `INVALID_CURSOR`, `HISTORY_LIMIT`, 422, or when the store does not answer.
pub async fn list_theses(core: &Core, call: &Call, query: &ThesisQuery) -> Result<ThesisPage> {
    let signer = core.shared.keys.cursor_signer();
    let name = query.name(&call.caller.view);
    let read = |cursor| signer.read::<TimePosition>(&name, cursor).ok_or_else(Error::invalid_cursor);
    let position = query.cursor.as_deref().map(read).transpose()?;
    let since = query.since.as_ref().map(|(_, span)| call.now_ms - span);
    let explicit = query.created_after.max(since);
    let floor = match &position {
        Some(position) => call.later_floor(position.from, explicit.is_some()),
        None => call.history_floor(explicit)?,
    };
    let view = &call.caller.view;
    let Some(names) = resolve_names(core, view, query).await? else {
        return Ok(ThesisPage { theses: Vec::new(), next_cursor: None });
    };
    let wanted = query.limit + 1;
    let mut rows = if query.order == ThesisOrder::MostLiked {
        let narrow = SearchFilter {
            profile: names.profile,
            tokens: names.tokens,
            chain: query.chain.clone(),
            floor,
            to: query.created_before.unwrap_or(i64::MAX),
            cancellation: Cancellation::default(),
        };
        let after = position.map(|position| (position.likes, position.created_at, position.id));
        likes_page((&core.search, &call.caller.organization.id), &core.datasets, view, narrow, after, wanted).await?
    } else {
        let slices = Slices {
            scopes: names.scopes(query.chain.as_ref()),
            floor,
            to: query.created_before.unwrap_or(i64::MAX),
            descending: query.order == ThesisOrder::Newest,
        };
        by_time(core, view, &slices, position.map(|position| (position.created_at, position.id)), wanted).await?
    };
    let has_more = rows.len() > query.limit;
    rows.truncate(query.limit);
    let next_cursor = rows.last().filter(|_| has_more).map(|last| {
        let (created_at, id, from) = (last.created_at, last.id.clone(), floor.carried());
        signer.sign(&name, &TimePosition { created_at, id, from, likes: last.likes })
    });
    let rows = rows.into_iter().map(|row| (row.dataset, row.id));
    let found = still_there(&core.shared.theses, rows).await?;
    Ok(ThesisPage { theses: with_references(&core.shared.theses, &found).await?, next_cursor })
}

/// Finds the profile and the tokens that a query names; none if no profile matches.
async fn resolve_names(core: &Core, view: &View, query: &ThesisQuery) -> Result<Option<ResolvedNames>> {
    let mut profile = None;
    if let Some(reference) = &query.profile {
        profile = resolve::profile_id(&core.shared, view, &resolve::ProfileReference::Any(reference.clone())).await?;
        if profile.is_none() {
            return Ok(None);
        }
    }
    if let Some(handle) = &query.handle {
        let by_handle = core.shared.theses.profile_id_by_handle(view, handle).await?;
        if by_handle.is_none() || profile.as_ref().is_some_and(|id| by_handle.as_ref() != Some(id)) {
            return Ok(None);
        }
        profile = by_handle;
    }
    let (token, chain) = (query.token.as_deref(), query.chain.as_deref());
    let tokens = resolve::filtered_tokens(&core.shared, view, token, chain).await?;
    Ok(Some(ResolvedNames { profile, tokens }))
}

/// The profile and the tokens that a query names.
struct ResolvedNames {
    profile: Option<String>,
    tokens: Option<Vec<String>>,
}

impl ResolvedNames {
    /// Returns the index scopes that serve it.
    fn scopes(self, chain: Option<&String>) -> Vec<IndexScope> {
        match (self.profile, self.tokens, chain) {
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
}
