//! The checks before every operation, in their order: key, archived project, live approval, feature flag, scope,
//! test key, rate; then, once the request is known to be well formed, the month's quota.

mod call;
mod failures;
mod member;
mod refused_call;
#[cfg(test)]
mod tests;

use std::{net::IpAddr, sync::Arc};

use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;
use thesis_net::{
    clock::{SharedClock, SharedIdSource},
    failure_log::FailureLog,
    services::{MemberSession, RequestLine},
    trace::Trace,
};
use thesis_proto::error::{ApiError, ErrorCode};

use super::limits::Limits;
use crate::{
    control::{Control, ControlState},
    domain::{
        allowed_addresses,
        control::{ApiKey, Organization, Project},
        dataset::View,
        id,
        member_key::MemberKey,
        operation::{Features, Operation},
        plan::{Plan, Plans, plan_named},
        scope::Scope,
        window::MINUTE_MS,
    },
    error::{Error, Result},
    keys::key_ring::{KeyRing, is_api_key},
    metrics::LIMITS,
    replicas::stream_slots::LIVE_VIEWS,
};

pub use self::{call::Call, member::Member, refused_call::RefusedCall};

/// The metadata of a request.
#[derive(Clone, Debug, Default)]
pub struct RequestMeta {
    /// The `authorization` metadata.
    pub authorization: Option<SecretString>,
    /// The caller of an open stream, a ticket or a session, in place of `authorization`: the id of the key, or the text
    /// of the [`MemberKey`].
    pub key_id: Option<String>,
    /// The session of a person as the caller, until the core has read it.
    pub member: Option<MemberSession>,
    /// The network of the caller's address. A value from the edge counts only with the service credential.
    pub client: Option<String>,
    /// The caller's address itself.
    pub client_address: Option<IpAddr>,
    /// The request's id.
    pub request_id: String,
    /// The request's span in its trace.
    pub trace: Trace,
    /// True if another process began the trace.
    pub continues: bool,
    /// The idempotency key.
    pub idempotency_key: Option<String>,
    /// True if the edge could read only a part of the request. The edge then reports the faults.
    pub malformed: bool,
    /// True if the edge takes the rows of a list as JSON.
    pub renders: bool,
    /// The HTTP request; none for a call over gRPC.
    pub line: Option<RequestLine>,
}

impl RequestMeta {
    /// The `authorization` metadata in plain text.
    pub fn authorization(&self) -> Option<&str> {
        self.authorization.as_ref().map(SecretString::expose_secret)
    }
}

/// The caller, with the data that decides its rights and its view.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The key. A person has one only for the call.
    pub key: Arc<ApiKey>,
    /// The member, if the caller is a person.
    pub member: Option<Member>,
    pub project: Arc<Project>,
    pub organization: Arc<Organization>,
    pub plan: Plan,
    /// The rows that the key sees.
    pub view: View,
}

impl Caller {
    /// Project and environment as one word, for rows of both.
    pub fn scope(&self) -> String {
        format!("{}/{}", self.project.id, if self.key.live { "live" } else { "test" })
    }

    /// The name by which a later call finds the caller again: the key's id, or the text of a person's [`MemberKey`].
    pub fn key_id(&self) -> String {
        self.member.as_ref().map_or_else(|| self.key.id.clone(), |member| member.key.to_string())
    }

    /// The name of the caller's rate window: the project's, or a person's own window in the project. So people can use
    /// the console of a project whose keys have used up their rate.
    fn rate_name(&self) -> Arc<str> {
        let project = &self.project.id;
        self.member
            .as_ref()
            .map_or_else(|| project.as_str().into(), |member| format!("{project}/{}", member.key.user_id).into())
    }

    /// The name under which the caller's streams are counted: the project, or the live views of its members. So open
    /// pages of the console do not use up the streams of the project's keys.
    pub fn stream_name(&self) -> String {
        let suffix = if self.member.is_some() { LIVE_VIEWS } else { "" };
        format!("{}{suffix}", self.project.id)
    }

    fn holds(&self, scope: Scope) -> bool {
        self.key.scopes.iter().any(|held| held == scope.as_str())
    }
}

/// Admits or refuses calls.
pub struct Gate {
    control: Arc<Control>,
    keys: KeyRing,
    plans: Plans,
    features: Features,
    service_token: SecretString,
    clock: SharedClock,
    ids: SharedIdSource,
    /// Limits how often the log reports wrong service tokens.
    wrong_tokens: Mutex<FailureLog>,
    /// The counts of calls and failures.
    pub limits: Limits,
}

pub struct GateSettings {
    pub plans: Plans,
    pub features: Features,
    /// The credential of edge, worker and admin.
    pub service_token: SecretString,
}

impl Gate {
    /// Creates a gate over the control state.
    pub fn new(
        control: Arc<Control>,
        keys: KeyRing,
        limits: Limits,
        settings: GateSettings,
        clock: SharedClock,
        ids: SharedIdSource,
    ) -> Arc<Self> {
        Arc::new(Self {
            control,
            keys,
            plans: settings.plans,
            features: settings.features,
            service_token: settings.service_token,
            clock,
            ids,
            wrong_tokens: Mutex::default(),
            limits,
        })
    }

    /// True if a request carries the service credential.
    pub fn is_service(&self, token: Option<&str>) -> bool {
        token.is_some_and(|token| token.as_bytes().ct_eq(self.service_token.expose_secret().as_bytes()).into())
    }

    /// Plans by name.
    pub fn plans(&self) -> &Plans {
        &self.plans
    }

    /// The plan of an organization.
    pub fn plan(&self, name: &str) -> Option<Plan> {
        plan_named(&self.plans, name)
    }

    /// The features.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// Creates a request id.
    pub fn new_request_id(&self) -> String {
        id::random("req_", self.ids.as_ref())
    }

    /// The number of streams that a project may have open.
    pub fn stream_limit(&self, project: &str) -> Option<u32> {
        let state = self.control.state();
        let organization = state.organization(&state.project(project)?.organization_id)?;
        Some(self.plan(&organization.plan)?.concurrent_streams)
    }

    /// Reads rights that another replica may have granted, before this one denies them.
    pub async fn refresh_for_unknown_key(&self, meta: &RequestMeta) {
        let names_key = meta.key_id.as_ref().is_some_and(|id| !id.is_empty())
            || meta.authorization().and_then(bearer).is_some_and(is_api_key);
        if !self.control.is_shared() || !names_key {
            return;
        }
        let denied = self.authenticate(meta, self.clock.now_ms()).err().map(|error| error.api.code);
        let granted_elsewhere =
            [ErrorCode::InvalidApiKey, ErrorCode::LiveAccessNotApproved, ErrorCode::ProjectNotFound];
        if denied.is_some_and(|code| granted_elsewhere.contains(&code)) {
            self.control.try_refresh().await;
        }
    }

    /// Finds the caller by the request's key, and checks the key, its project and the live approval.
    pub fn authenticate(&self, meta: &RequestMeta, now_ms: i64) -> Result<Caller> {
        if let Some(id) = &meta.key_id {
            return self.caller_by_id(id, now_ms);
        }
        let missing = || Error::new(ErrorCode::MissingApiKey, "send the API key as `Authorization: Bearer <API_KEY>`");
        let raw = meta.authorization().and_then(bearer).ok_or_else(missing)?;
        let hash = is_api_key(raw).then(|| self.keys.key_hash(raw));
        let state = self.control.state();
        let key = hash.and_then(|hash| state.key_by_hash(&hash)).ok_or_else(no_key)?;
        let caller = self.caller(&state, Arc::clone(key), None, now_ms)?;
        // Only where the key itself is sent: a ticket is for a browser, which has another address.
        if !caller.key.allowed_addresses.is_empty() {
            demand_allowed_address(&caller.key, meta.client_address)?;
        }
        Ok(caller)
    }

    /// The caller of an open stream, a ticket or a session.
    fn caller_by_id(&self, id: &str, now_ms: i64) -> Result<Caller> {
        let state = self.control.state();
        match MemberKey::parse(id) {
            Some(key) => {
                let member = Member::find(&state, key)?;
                self.caller(&state, Arc::new(member.api_key()), Some(member), now_ms)
            }
            None => self.caller(&state, Arc::clone(state.key(id).ok_or_else(no_key)?), None, now_ms),
        }
    }

    /// The caller with a key, if the key may be used now.
    fn caller(&self, state: &ControlState, key: Arc<ApiKey>, member: Option<Member>, now_ms: i64) -> Result<Caller> {
        if key.revoked_at.is_some() {
            return Err(Error::new(
                ErrorCode::ApiKeyRevoked,
                "this API key was revoked; use another one, or create one in the console",
            ));
        }
        if key.expires_at.is_some_and(|at| at <= now_ms) {
            return Err(Error::new(
                ErrorCode::ApiKeyExpired,
                "this API key has expired; use another one, or create one in the console",
            ));
        }
        let project = Arc::clone(state.project(&key.project_id).ok_or_else(no_key)?);
        let organization = Arc::clone(state.organization(&project.organization_id).ok_or_else(no_key)?);
        if project.archived {
            return Err(Error::new(
                ErrorCode::ProjectArchived,
                "this project is archived; use a key of another project",
            ));
        }
        if key.live && !project.live_approved {
            return Err(Error::new(
                ErrorCode::LiveAccessNotApproved,
                "this project is not approved for live access; ask for it in the console, or use a test key",
            ));
        }
        let plan = self.plan(&organization.plan).ok_or_else(|| Error::internal("there are no plans"))?;
        let view = if key.live { View::live() } else { View::test(&project.id) };
        Ok(Caller { key, member, project, organization, plan, view })
    }

    /// The key of a request, even if it may not be used; none if the request has no existing key.
    pub fn key_of(&self, meta: &RequestMeta) -> Option<Arc<ApiKey>> {
        let state = self.control.state();
        let key = match &meta.key_id {
            Some(id) => state.key(id),
            None => {
                let raw = meta.authorization().and_then(bearer).filter(|raw| is_api_key(raw))?;
                state.key_by_hash(&self.keys.key_hash(raw))
            }
        };
        key.cloned()
    }

    /// True if the caller with this [`Caller::key_id`] still has the rights with which it was admitted. Open streams
    /// are checked again.
    pub fn still_admits(&self, key_id: &str, operation: Operation) -> bool {
        let caller = self.caller_by_id(key_id, self.clock.now_ms());
        caller.and_then(|caller| self.permit(&caller, operation)).is_ok()
    }

    fn permit(&self, caller: &Caller, operation: Operation) -> Result<()> {
        if let Some(feature) = operation.feature()
            && !self.features.has(feature)
        {
            return Err(Error::new(ErrorCode::FeatureDisabled, feature.why_off()));
        }
        if let Some(scope) = operation.scope()
            && !caller.holds(scope)
        {
            let message = format!("this key lacks the scope {}; create a key that has it", scope.as_str());
            return Err(Error::new(ErrorCode::InsufficientScope, message));
        }
        if operation.test_only() && caller.key.live {
            return Err(Error::new(
                ErrorCode::TestKeyRequired,
                "this operation takes test keys only; send a key that begins with svc_test_",
            ));
        }
        caller.member.as_ref().map_or(Ok(()), |member| member.permit(operation))
    }

    /// Runs every check up to the rate. A refusal has the rate too, once the key is accepted.
    pub fn admit(self: &Arc<Self>, meta: RequestMeta, operation: Operation) -> std::result::Result<Call, RefusedCall> {
        if !self.control.is_current() {
            return Err(RefusedCall { error: Error::outdated(), rate: None, key: self.key_of(&meta) });
        }
        let now_ms = self.clock.now_ms();
        let caller = self.authenticate(&meta, now_ms).map_err(|error| {
            let client = meta.client.as_deref().filter(|_| error.api.code.http_status() == 401);
            let too_many = client.and_then(|client| self.count_failure(client, "key", now_ms).err());
            RefusedCall { error: too_many.map_or(error, Error::from), rate: None, key: self.key_of(&meta) }
        })?;
        let class = operation.class();
        let rate_name = caller.rate_name();
        let (live, limit) = (caller.key.live, caller.plan.per_minute(class));
        if let Err(error) = self.permit(&caller, operation) {
            let rate = self.limits.rates.peek(&rate_name, live, class, limit, now_ms);
            return Err(RefusedCall { error, rate: Some(rate), key: Some(caller.key) });
        }
        let rate = self.limits.rates.take(&rate_name, live, class, limit, now_ms);
        if !rate.allowed {
            LIMITS.at(class.as_str()).increment(1);
            let message =
                format!("more than {limit} requests of class {} in this minute; wait for the next", class.as_str());
            let error = ApiError::new(ErrorCode::RateLimited, message).with_retry_after(seconds_left(now_ms));
            return Err(RefusedCall { error: error.into(), rate: Some(rate), key: Some(caller.key) });
        }
        Ok(Call {
            caller,
            operation,
            rate,
            meta,
            now_ms,
            replayed: Mutex::new(false),
            rendered: Mutex::new(None),
            gate: Arc::clone(self),
        })
    }
}

fn no_key() -> Error {
    Error::new(ErrorCode::InvalidApiKey, "this API key does not exist; send one that was created in the console, whole")
}

fn demand_allowed_address(key: &ApiKey, address: Option<IpAddr>) -> Result<()> {
    if allowed_addresses::contains(&key.allowed_addresses, address) {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::AddressNotAllowed,
        "this API key may not be sent from your address; send it from one of its networks, or roll it in the console",
    ))
}

fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, raw) = authorization.split_once(' ')?;
    let raw = raw.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !raw.is_empty()).then_some(raw)
}

fn seconds_left(now_ms: i64) -> u32 {
    u32::try_from((MINUTE_MS - now_ms.rem_euclid(MINUTE_MS) + 999) / 1_000).unwrap_or(60)
}
