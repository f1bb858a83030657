//! Lists theses and reads single ones, each with its author and token as they are now.

use std::collections::HashMap;

use thesis_proto::{
    error::{ApiError, ErrorCode, FieldError},
    v1,
};

use super::{
    core::Core,
    error::{Error, Result},
    gate::Call,
    resolve,
};
use crate::{
    convert,
    domain::{
        dataset::{Dataset, View},
        list_cursor::{TimePosition, list_name},
        row::{Profile, Thesis, Token},
    },
    store::{
        StoreResult,
        theses::{IndexScope, Stretch, ThesisStore},
    },
};

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
    /// Oldest first.
    pub ascending: bool,
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
            if self.ascending { "asc" } else { "desc" },
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
    let position = query.cursor.as_deref().map(|cursor| {
        signer.read::<TimePosition>(&name, cursor).ok_or_else(|| {
            let text = "this cursor was not made by this service for this list and these filters";
            Error::from(ApiError::new(ErrorCode::InvalidCursor, text).with_param("cursor"))
        })
    });
    let position = position.transpose()?;
    let from = match &position {
        Some(position) => position.from,
        None => {
            let since = query.since.as_ref().map(|(_, span)| call.now_ms - span);
            call.history_from(query.created_after.max(since))?
        }
    };
    let view = &call.caller.view;
    let Some(scopes) = scopes(core, view, query).await? else {
        return Ok(Page { theses: Vec::new(), next_cursor: None });
    };
    let stretch = Stretch {
        from,
        to: query.created_before.unwrap_or(i64::MAX),
        after: position.map(|position| (position.created_at, position.id)),
        descending: !query.ascending,
    };
    let wanted = query.limit + 1;
    let mut rows = Vec::new();
    for dataset in view.datasets() {
        for scope in &scopes {
            let slice = core.shared.theses.stretch(dataset, scope, &stretch, wanted).await?;
            rows.extend(slice.into_iter().map(|row| (row.created_at, row.id, dataset)));
        }
    }
    rows.sort_unstable_by(|a, b| if query.ascending { a.cmp(b) } else { b.cmp(a) });
    let has_more = rows.len() > query.limit;
    rows.truncate(query.limit);
    let next_cursor = rows
        .last()
        .filter(|_| has_more)
        .map(|(created_at, id, _)| signer.sign(&name, &TimePosition { created_at: *created_at, id: id.clone(), from }));
    let keys: Vec<(String, &str)> = rows.iter().map(|(_, id, dataset)| (dataset.to_string(), id.as_str())).collect();
    let theses = core.shared.theses.theses(&keys).await?;
    let found: Vec<(Dataset, Thesis)> = rows
        .iter()
        .zip(theses)
        .filter_map(|((_, _, dataset), thesis)| Some(((*dataset).clone(), thesis?)))
        .filter(|(_, thesis)| thesis.deleted_at.is_none())
        .collect();
    Ok(Page { theses: with_references(&core.shared.theses, &found).await?, next_cursor })
}

/// The index scopes that serve a query; none when it names something unknown.
async fn scopes(core: &Core, view: &View, query: &Query) -> Result<Option<Vec<IndexScope>>> {
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
    Ok(Some(match (profile, tokens, &query.chain) {
        (None, None, None) => vec![IndexScope::All],
        (Some(profile), None, None) => vec![IndexScope::Profile(profile)],
        (None, None, Some(chain)) => vec![IndexScope::Chain(chain.clone())],
        (Some(profile), None, Some(chain)) => vec![IndexScope::ProfileChain(profile, chain.clone())],
        (None, Some(tokens), _) => tokens.into_iter().map(IndexScope::Token).collect(),
        (Some(profile), Some(tokens), _) => {
            tokens.into_iter().map(|token| IndexScope::ProfileToken(profile.clone(), token)).collect()
        }
    }))
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
pub async fn with_references(store: &ThesisStore, theses: &[(Dataset, Thesis)]) -> StoreResult<Vec<v1::Thesis>> {
    let home = |dataset: &Dataset, shared: bool| if shared { Dataset::Sandbox } else { dataset.clone() }.to_string();
    let mut profiles: HashMap<&str, (String, Option<Profile>)> = HashMap::new();
    let mut tokens: HashMap<&str, (String, Option<Token>)> = HashMap::new();
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

/// The order that this version cannot serve yet.
#[must_use]
pub fn likes_not_served() -> FieldError {
    FieldError::new("sort", "likes_desc is not available yet; use created_at_desc or created_at_asc")
}
