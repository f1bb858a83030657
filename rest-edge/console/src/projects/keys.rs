//! Creates and revokes the keys of a project.

use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use serde::Deserialize;
use thesis_proto::{
    error::{ApiError, FieldError},
    names::{SCOPES, environment_name, parse_environment},
    v1,
};

use super::{ProjectAccess, find, path};
use crate::{
    Page,
    failure::{Failed, see_other},
    form::{Faults, Posted},
    page_query::typed_time,
    question::{Question, TypedName},
    view::{Layout, render},
    visit::SignedIn,
};

/// The rights that a scope gives.
fn about(scope: &str) -> &'static str {
    match scope {
        "profiles:read" => "Reads profiles.",
        "theses:read" => "Reads and verifies theses.",
        "tokens:read" => "Reads tokens and their activity.",
        "search:read" => "Searches.",
        "events:read" => "Reads the history of events.",
        "streams:read" => "Follows events as they come.",
        "webhooks:write" => "Manages webhooks.",
        "alerts:write" => "Manages alerts.",
        "wallets:read" => "Reads the wallets of profiles, where this installation offers them.",
        "archive:read" => "Downloads files of each day.",
        _ => "",
    }
}

/// A scope's box.
struct ScopeBox {
    name: &'static str,
    about: &'static str,
    is_ticked: bool,
}

/// The page on which a key is created.
#[derive(Template)]
#[template(path = "keys.html")]
struct KeysPage {
    layout: Layout,
    access: ProjectAccess,
    typed: Typed,
    scopes: Vec<ScopeBox>,
    faults: Faults,
}

/// The fields of the form of a new key, as typed.
#[derive(Deserialize)]
pub(super) struct Typed {
    #[serde(default)]
    name: String,
    #[serde(default)]
    environment: String,
    /// One for each ticked box.
    #[serde(default)]
    scopes: Vec<String>,
    #[serde(default)]
    expires_at: String,
    /// The token of a form whose work is done once.
    #[serde(default)]
    once: String,
}

impl Default for Typed {
    fn default() -> Self {
        let scopes = SCOPES.iter().filter(|(_, by_default)| *by_default).map(|(name, _)| (*name).to_owned());
        Self {
            name: String::new(),
            environment: environment_name(v1::Environment::Test).to_owned(),
            scopes: scopes.collect(),
            expires_at: String::new(),
            once: String::new(),
        }
    }
}

impl Typed {
    /// True if a live key is chosen.
    fn is_live(&self) -> bool {
        self.environment == environment_name(v1::Environment::Live)
    }

    /// The key to be made, by a form of this name.
    fn request(
        &self,
        project_id: &str,
        once: Option<String>,
    ) -> Result<v1::AccountServiceCreateKeyRequest, tonic::Status> {
        let mut faults = Vec::new();
        // Core would take no scope at all for the default ones.
        if self.scopes.is_empty() {
            faults.push(FieldError::new("scopes", "tick at least one"));
        }
        let expires_at = typed_time("expires_at", &self.expires_at).unwrap_or_else(|fault| {
            faults.push(fault);
            None
        });
        if !faults.is_empty() {
            return Err(ApiError::validation(&faults).to_status(""));
        }
        let environment = parse_environment(&self.environment).unwrap_or_default();
        Ok(v1::AccountServiceCreateKeyRequest {
            project_id: project_id.to_owned(),
            environment: environment.into(),
            name: self.name.clone(),
            scopes: self.scopes.clone(),
            expires_at,
            once,
        })
    }
}

async fn show(signed_in: &SignedIn, id: &str, typed: Typed, faults: Faults) -> Page {
    let access = find(signed_in, id).await?;
    let is_ticked = |name: &str| typed.scopes.iter().any(|ticked| ticked == name);
    let scopes = SCOPES.iter().map(|&(name, _)| ScopeBox { name, about: about(name), is_ticked: is_ticked(name) });
    let page = KeysPage {
        layout: Layout::of(signed_in, "Create a key", "organizations"),
        access,
        scopes: scopes.collect(),
        typed,
        faults,
    };
    render(page.faults.status(), &page)
}

pub(super) async fn new(signed_in: SignedIn, Path(id): Path<String>) -> Page {
    show(&signed_in, &id, Typed::default(), Faults::none()).await
}

/// The page that shows a new key's raw form, once. A reload sends its form again, which brings the same key for a while.
#[derive(Template)]
#[template(path = "key_made.html")]
struct CreatedKeyPage {
    layout: Layout,
    project_id: String,
    name: String,
    environment: &'static str,
    key: String,
    public_url: String,
}

pub(super) async fn create(signed_in: SignedIn, Path(id): Path<String>, Posted(typed): Posted<Typed>) -> Page {
    let created = match typed.request(&id, signed_in.visit.once(&typed.once)) {
        Ok(message) => signed_in.core().accounts.create_key(signed_in.request(message)).await,
        Err(status) => Err(status),
    };
    let created = match created {
        Ok(answer) => answer.into_inner(),
        Err(status) => return show(&signed_in, &id, typed, Faults::of(&status)?).await,
    };
    let row = created.api_key.unwrap_or_default();
    let page = CreatedKeyPage {
        layout: Layout::of(&signed_in, "Your new key", "organizations"),
        environment: environment_name(row.environment()),
        project_id: row.project_id,
        name: row.name,
        key: created.key,
        public_url: signed_in.visit.console.public_url.clone(),
    };
    render(StatusCode::OK, &page)
}

/// A key of a project that is not revoked yet; none otherwise.
async fn find_key(signed_in: &SignedIn, project_id: &str, id: &str) -> Result<Option<v1::ApiKey>, Failed> {
    let message = v1::AccountServiceListKeysRequest { project_id: find(signed_in, project_id).await?.project.id };
    let keys = signed_in.core().accounts.list_keys(signed_in.request(message)).await?.into_inner().data;
    Ok(keys.into_iter().find(|key| key.id == id && key.revoked_at.is_none()))
}

/// The name that must be typed: programs of the customer stop with a live key.
fn name_to_type(key: &v1::ApiKey) -> Option<&str> {
    (key.environment() == v1::Environment::Live).then_some(key.name.as_str())
}

fn revoke_question(signed_in: &SignedIn, project_id: &str, key: &v1::ApiKey, faults: Faults) -> Page {
    let environment = environment_name(key.environment());
    let question = Question {
        layout: Layout::of(signed_in, &format!("Revoke {}?", key.name), "organizations"),
        consequence: format!(
            "Requests with the {environment} key {}… are refused from now on, and its streams end. This cannot be \
             taken back.",
            key.prefix
        ),
        action: format!("{}/keys/{}/revoke", path(project_id), key.id),
        button: "Revoke key",
        name: name_to_type(key).map(str::to_owned),
        back: format!("{}#keys", path(project_id)),
        faults,
    };
    question.ask()
}

pub(super) async fn ask_to_revoke(signed_in: SignedIn, Path((project_id, id)): Path<(String, String)>) -> Page {
    match find_key(&signed_in, &project_id, &id).await? {
        Some(key) => revoke_question(&signed_in, &project_id, &key, Faults::none()),
        None => Ok(see_other(&path(&project_id))),
    }
}

pub(super) async fn revoke(
    signed_in: SignedIn,
    Path((project_id, id)): Path<(String, String)>,
    Posted(typed): Posted<TypedName>,
) -> Page {
    let key = find_key(&signed_in, &project_id, &id).await?.unwrap_or_default();
    if let Some(faults) = typed.faults(name_to_type(&key)) {
        return revoke_question(&signed_in, &project_id, &key, faults);
    }
    // A key that is revoked already stays so, and one that does not exist is core's to refuse.
    let message = v1::AccountServiceRevokeKeyRequest { id };
    signed_in.core().accounts.revoke_key(signed_in.request(message)).await?;
    Ok(see_other(&format!("{}?done=revoked", path(&project_id))))
}

#[cfg(test)]
mod tests {
    use thesis_proto::time::to_millis;

    use super::*;

    #[test]
    fn every_scope_has_a_text() {
        for (name, _) in SCOPES {
            assert!(!about(name).is_empty(), "{name}");
        }
    }

    #[test]
    fn a_form_becomes_a_request() {
        let typed = Typed {
            name: "Server".to_owned(),
            environment: "live".to_owned(),
            scopes: vec!["theses:read".to_owned(), "webhooks:write".to_owned()],
            expires_at: "2026-11-23T14:05".to_owned(),
            ..Typed::default()
        };
        let request = typed.request("prj_1", Some("form".to_owned())).unwrap();
        assert_eq!((&*request.project_id, &*request.name), ("prj_1", "Server"));
        assert_eq!(request.environment(), v1::Environment::Live);
        assert_eq!(request.scopes, ["theses:read", "webhooks:write"]);
        assert_eq!(request.once.as_deref(), Some("form"));
        assert_eq!(request.expires_at.as_ref().map(to_millis), Some(1_795_442_700_000));
    }

    #[test]
    fn every_wrong_field_is_reported() {
        let typed = Typed { scopes: Vec::new(), expires_at: "soon".to_owned(), ..Typed::default() };
        let status = typed.request("prj_1", None).unwrap_err();
        let faults: Vec<_> = ApiError::from_status(&status).field_errors().map(|fault| fault.param).collect();
        assert_eq!(faults, ["scopes", "expires_at"]);
    }
}
