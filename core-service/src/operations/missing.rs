//! Errors for things that do not exist or that the caller may not see. Each one suggests where to find the thing: a
//! near name, the operation for its kind, or a list.

use std::{sync::Arc, time::Duration};

use futures::future::try_join_all;
use serde_json::json;
use thesis_proto::{
    error::{ApiError, ErrorCode},
    near,
};
use tokio::time::{Instant, timeout_at};

use super::resolve;
use crate::{
    access::gate::Call,
    domain::{
        dataset::{Dataset, View},
        id_kind,
        reference::{ProfileReference, TokenReference},
    },
    error::{Error, Result},
    search::{
        NearMatches, SearchIndex,
        run::{wait_until_complete, with_index},
    },
    service::Core,
    tables::theses::RowReader,
};

/// Near names in one error.
const MAX_SUGGESTIONS: usize = 3;
/// Rows that one search compares with a name.
const MAX_COMPARED: usize = 24;
/// Timeout of a search for near names: an error without suggestions is better than a late one.
const NEAR_SEARCH_TIMEOUT: Duration = Duration::from_millis(100);
/// Concurrent searches for near names. They are costly, and a caller needs no suggestions.
pub const MAX_NEAR_SEARCHES: usize = 2;

/// Returns the error for a code. If the prefix of the id belongs to another kind, the error says so, also when no such
/// thing exists.
pub(super) fn missing(code: ErrorCode, given: &str) -> Error {
    if let Some(mistaken) = id_kind::mistaken(code, given) {
        return mistaken.into();
    }
    let text = match code {
        ErrorCode::ThesisNotFound => "there is no such thesis; list those that you see with GET /v1/theses",
        ErrorCode::ProfileNotFound => "there is no such profile; look for it with GET /v1/search?q=…&types=profiles",
        ErrorCode::TokenNotFound => "there is no such token; look for it with GET /v1/search?q=…&types=tokens",
        ErrorCode::EventNotFound => "there is no such event; list those that you see with GET /v1/events",
        ErrorCode::WebhookNotFound => "there is no such webhook; list yours with GET /v1/webhooks",
        ErrorCode::AlertNotFound => "there is no such alert; list yours with GET /v1/alerts",
        ErrorCode::DeliveryNotFound => {
            "there is no such delivery; list a webhook's with GET /v1/webhooks/{id}/deliveries"
        }
        _ => "there is no such thing; list those that you see",
    };
    Error::new(code, text)
}

/// Returns the error for a profile, with the near handles that the caller may see.
pub(super) async fn missing_profile(core: &Core, call: &Call, reference: &ProfileReference) -> Error {
    let code = ErrorCode::ProfileNotFound;
    let [id, upstream_id, handle] = reference.readings();
    let Some(text) = handle else { return missing(code, id.or(upstream_id).unwrap_or_default()) };
    let handle = text.strip_prefix('@').unwrap_or(text);
    let found = find_near(core, call, handle, SearchIndex::near_profiles).await;
    let rows = match reader_of(core, call, &found).await {
        Some(reader) => reader.profiles(&keys(&found)).await.unwrap_or_default(),
        None => Vec::new(),
    };
    let handles = rows.iter().flatten().map(|profile| profile.handle.clone());
    let near = nearest(handle, '@', handles.collect());
    if near.is_empty() { missing(code, text) } else { with_near(code, &format!("profile @{handle}"), &near) }
}

/// Returns the error for a token, with the near symbols that the caller may see, or with the chains that have the
/// token.
pub(super) async fn missing_token(core: &Core, call: &Call, reference: &TokenReference) -> Error {
    let code = ErrorCode::TokenNotFound;
    let text = reference.text.as_str();
    if reference.readings.as_ref().is_none_or(|readings| readings.id.is_some()) {
        return missing(code, text);
    }
    if let Some(chain) = &reference.chain {
        let near = on_other_chains(core, call, reference).await.unwrap_or_default();
        if !near.is_empty() && chain.len() <= 64 && text.len() <= 200 {
            return with_near(code, &format!("token {text} on chain {chain}"), &near);
        }
    }
    if reference.chain_and_address().is_some() {
        return missing(code, text);
    }
    let symbol = text.strip_prefix('$').unwrap_or(text);
    let found = find_near(core, call, symbol, SearchIndex::near_tokens).await;
    let rows = match reader_of(core, call, &found).await {
        Some(reader) => reader.tokens(&keys(&found)).await.unwrap_or_default(),
        None => Vec::new(),
    };
    let tokens = rows.iter().flatten().filter(|token| reference.allows(&token.chain));
    let near = nearest(symbol, '$', tokens.map(|token| token.symbol.clone()).collect());
    if near.is_empty() { missing(code, text) } else { with_near(code, &format!("token ${symbol}"), &near) }
}

/// Finds the tokens that a reference names on any chain, as `chain:address`.
async fn on_other_chains(core: &Core, call: &Call, reference: &TokenReference) -> Result<Vec<String>> {
    let view = &call.caller.view;
    let anywhere = TokenReference { chain: None, ..reference.clone() };
    let reader = core.shared.theses.reader(view).await?;
    let mut ids = resolve::token_ids(&reader, view, &anywhere).await?;
    ids.truncate(MAX_SUGGESTIONS);
    let rows = try_join_all(ids.iter().map(|id| reader.token(view, id))).await?;
    Ok(rows.into_iter().flatten().map(|(_, token)| format!("{}:{}", token.chain, token.address)).collect())
}

/// Finds rows with a similar name. Finds none if the index does not answer in time, or if too many searches run.
async fn find_near(
    core: &Core,
    call: &Call,
    name: &str,
    near: fn(&SearchIndex, &View, &str, usize, Instant) -> NearMatches,
) -> Vec<(Dataset, String)> {
    let (view, name) = (call.caller.view.clone(), name.to_owned());
    let until = Instant::now() + NEAR_SEARCH_TIMEOUT;
    let searching = async {
        wait_until_complete(&core.search, &call.caller.view).await;
        let Ok(permit) = Arc::clone(&core.near_searches).try_acquire_owned() else { return Ok(Vec::new()) };
        let search = move |index: &SearchIndex| {
            let found = near(index, &view, &name, MAX_COMPARED, until);
            // A search keeps its permit until it ends, also after its caller has given up.
            drop(permit);
            found
        };
        with_index(&core.search, search).await
    };
    timeout_at(until, searching).await.ok().and_then(Result::ok).unwrap_or_default()
}

/// Creates a reader of found rows. None if nothing is found, or if the store fails: the error then has no suggestions.
async fn reader_of<'a>(core: &'a Core, call: &Call, found: &[(Dataset, String)]) -> Option<RowReader<'a>> {
    if found.is_empty() {
        return None;
    }
    core.shared.theses.reader(&call.caller.view).await.ok()
}

fn keys(found: &[(Dataset, String)]) -> Vec<(&str, &str)> {
    found.iter().map(|(dataset, id)| (dataset.name(), id.as_str())).collect()
}

/// Returns the names that are nearest to a given one. The given name has no sigil.
fn nearest(given: &str, sigil: char, names: Vec<String>) -> Vec<String> {
    let rank = |name: &str| near::rank(given, name.strip_prefix(sigil).unwrap_or(name));
    let mut ranked: Vec<_> = names.into_iter().filter_map(|name| Some((rank(&name)?, name))).collect();
    ranked.sort_unstable();
    ranked.dedup();
    ranked.into_iter().take(MAX_SUGGESTIONS).map(|(_, name)| name).collect()
}

fn with_near(code: ErrorCode, what: &str, near: &[String]) -> Error {
    let text = format!("there is no {what}; did you mean {}?", near::one_of(near));
    ApiError::new(code, text).with_details(json!({ "near": near })).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id_kind::IdKind;

    fn text(code: ErrorCode, given: &str) -> String {
        let error = missing(code, given).api;
        assert_eq!((error.code, &error.param, &error.details), (code, &None, &None));
        error.message
    }

    #[test]
    fn an_id_of_another_kind_is_named() {
        let id = "0123456789abcdefghjkmnpq";
        let message = text(ErrorCode::ProfileNotFound, &format!("th_{id}"));
        assert_eq!(message, "th_… is the id of a thesis; read it with GET /v1/theses/{id}");
        for IdKind { prefix, code, .. } in &id_kind::KINDS {
            assert!(text(*code, &format!("{prefix}{id}")).starts_with("there is no such "), "{prefix}");
            assert_eq!(text(*code, "x"), text(*code, &format!("{prefix}{id}")));
        }
        let delivery = format!("del_{id}_{id}");
        assert!(text(ErrorCode::WebhookNotFound, &delivery).contains("a delivery"));
        // A handle may start like an id.
        assert!(text(ErrorCode::ProfileNotFound, "th_alice").starts_with("there is no such profile"));
    }

    #[test]
    fn each_near_name_is_suggested_once() {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let known = names(&["$RUNNER", "$RUM", "$RUN", "$RUN", "$RUT", "$SEEK"]);
        assert_eq!(nearest("ruk", '$', known.clone()), ["$RUM", "$RUN", "$RUT"]);
        assert_eq!(nearest("runn", '$', known), ["$RUN", "$RUNNER"]);
        let error = with_near(ErrorCode::TokenNotFound, "token $RUK", &names(&["$RUM", "$RUN"])).api;
        assert_eq!(error.message, "there is no token $RUK; did you mean $RUM or $RUN?");
        assert_eq!(error.details.as_deref(), Some(&json!({"near": ["$RUM", "$RUN"]})));
    }
}
