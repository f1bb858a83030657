//! Creates, rolls and revokes the keys of a project.

use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use thesis_proto::{
    error::{ApiError, FieldError},
    names::{SCOPES, environment_name, parse_environment},
    time::{from_millis, to_millis},
    v1,
};

use super::{ProjectAccess, find, path};
use crate::{
    Page,
    failure::{Failed, see_other},
    form::{Faults, Posted},
    page_query::typed_time,
    question::{Question, TypedName},
    shown,
    view::{Choice, Layout, Moment, choices, moment, render},
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

/// The networks in a text, one a line or with commas.
fn networks(text: &str) -> Vec<String> {
    text.split(['\n', ',']).map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
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
    /// Networks, one a line.
    #[serde(default)]
    allowed_addresses: String,
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
            allowed_addresses: String::new(),
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
            allowed_addresses: networks(&self.allowed_addresses),
        })
    }
}

async fn show(signed_in: &SignedIn, id: &str, typed: Typed, faults: Faults) -> Page {
    let access = find(signed_in, id).await?;
    let is_ticked = |name: &str| typed.scopes.iter().any(|ticked| ticked == name);
    // Core grants no others, such as those of a feature that is off.
    let is_grantable = |name: &str| signed_in.account.grantable_scopes.iter().any(|scope| scope == name);
    let offered = SCOPES.iter().filter(|(name, _)| is_grantable(name));
    let scopes = offered.map(|&(name, _)| ScopeBox { name, about: about(name), is_ticked: is_ticked(name) });
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

/// The page that shows a new key's raw form.
#[derive(Template)]
#[template(path = "key_made.html")]
struct CreatedKeyPage {
    layout: Layout,
    project_id: String,
    name: String,
    environment: &'static str,
    key: String,
    public_url: String,
    /// The time at which the replaced key ends.
    replaced_until: Option<Moment>,
}

/// A new key, which the form passes to the page that shows it.
#[derive(Serialize, Deserialize)]
struct CreatedKey {
    name: String,
    environment: String,
    key: String,
    /// Unix milliseconds.
    replaced_until: Option<i64>,
}

fn created_path(project_id: &str) -> String {
    format!("{}/keys/created", path(project_id))
}

/// Redirects to the page that shows a new key.
fn show_created(signed_in: &SignedIn, row: v1::ApiKey, key: String, replaced_until: Option<i64>) -> Page {
    let environment = environment_name(row.environment()).to_owned();
    let created = CreatedKey { name: row.name, environment, key, replaced_until };
    shown::show(&signed_in.visit, &created_path(&row.project_id), &created)
}

/// Shows a new key for ten minutes after its creation.
pub(super) async fn created(signed_in: SignedIn, Path(id): Path<String>) -> Page {
    let access = find(&signed_in, &id).await?;
    let Some(created) = shown::read::<CreatedKey>(&signed_in.visit) else {
        return Ok(see_other(&path(&access.project.id)));
    };
    let page = CreatedKeyPage {
        layout: Layout::of(&signed_in, "Your new key", "organizations"),
        environment: environment_name(parse_environment(&created.environment).unwrap_or_default()),
        project_id: access.project.id,
        name: created.name,
        key: created.key,
        public_url: signed_in.visit.console.public_url.clone(),
        replaced_until: created.replaced_until.map(|at| moment(Some(&from_millis(at)))),
    };
    render(StatusCode::OK, &page)
}

pub(super) async fn create(signed_in: SignedIn, Path(id): Path<String>, Posted(typed): Posted<Typed>) -> Page {
    let created = match typed.request(&id, signed_in.visit.once(&typed.once)) {
        Ok(message) => signed_in.change(signed_in.core().accounts.create_key(signed_in.request(message))).await,
        Err(status) => Err(status),
    };
    let created = match created {
        Ok(answer) => answer.into_inner(),
        Err(status) => return show(&signed_in, &id, typed, Faults::of(&status)?).await,
    };
    show_created(&signed_in, created.api_key.unwrap_or_default(), created.key, None)
}

/// The choices for the overlap of a rolled key: hours and name.
const OVERLAPS: [(&str, &str); 5] = [
    ("0", "At once"),
    ("1", "After an hour"),
    ("24", "After a day"),
    ("168", "After 7 days"),
    ("720", "After 30 days"),
];
const HOUR_MS: i64 = 3_600_000;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RollForm {
    overlap: String,
    allowed_addresses: String,
    once: String,
}

/// The page on which a key is rolled.
#[derive(Template)]
#[template(path = "key_roll.html")]
struct RollPage {
    layout: Layout,
    access: ProjectAccess,
    key: v1::ApiKey,
    overlaps: Vec<Choice>,
    allowed_addresses: String,
    faults: Faults,
}

async fn roll_page(signed_in: &SignedIn, (id, key_id): (&str, &str), typed: Option<RollForm>, faults: Faults) -> Page {
    let access = find(signed_in, id).await?;
    let message = v1::AccountServiceListKeysRequest { project_id: access.project.id.clone() };
    let keys = signed_in.core().accounts.list_keys(signed_in.request(message)).await?.into_inner().data;
    let key = keys.into_iter().find(|key| key.id == key_id).ok_or_else(Failed::missing)?;
    let present = || RollForm {
        overlap: "24".to_owned(),
        allowed_addresses: key.allowed_addresses.join("\n"),
        once: String::new(),
    };
    let typed = typed.unwrap_or_else(present);
    let page = RollPage {
        layout: Layout::of(signed_in, "Roll a key", "organizations"),
        overlaps: choices(OVERLAPS, &typed.overlap),
        allowed_addresses: typed.allowed_addresses,
        access,
        key,
        faults,
    };
    render(page.faults.status(), &page)
}

pub(super) async fn show_roll(signed_in: SignedIn, Path((id, key)): Path<(String, String)>) -> Page {
    roll_page(&signed_in, (&id, &key), None, Faults::none()).await
}

pub(super) async fn roll(
    signed_in: SignedIn,
    Path((id, key)): Path<(String, String)>,
    Posted(typed): Posted<RollForm>,
) -> Page {
    let hours = typed.overlap.parse::<i64>().ok().filter(|hours| (0..=720).contains(hours)).unwrap_or_default();
    // Whole hours, so that a form that is sent again has the same end and gets the same key. If the end is in the
    // past, core ends the old key at once.
    let hour = signed_in.visit.console.clock.now_ms().div_euclid(HOUR_MS);
    let end_hour = if hours == 0 { hour } else { hour + 1 + hours };
    let message = v1::RollKeyRequest {
        id: key.clone(),
        ends_at: Some(from_millis(end_hour * HOUR_MS)),
        allowed_addresses: networks(&typed.allowed_addresses),
        once: signed_in.visit.once(&typed.once),
    };
    match signed_in.change(signed_in.core().accounts.roll_key(signed_in.request(message))).await {
        Ok(answer) => {
            let v1::RollKeyResponse { api_key, key, replaced } = answer.into_inner();
            let until = replaced.and_then(|old| old.expires_at).as_ref().map(to_millis);
            show_created(&signed_in, api_key.unwrap_or_default(), key, until)
        }
        Err(status) => roll_page(&signed_in, (&id, &key), Some(typed), Faults::of(&status)?).await,
    }
}

/// A key of a project that is not revoked yet; none otherwise.
async fn find_key(signed_in: &SignedIn, project_id: &str, id: &str) -> Result<Option<v1::ApiKey>, Failed> {
    let message = v1::AccountServiceListKeysRequest { project_id: find(signed_in, project_id).await?.project.id };
    let keys = signed_in.core().accounts.list_keys(signed_in.request(message)).await?.into_inner().data;
    Ok(keys.into_iter().find(|key| key.id == id && key.revoked_at.is_none()))
}

/// The name that the user must type to revoke a live key: it stops programs of the customer.
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
        reason: None,
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
    // A key that is already revoked needs no name, and core refuses a key that does not exist.
    let message = v1::AccountServiceRevokeKeyRequest { id };
    signed_in.change(signed_in.core().accounts.revoke_key(signed_in.request(message))).await?;
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
            allowed_addresses: "192.0.2.0/24\r\n\n 2001:db8::1,".to_owned(),
            ..Typed::default()
        };
        let request = typed.request("prj_1", Some("form".to_owned())).unwrap();
        assert_eq!((&*request.project_id, &*request.name), ("prj_1", "Server"));
        assert_eq!(request.environment(), v1::Environment::Live);
        assert_eq!(request.scopes, ["theses:read", "webhooks:write"]);
        assert_eq!(request.once.as_deref(), Some("form"));
        assert_eq!(request.allowed_addresses, ["192.0.2.0/24", "2001:db8::1"]);
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
