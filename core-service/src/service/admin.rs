//! Operators' commands, and the keys that exist after a start.

use std::{collections::HashSet, sync::Arc};

use secrecy::{ExposeSecret, SecretString};
use thesis_proto::{
    error::{ApiError, ErrorCode, FieldError},
    v1,
};

use super::{
    core::Core,
    error::{Error, Result},
    secrets::{LIVE_PREFIX, display_prefix, is_api_key},
    writer::decode,
};
use crate::{
    convert,
    domain::{
        control::{ApiKey, ControlChange, Organization, Project},
        dataset::Dataset,
        id,
        list_cursor::{TimePosition, list_name},
        operation::Feature,
        scope::Scope,
    },
    service::control::CONTROL_LOG,
    store::{Consistency, abuse::AbuseStore},
};

/// Entries read at once when a log is checked.
const PAGE: usize = 1_000;
/// Most addresses of a page.
const ABUSE_LIMIT: i32 = 1_000;
/// Plan of the bootstrap organization, unless set.
const BOOTSTRAP_PLAN: &str = "business";

/// Keys that exist after the start, on a project `default`.
#[derive(Clone, Debug, Default)]
pub struct Bootstrap {
    /// A raw test key.
    pub test_key: Option<SecretString>,
    /// A raw live key.
    pub live_key: Option<SecretString>,
    /// The organization's plan.
    pub plan: Option<String>,
}

fn invalid(param: &str, rule: &str) -> Error {
    ApiError::validation(&[FieldError::new(param, rule)]).into()
}

fn name(name: &str) -> Result<String> {
    if name.trim().is_empty() || name.chars().count() > 200 {
        return Err(invalid("name", "must have 1 to 200 characters"));
    }
    Ok(name.to_owned())
}

impl Core {
    fn known_plan(&self, plan: &str) -> Result<String> {
        if self.gate.plans().contains_key(plan) {
            Ok(plan.to_owned())
        } else {
            Err(invalid("plan", "is not a plan of this installation"))
        }
    }

    fn grantable(&self) -> impl Iterator<Item = Scope> {
        let wallets = self.gate.features().has(Feature::Wallets);
        Scope::ALL.iter().copied().filter(move |scope| *scope != Scope::WalletsRead || wallets)
    }

    /// Makes the bootstrap keys and what they belong to, once.
    ///
    /// # Errors
    /// When a key has not the form of one, a plan is unknown, or the store does not answer.
    pub(super) async fn bootstrap(&self, bootstrap: &Bootstrap) -> Result<()> {
        let plan = self.known_plan(bootstrap.plan.as_deref().unwrap_or(BOOTSTRAP_PLAN));
        let keys = bootstrap.test_key.iter().chain(&bootstrap.live_key);
        let keys: Vec<&str> = keys.map(ExposeSecret::expose_secret).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let plan = plan?;
        if keys.iter().any(|raw| !is_api_key(raw)) {
            return Err(Error::internal("a bootstrap key has not the form of an API key"));
        }
        let now = self.shared.clock.now_ms();
        let organization_id = id::derive("org_", &["default"]);
        let project_id = id::derive("prj_", &["default"]);
        let scopes: Vec<String> = self.grantable().map(|scope| scope.as_str().to_owned()).collect();
        let make = |state: &super::control::ControlState| {
            let mut changes = Vec::new();
            let organization = state.organization(&organization_id);
            let replan = bootstrap.plan.is_some() && organization.is_some_and(|organization| organization.plan != plan);
            if organization.is_none() || replan {
                changes.push(ControlChange::Organization(Organization {
                    id: organization_id.clone(),
                    name: "default".to_owned(),
                    plan: plan.clone(),
                    created_at: organization.map_or(now, |organization| organization.created_at),
                }));
            }
            if state.project(&project_id).is_none() {
                changes.push(ControlChange::Project(Project {
                    id: project_id.clone(),
                    organization_id: organization_id.clone(),
                    name: "default".to_owned(),
                    live_approved: true,
                    archived: false,
                    created_at: now,
                    live_cancelled_until: 0,
                }));
            }
            for raw in &keys {
                let hash = self.shared.keys.key_hash(raw).to_vec();
                if state.key_by_hash(&hash).is_none() {
                    changes.push(ControlChange::ApiKey(ApiKey {
                        id: id::derive("key_", &[&hex::encode(&hash)]),
                        project_id: project_id.clone(),
                        live: raw.starts_with(LIVE_PREFIX),
                        name: "bootstrap".to_owned(),
                        prefix: display_prefix(raw),
                        hash,
                        scopes: scopes.clone(),
                        created_at: now,
                        expires_at: None,
                        revoked_at: None,
                    }));
                }
            }
            Ok((changes, ()))
        };
        self.shared.control.change(make).await
    }

    /// Creates an organization.
    ///
    /// # Errors
    /// 422, or when the store does not answer.
    pub async fn create_organization(&self, given: &str, plan: Option<&str>) -> Result<Organization> {
        let organization = Organization {
            id: id::random("org_", self.shared.ids.as_ref()),
            name: name(given)?,
            plan: self.known_plan(plan.unwrap_or("free"))?,
            created_at: self.shared.clock.now_ms(),
        };
        let make = |_: &_| Ok((vec![ControlChange::Organization(organization.clone())], organization.clone()));
        self.shared.control.change(make).await
    }

    /// Puts an organization on another plan.
    ///
    /// # Errors
    /// 422, `ORGANIZATION_NOT_FOUND`, or when the store does not answer.
    pub async fn set_organization_plan(&self, id: &str, plan: &str) -> Result<Organization> {
        let plan = self.known_plan(plan)?;
        let change = |state: &super::control::ControlState| {
            let mut organization = Organization::clone(state.organization(id).ok_or_else(no_organization)?);
            organization.plan.clone_from(&plan);
            Ok((vec![ControlChange::Organization(organization.clone())], organization))
        };
        self.shared.control.change(change).await
    }

    /// Creates a project, not approved for live access.
    ///
    /// # Errors
    /// 422, `ORGANIZATION_NOT_FOUND`, or when the store does not answer.
    pub async fn create_project(&self, organization_id: &str, given: &str) -> Result<Project> {
        let project = Project {
            id: id::random("prj_", self.shared.ids.as_ref()),
            organization_id: organization_id.to_owned(),
            name: name(given)?,
            live_approved: false,
            archived: false,
            created_at: self.shared.clock.now_ms(),
            live_cancelled_until: 0,
        };
        let make = |state: &super::control::ControlState| {
            state.organization(organization_id).ok_or_else(no_organization)?;
            Ok((vec![ControlChange::Project(project.clone())], project.clone()))
        };
        self.shared.control.change(make).await
    }

    /// Changes a project.
    ///
    /// # Errors
    /// `PROJECT_NOT_FOUND`, or when the store does not answer.
    pub async fn change_project(&self, id: &str, change: impl Fn(&mut Project)) -> Result<Project> {
        let change = |state: &super::control::ControlState| {
            let mut project = Project::clone(state.project(id).ok_or_else(no_project)?);
            change(&mut project);
            Ok((vec![ControlChange::Project(project.clone())], project))
        };
        self.shared.control.change(change).await
    }

    /// Lets a project's live keys work. After a withdrawal only events from now on reach its live webhooks.
    ///
    /// # Errors
    /// `PROJECT_NOT_FOUND`, or when the store does not answer.
    pub async fn approve_project(&self, id: &str) -> Result<Project> {
        let live = Dataset::Live.to_string();
        let head = self.shared.log.head(&live, 0, Consistency::Serial).await?;
        // No event of the log was created later.
        let newest =
            self.shared.log.get(&live, head).await?.map(decode).transpose()?.map_or(0, |entry| entry.created_at);
        let approve = |project: &mut Project| {
            if !project.live_approved && project.live_cancelled_until > 0 {
                project.live_cancelled_until = project.live_cancelled_until.max(newest);
            }
            project.live_approved = true;
        };
        self.change_project(id, approve).await
    }

    /// Withdraws live access, which cancels every live delivery that waits.
    ///
    /// # Errors
    /// `PROJECT_NOT_FOUND`, or when the store does not answer.
    pub async fn withdraw_project(&self, id: &str) -> Result<Project> {
        let now = self.shared.clock.now_ms();
        let withdraw = |project: &mut Project| {
            project.live_approved = false;
            project.live_cancelled_until = project.live_cancelled_until.max(now);
        };
        self.change_project(id, withdraw).await
    }

    /// Lists addresses that failed to authenticate too often, those that did last first.
    ///
    /// # Errors
    /// 422, `INVALID_CURSOR`, or when the store does not answer.
    pub async fn list_abuse(&self, limit: Option<i32>, cursor: Option<&str>) -> Result<v1::ListAbuseResponse> {
        let limit = usize::try_from(limit.unwrap_or(ABUSE_LIMIT)).unwrap_or_default();
        if limit == 0 || limit > usize::try_from(ABUSE_LIMIT).unwrap_or_default() {
            return Err(invalid("limit", &format!("must be from 1 to {ABUSE_LIMIT}")));
        }
        let (signer, name) = (self.shared.keys.cursor_signer(), list_name(&["abuse"]));
        let after = match cursor {
            Some(cursor) => Some(signer.read::<TimePosition>(&name, cursor).ok_or_else(Error::invalid_cursor)?),
            None => None,
        };
        let after = after.map(|position| (position.created_at, position.id));
        let mut rows = AbuseStore::new(Arc::clone(&self.shared.backend))
            .list(after.as_ref(), self.shared.clock.now_ms(), limit + 1)
            .await?;
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        let next_cursor = rows.last().filter(|_| has_more).map(|last| {
            let position =
                TimePosition { created_at: last.last_at, id: last.address.clone(), ..TimePosition::default() };
            signer.sign(&name, &position)
        });
        let data = rows.iter().map(convert::control::abusive_address).collect();
        Ok(v1::ListAbuseResponse { data, next_cursor, has_more })
    }

    /// Creates a key; answers it with its raw form, which is nowhere else.
    ///
    /// # Errors
    /// 422, `PROJECT_NOT_FOUND`, or when the store does not answer.
    pub async fn create_key(
        &self,
        project_id: &str,
        live: bool,
        given: &str,
        scopes: &[String],
        expires_at: Option<i64>,
    ) -> Result<(ApiKey, String)> {
        let scopes: Vec<String> = if scopes.is_empty() {
            Scope::ALL.iter().filter(|scope| scope.by_default()).map(|scope| scope.as_str().to_owned()).collect()
        } else {
            let grantable = |text: &String| self.grantable().any(|scope| scope.as_str() == text);
            if let Some(wrong) = scopes.iter().find(|text| !grantable(text)) {
                return Err(invalid("scopes", &format!("{wrong} is not a scope that may be granted")));
            }
            let mut seen = HashSet::new();
            scopes.iter().filter(|scope| seen.insert(*scope)).cloned().collect()
        };
        let raw = self.shared.keys.new_api_key(live);
        let key = ApiKey {
            id: id::random("key_", self.shared.ids.as_ref()),
            project_id: project_id.to_owned(),
            live,
            name: name(given)?,
            prefix: display_prefix(&raw),
            hash: self.shared.keys.key_hash(&raw).to_vec(),
            scopes,
            created_at: self.shared.clock.now_ms(),
            expires_at,
            revoked_at: None,
        };
        let make = |state: &super::control::ControlState| {
            state.project(project_id).ok_or_else(no_project)?;
            Ok((vec![ControlChange::ApiKey(key.clone())], key.clone()))
        };
        Ok((self.shared.control.change(make).await?, raw))
    }

    /// Revokes a key, at once and everywhere; repeating it changes nothing.
    ///
    /// # Errors
    /// `KEY_NOT_FOUND`, or when the store does not answer.
    pub async fn revoke_key(&self, id: &str) -> Result<Arc<ApiKey>> {
        let now = self.shared.clock.now_ms();
        let revoke = |state: &super::control::ControlState| {
            let key = state.key(id).ok_or_else(|| Error::new(ErrorCode::KeyNotFound, "there is no such key"))?;
            if key.revoked_at.is_some() {
                return Ok((Vec::new(), Arc::clone(key)));
            }
            let mut revoked = ApiKey::clone(key);
            revoked.revoked_at = Some(now);
            Ok((vec![ControlChange::ApiKey(revoked.clone())], Arc::new(revoked)))
        };
        self.shared.control.change(revoke).await
    }

    /// Reads a whole log and counts what must not be there.
    ///
    /// # Errors
    /// 422 for an unknown dataset, or when the store does not answer.
    pub async fn check_log(&self, dataset: &str) -> Result<v1::CheckLogResponse> {
        if dataset != CONTROL_LOG && Dataset::parse(dataset).is_none() {
            return Err(invalid("dataset", "must be live, sandbox, project/<id> or control"));
        }
        let log = &self.shared.log;
        let head = log.head(dataset, 0, Consistency::Serial).await?;
        let mut answer = v1::CheckLogResponse { head, ..v1::CheckLogResponse::default() };
        let mut ids = HashSet::new();
        let mut next = 1;
        while next <= head {
            let rows = log.read(dataset, next - 1, head, PAGE).await?;
            if rows.is_empty() {
                answer.gaps += 1;
                next += 1;
            }
            for (seq, body) in rows {
                answer.entries += 1;
                next = seq + 1;
                if dataset != CONTROL_LOG && !ids.insert(decode(body)?.id) {
                    answer.duplicates += 1;
                }
            }
        }
        Ok(answer)
    }
}

fn no_organization() -> Error {
    Error::new(ErrorCode::OrganizationNotFound, "there is no such organization")
}

fn no_project() -> Error {
    Error::new(ErrorCode::ProjectNotFound, "there is no such project")
}
