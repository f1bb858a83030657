//! Lists theses and reads single ones, each with its author and token as they are now.

use std::{collections::HashMap, sync::Arc};

use thesis_proto::{
    error::{ApiError, ErrorCode, FieldError},
    v1,
};

use super::{
    core::Core,
    error::{Error, Result},
    gate::Call,
    profiles::Reference,
    resolve, search,
};
use crate::{
    convert,
    domain::{
        dataset::{Dataset, View},
        list_cursor::{TimePosition, list_name},
        row::{Profile, Thesis, Token},
        window::Floor,
    },
    search::{Liked, Narrow},
    store::{
        StoreResult,
        theses::{IndexScope, Stretch, ThesisStore},
    },
};

/// Order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Newest first.
    #[default]
    Newest,
    /// Oldest first.
    Oldest,
    /// Most liked first, null last, then newest first.
    Liked,
}

/// What a list is asked for, its shape checked.
#[derive(Clone, Debug, Default)]
pub struct Query {
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
    /// A span back from now, in milliseconds, as given and as read.
    pub since: Option<(String, i64)>,
    /// The order.
    pub order: Order,
    /// Rows of a page.
    pub limit: usize,
    /// Where the page starts.
    pub cursor: Option<String>,
}

/// A page of a list.
#[derive(Debug)]
pub struct Page {
    /// The rows.
    pub theses: Vec<v1::Thesis>,
    /// Where the next page starts, when there is one.
    pub next_cursor: Option<String>,
}

impl Query {
    /// Names the list that is asked for, page and size aside.
    fn name(&self, view: &View) -> [u8; 32] {
        let number = |number: Option<i64>| number.map(|number| number.to_string()).unwrap_or_default();
        let text = |text: &Option<String>| text.as_ref().map(|text| format!("={text}")).unwrap_or_default();
        let view: Vec<String> = view.datasets().iter().map(Dataset::to_string).collect();
        let since = self.since.as_ref().map(|(text, _)| text.clone());
        list_name(&[
            "theses",
            &view.join(","),
            &text(&self.profile),
            &text(&self.handle),
            &text(&self.token),
            &text(&self.chain),
            &number(self.created_after),
            &number(self.created_before),
            &text(&since),
            match self.order {
                Order::Newest => "desc",
                Order::Oldest => "asc",
                Order::Liked => "likes",
            },
        ])
    }
}

/// Lists theses.
///
/// # Errors
/// `INVALID_CURSOR`, `HISTORY_LIMIT`, 422, or when the store does not answer.
pub async fn list(core: &Core, call: &Call, query: &Query) -> Result<Page> {
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
    let Some(named) = named(core, view, query).await? else {
        return Ok(Page { theses: Vec::new(), next_cursor: None });
    };
    let wanted = query.limit + 1;
    let mut rows = if query.order == Order::Liked {
        let narrow = Narrow {
            profile: named.profile,
            tokens: named.tokens,
            chain: query.chain.clone(),
            floor,
            to: query.created_before.unwrap_or(i64::MAX),
        };
        let after = position.map(|position| (position.likes, position.created_at, position.id));
        search::likes_page(core, view, narrow, after, wanted).await?
    } else {
        let slices = Slices {
            scopes: named.scopes(query.chain.as_ref()),
            floor,
            to: query.created_before.unwrap_or(i64::MAX),
            descending: query.order == Order::Newest,
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
    Ok(Page { theses: with_references(&core.shared.theses, &found).await?, next_cursor })
}

/// What an index named a moment ago, as far as it is there: some may be deleted by now.
///
/// # Errors
/// When the store does not answer.
pub async fn still_there(
    store: &ThesisStore,
    rows: impl IntoIterator<Item = (Dataset, String)>,
) -> StoreResult<Vec<(Dataset, Arc<Thesis>)>> {
    let rows: Vec<(Dataset, String)> = rows.into_iter().collect();
    let keys: Vec<(String, &str)> = rows.iter().map(|(dataset, id)| (dataset.to_string(), id.as_str())).collect();
    let theses = store.theses(&keys).await?;
    let found = rows.iter().zip(theses).filter_map(|((dataset, _), thesis)| Some((dataset.clone(), thesis?)));
    Ok(found.filter(|(_, thesis)| thesis.deleted_at.is_none() && !thesis.is_awaited()).collect())
}

/// Which slices of the index are merged.
pub struct Slices {
    /// Their scopes.
    pub scopes: Vec<IndexScope>,
    /// The lower bound of each dataset.
    pub floor: Floor,
    /// The upper bound, inclusive.
    pub to: i64,
    /// Newest first.
    pub descending: bool,
}

/// Merges the slices of the datasets and scopes, going on after the given time and id.
///
/// # Errors
/// When the store does not answer.
pub async fn by_time(
    core: &Core,
    view: &View,
    slices: &Slices,
    after: Option<(i64, String)>,
    limit: usize,
) -> Result<Vec<Liked>> {
    let mut rows = Vec::new();
    let Slices { floor, to, descending, .. } = *slices;
    for dataset in view.datasets() {
        let stretch = Stretch { from: floor.of(dataset), to, after: after.clone(), descending };
        for scope in &slices.scopes {
            let slice = core.shared.theses.stretch(dataset, scope, &stretch, limit).await?;
            rows.extend(slice.into_iter().map(|row| Liked {
                dataset: dataset.clone(),
                id: row.id,
                likes: None,
                created_at: row.created_at,
            }));
        }
    }
    rows.sort_unstable_by(|a, b| {
        let order = (a.created_at, &a.id).cmp(&(b.created_at, &b.id));
        if descending { order.reverse() } else { order }
    });
    rows.truncate(limit);
    Ok(rows)
}

/// Finds what a query names; none when that is unknown.
async fn named(core: &Core, view: &View, query: &Query) -> Result<Option<Named>> {
    let mut profile = None;
    if let Some(reference) = &query.profile {
        profile = resolve::profile_id(&core.shared, view, &Reference::Any(reference.clone())).await?;
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
    let tokens = match &query.token {
        Some(reference) => Some(resolve::token_ids(&core.shared, view, reference, query.chain.as_deref()).await?),
        None => None,
    };
    if tokens.as_ref().is_some_and(|tokens| tokens.len() > resolve::MAX_TOKENS) {
        let rule = format!("names more than {} tokens; give chain or address", resolve::MAX_TOKENS);
        return Err(ApiError::validation(&[FieldError::new("token", rule)]).into());
    }
    Ok(Some(Named { profile, tokens }))
}

/// What a query names.
struct Named {
    profile: Option<String>,
    tokens: Option<Vec<String>>,
}

impl Named {
    /// The index scopes that serve it.
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

/// Reads one thesis that the caller sees, within its history window.
///
/// # Errors
/// `THESIS_NOT_FOUND`, `HISTORY_LIMIT`, or when the store does not answer.
pub async fn get(core: &Core, call: &Call, id: &str) -> Result<v1::Thesis> {
    let found = core.shared.theses.thesis(&call.caller.view, id).await?;
    let found = found.filter(|(_, thesis)| thesis.deleted_at.is_none());
    let found = found.ok_or_else(|| Error::new(ErrorCode::ThesisNotFound, "there is no such thesis"))?;
    call.demand_in_history(&found.0, found.1.created_at)?;
    let mut theses = with_references(&core.shared.theses, &[found]).await?;
    theses.pop().ok_or_else(|| Error::internal(format!("thesis {id} lacks its author or token")))
}

/// Gives each thesis its author and token.
///
/// # Errors
/// When the store does not answer.
pub async fn with_references(store: &ThesisStore, theses: &[(Dataset, Arc<Thesis>)]) -> StoreResult<Vec<v1::Thesis>> {
    let home = |dataset: &Dataset, shared: bool| if shared { Dataset::Sandbox } else { dataset.clone() }.to_string();
    let mut profiles: HashMap<&str, (String, Option<Arc<Profile>>)> = HashMap::new();
    let mut tokens: HashMap<&str, (String, Option<Arc<Token>>)> = HashMap::new();
    for (dataset, thesis) in theses {
        profiles.entry(&thesis.profile_id).or_insert_with(|| (home(dataset, thesis.sandbox_profile), None));
        tokens.entry(&thesis.token_id).or_insert_with(|| (home(dataset, thesis.sandbox_token), None));
    }
    let keys: Vec<(String, &str)> = profiles.iter().map(|(id, (dataset, _))| (dataset.clone(), *id)).collect();
    for (slot, row) in profiles.values_mut().zip(store.profiles(&keys).await?) {
        slot.1 = row;
    }
    let keys: Vec<(String, &str)> = tokens.iter().map(|(id, (dataset, _))| (dataset.clone(), *id)).collect();
    for (slot, row) in tokens.values_mut().zip(store.tokens(&keys).await?) {
        slot.1 = row;
    }
    Ok(theses
        .iter()
        .filter_map(|(dataset, thesis)| {
            let author = profiles.get(thesis.profile_id.as_str())?.1.as_ref()?;
            let token = tokens.get(thesis.token_id.as_str())?.1.as_ref()?;
            Some(convert::row::thesis(dataset, thesis, author, token))
        })
        .collect())
}
