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
    resolve, search,
};
use crate::{
    convert,
    domain::{
        dataset::{Dataset, View},
        list_cursor::{TimePosition, list_name},
        row::{Profile, Thesis, Token},
        window::HISTORY_GRACE_MS,
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
    let from = match &position {
        // A cursor does not outlive the window.
        Some(position) => position.from.max(call.history_from(None)? - HISTORY_GRACE_MS),
        None => {
            let since = query.since.as_ref().map(|(_, span)| call.now_ms - span);
            call.history_from(query.created_after.max(since))?
        }
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
            from,
            to: query.created_before.unwrap_or(i64::MAX),
        };
        let after = position.map(|position| (position.likes, position.created_at, position.id));
        search::likes_page(core, view, narrow, after, wanted).await?
    } else {
        let stretch = Stretch {
            from,
            to: query.created_before.unwrap_or(i64::MAX),
            after: position.map(|position| (position.created_at, position.id)),
            descending: query.order == Order::Newest,
        };
        by_time(core, view, &named.scopes(query.chain.as_ref()), &stretch, wanted).await?
    };
    let has_more = rows.len() > query.limit;
    rows.truncate(query.limit);
    let next_cursor = rows.last().filter(|_| has_more).map(|last| {
        let position = TimePosition { created_at: last.created_at, id: last.id.clone(), from, likes: last.likes };
        signer.sign(&name, &position)
    });
    let keys: Vec<(String, &str)> = rows.iter().map(|row| (row.dataset.to_string(), row.id.as_str())).collect();
    let theses = core.shared.theses.theses(&keys).await?;
    let found: Vec<(Dataset, Arc<Thesis>)> = rows
        .iter()
        .zip(theses)
        .filter_map(|(row, thesis)| Some((row.dataset.clone(), thesis?)))
        .filter(|(_, thesis)| thesis.deleted_at.is_none())
        .collect();
    Ok(Page { theses: with_references(&core.shared.theses, &found).await?, next_cursor })
}

/// Merges the slices of the datasets and scopes.
async fn by_time(
    core: &Core,
    view: &View,
    scopes: &[IndexScope],
    stretch: &Stretch,
    limit: usize,
) -> Result<Vec<Liked>> {
    let mut rows = Vec::new();
    for dataset in view.datasets() {
        for scope in scopes {
            let slice = core.shared.theses.stretch(dataset, scope, stretch, limit).await?;
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
        if stretch.descending { order.reverse() } else { order }
    });
    rows.truncate(limit);
    Ok(rows)
}

/// Finds what a query names; none when that is unknown.
async fn named(core: &Core, view: &View, query: &Query) -> Result<Option<Named>> {
    let mut profile = None;
    if let Some(reference) = &query.profile {
        profile = resolve::profile_id(&core.shared, view, reference).await?;
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
    call.history_from(Some(found.1.created_at))?;
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
