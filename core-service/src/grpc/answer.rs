//! The steps of every call: metadata in, the gate, the operation, rate headers and errors out.

#[cfg(test)]
mod tests;

use std::{future::Future, sync::Arc};

use secrecy::ExposeSecret as _;
use thesis_net::{
    services::{MemberSession, RequestLine, Trusted},
    trace::{self, Trace},
};
use thesis_proto::{
    error::{ApiError, ErrorCode},
    metadata::{
        AUTHORIZATION, CLIENT_ADDRESS, ENVIRONMENT, IDEMPOTENCY_KEY, IDEMPOTENT_REPLAYED, IETF_LIMIT, IETF_POLICY,
        LIVE, MALFORMED, PROJECT, RATE_LIMIT, RATE_REMAINING, RATE_RESET, RENDERED, REQUEST_ID, REQUEST_LINE,
        SERVICE_TOKEN, SESSION,
    },
};
use tonic::{
    Request, Response, Status,
    metadata::{MetadataMap, MetadataValue},
};

use super::traced::Traced;
use crate::{
    access::{
        gate::{Call, RefusedCall, RequestMeta},
        limits::Rate,
        request_log::NotedRequest,
    },
    accounts::sessions,
    domain::{abuse::network_of, control::ApiKey, member_key::MemberKey, operation::Operation},
    error::{Error, Result as Outcome},
    service::Core,
};

const WINDOW_SECONDS: i64 = 60;

fn text(metadata: &MetadataMap, name: &str) -> Option<String> {
    metadata.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// Reads the idempotency key unchanged: an invalid key must not count as none. A character that no key may have joins
/// several keys.
fn idempotency_key(metadata: &MetadataMap) -> Option<String> {
    let values = metadata.get_all(IDEMPOTENCY_KEY).iter();
    let values: Vec<_> = values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
    (!values.is_empty()).then(|| values.join("\n"))
}

/// Facts of the edge about a request over a socket. Only the service credential makes them trusted.
fn vouched_for<T>(core: &Core, request: &Request<T>) -> Trusted {
    let metadata = request.metadata();
    let peer = request.remote_addr().map(|address| address.ip());
    let member = || {
        let project_id = text(metadata, PROJECT)?;
        let live = metadata.get(ENVIRONMENT).is_some_and(|environment| environment == LIVE);
        Some(MemberSession { token: session(request).unwrap_or_default().into(), project_id, live })
    };
    if !core.gate.is_service(text(metadata, SERVICE_TOKEN).as_deref()) {
        return Trusted { client_address: peer, ..Trusted::default() };
    }
    let given = text(metadata, CLIENT_ADDRESS);
    Trusted {
        client_address: given.map_or(peer, |address| address.parse().ok()),
        request_id: metadata.as_ref().get(REQUEST_ID).cloned(),
        trace: Trace::of(metadata.as_ref()),
        malformed: metadata.contains_key(MALFORMED),
        member: member(),
        renders: false,
        line: text(metadata, REQUEST_LINE).and_then(|line| RequestLine::parse(&line)),
    }
}

/// The trusted facts about a request: from an edge in this process, or over a socket with the service credential.
pub(super) fn trusted<T>(core: &Core, request: &Request<T>) -> Trusted {
    request.extensions().get::<Trusted>().cloned().unwrap_or_else(|| vouched_for(core, request))
}

/// Returns the client's address, which counts for failures.
pub(super) fn address<T>(core: &Core, request: &Request<T>) -> Option<String> {
    trusted(core, request).client_address.map(|address| address.to_canonical().to_string())
}

/// Reads the secret of a person's session, if the request has one. An unreadable one is empty.
pub(super) fn session<T>(request: &Request<T>) -> Option<String> {
    request.metadata().get(SESSION).map(|value| value.to_str().unwrap_or_default().to_owned())
}

/// Reads the metadata of a request. Only a trusted caller may send the facts of the edge.
pub(super) fn meta<T>(core: &Core, request: &Request<T>) -> RequestMeta {
    let metadata = request.metadata();
    let trusted = trusted(core, request);
    let request_id = trusted.request_id.and_then(|id| id.to_str().ok().map(str::to_owned));
    // An edge has already decided which traces are sampled. Requests of other callers for sampling count only up to the
    // cap.
    let enter = || trace::enter(metadata.as_ref(), || Trace::new(core.shared.ids.as_ref()), core.shared.clock.now_ms());
    let (trace, continues) = trusted.trace.map_or_else(enter, |trace| (trace, true));
    RequestMeta {
        trace,
        continues,
        authorization: text(metadata, AUTHORIZATION).map(Into::into),
        key_id: None,
        client: trusted.client_address.map(network_of),
        client_address: trusted.client_address,
        request_id: request_id.unwrap_or_else(|| core.gate.new_request_id()),
        idempotency_key: idempotency_key(metadata),
        malformed: trusted.malformed,
        member: trusted.member,
        renders: trusted.renders,
        line: trusted.line,
    }
}

fn put(metadata: &mut MetadataMap, name: &'static str, value: &str) {
    if let Ok(value) = MetadataValue::try_from(value) {
        metadata.insert(name, value);
    }
}

fn put_rate(metadata: &mut MetadataMap, rate: &Rate, now_ms: i64) {
    metadata.insert(RATE_LIMIT, rate.limit.into());
    metadata.insert(RATE_REMAINING, rate.remaining.into());
    metadata.insert(RATE_RESET, rate.reset.into());
    let class = rate.class.as_str();
    put(metadata, IETF_POLICY, &format!("\"{class}\";q={};w={WINDOW_SECONDS}", rate.limit));
    let left = (rate.reset - now_ms.div_euclid(1_000)).max(0);
    put(metadata, IETF_LIMIT, &format!("\"{class}\";r={};t={left}", rate.remaining));
}

/// Builds the gRPC form of an error, with the request's id also in its metadata.
pub(super) fn error_status(error: &ApiError, request_id: &str) -> Status {
    with_request_id(error.to_status(request_id), request_id)
}

/// Adds the request's id to the metadata of a status.
pub(super) fn with_request_id(mut status: Status, request_id: &str) -> Status {
    put(status.metadata_mut(), REQUEST_ID, request_id);
    status
}

/// Logs an internal failure once, and builds the gRPC form of every failure.
pub(super) fn status(error: &Error, request_id: &str, operation: &str) -> Status {
    status_in(error, request_id, operation, None, None)
}

/// Logs and converts the failure of a request whose trace, and perhaps whose key, is known.
fn status_in(error: &Error, request_id: &str, operation: &str, trace: Option<&Trace>, key_id: Option<&str>) -> Status {
    if error.api.code.http_status() >= 500 {
        let (trace_id, error) = (trace.map(tracing::field::display), error.to_string());
        tracing::error!(request_id, trace_id, key_id, operation, error, "a request failed");
    }
    error_status(&error.api, request_id)
}

/// Runs `work`, or fails while the store is unavailable: no caller should wait for the store.
pub(super) async fn reached<T>(core: &Core, work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    tokio::select! {
        biased;
        outcome = work => outcome,
        () = core.shared.store_is_away() => Err(Error::store_away()),
    }
}

/// The data of a request for the request log, apart from its key and its outcome.
struct LoggedMeta {
    line: Option<RequestLine>,
    client: Option<String>,
    request_id: String,
    /// True if the request is part of an open stream. The log has the opening of the stream instead.
    is_of_stream: bool,
}

impl LoggedMeta {
    fn of(meta: &RequestMeta) -> Self {
        Self {
            line: meta.line.clone(),
            client: meta.client.clone(),
            request_id: meta.request_id.clone(),
            is_of_stream: is_of_stream(meta),
        }
    }
}

/// True for a request within an open stream: it has the id of the stream's key, and no HTTP request.
const fn is_of_stream(meta: &RequestMeta) -> bool {
    meta.line.is_none() && meta.key_id.is_some()
}

/// Counts a refused request and adds it to the request log, if its key is known.
fn count_refused(
    core: &Core,
    operation: Operation,
    key: Option<Arc<ApiKey>>,
    meta: &LoggedMeta,
    (began_ms, code): (i64, ErrorCode),
) {
    let Some(key) = key else { return };
    let now_ms = core.shared.clock.now_ms();
    core.key_usage.count(&key, operation.class(), now_ms);
    core.key_usage.count_error(&key, operation.class(), now_ms);
    if !meta.is_of_stream {
        core.request_log.note(&NotedRequest {
            key: &key,
            operation,
            line: meta.line.as_ref(),
            client: meta.client.as_deref(),
            request_id: &meta.request_id,
            code: Some(code),
            began_ms,
            now_ms,
        });
    }
}

/// Adds an admitted call to the request log, with its error code if it failed.
pub(super) fn note_request(core: &Core, call: &Call, code: Option<ErrorCode>) {
    let meta = &call.meta;
    if !is_of_stream(meta) {
        core.request_log.note(&NotedRequest {
            key: &call.caller.key,
            operation: call.operation,
            line: meta.line.as_ref(),
            client: meta.client.as_deref(),
            request_id: &meta.request_id,
            code,
            began_ms: call.now_ms,
            now_ms: core.shared.clock.now_ms(),
        });
    }
}

/// Finds the session of the caller, or the session that opened the caller's stream, if it has not ended.
async fn admit_person(core: &Core, meta: &mut RequestMeta) -> Outcome<()> {
    if let Some(MemberSession { token, project_id, live }) = meta.member.take() {
        let person = sessions::admit(&core.shared, Some(token.expose_secret()), None).await?;
        let (user_id, session_id) = (person.user.id.clone(), person.session_id);
        meta.key_id = Some(MemberKey { user_id, session_id, project_id, live }.to_string());
    } else if let Some(key) = meta.key_id.as_deref().and_then(MemberKey::parse) {
        sessions::demand_open(&core.shared, &key.user_id, &key.session_id).await?;
    }
    Ok(())
}

/// Passes a request through the gate, and counts it for its key. A refused session counts nowhere: it comes from the
/// edge, whose pages lead to the sign-in.
pub(super) async fn admit(core: &Core, operation: Operation, mut meta: RequestMeta) -> Result<Call, Status> {
    let (request_id, trace) = (meta.request_id.clone(), meta.trace);
    let (logged, began_ms) = (LoggedMeta::of(&meta), core.shared.clock.now_ms());
    let meeting = async {
        admit_person(core, &mut meta).await?;
        core.gate.refresh_for_unknown_key(&meta).await;
        Ok(())
    };
    if let Err(error) = reached(core, meeting).await {
        count_refused(core, operation, core.gate.key_of(&meta), &logged, (began_ms, error.api.code));
        return Err(status_in(&error, &request_id, operation.name(), Some(&trace), None));
    }
    let call = core.gate.admit(meta, operation).map_err(|RefusedCall { error, rate, key }| {
        let mut status =
            status_in(&error, &request_id, operation.name(), Some(&trace), key.as_deref().map(|key| &*key.id));
        count_refused(core, operation, key, &logged, (began_ms, error.api.code));
        if let Some(rate) = rate {
            put_rate(status.metadata_mut(), &rate, core.shared.clock.now_ms());
        }
        status
    })?;
    core.key_usage.count(&call.caller.key, operation.class(), call.now_ms);
    if operation.is_repeatable()
        && let Some(key) = &call.meta.idempotency_key
        && (key.is_empty() || key.len() > 255 || !key.bytes().all(|byte| (0x20..0x7f).contains(&byte)))
    {
        let message = "idempotency-key must be one value of 1 to 255 printable ASCII characters";
        let error = ApiError::new(ErrorCode::InvalidRequest, message);
        return Err(failed(core, &call, &error.into(), operation));
    }
    Ok(call)
}

/// Builds the gRPC form of a call's failure, with its rate headers, and counts it for the call's key.
pub(super) fn failed(core: &Core, call: &Call, error: &Error, operation: Operation) -> Status {
    core.key_usage.count_error(&call.caller.key, operation.class(), call.now_ms);
    note_request(core, call, Some(error.api.code));
    let (trace, key_id) = (Some(&call.meta.trace), Some(&*call.caller.key.id));
    let mut status = status_in(error, &call.meta.request_id, operation.name(), trace, key_id);
    finish(call, status.metadata_mut());
    status
}

/// Adds the headers that every response of an admitted call carries.
pub(super) fn finish(call: &Call, metadata: &mut MetadataMap) {
    put(metadata, REQUEST_ID, &call.meta.request_id);
    put_rate(metadata, &call.rate, call.now_ms);
    if *call.replayed.lock() {
        put(metadata, IDEMPOTENT_REPLAYED, "true");
    }
}

/// Answers a public operation: the gate, then `work`, which checks the shape, charges the quota and runs the operation.
pub(super) async fn answer<M, T, F>(
    core: &Arc<Core>,
    operation: Operation,
    request: Request<M>,
    work: impl FnOnce(Arc<Core>, Arc<Call>, M) -> F,
) -> Result<Response<T>, Status>
where
    F: Future<Output = Outcome<T>>,
{
    let mut meta = meta(core, &request);
    let traced = Traced::begin(core, operation, &mut meta);
    let sampled = traced.as_deref().and_then(Traced::sampled);
    let answering = async {
        let call = Arc::new(admit(core, operation, meta).await?);
        if let Some(traced) = &traced {
            traced.called_by(&call.caller.key.id);
        }
        match reached(core, work(Arc::clone(core), Arc::clone(&call), request.into_inner())).await {
            Ok(message) => {
                note_request(core, &call, None);
                let mut response = Response::new(message);
                finish(&call, response.metadata_mut());
                if let Some(rows) = call.rendered.lock().take() {
                    response.metadata_mut().insert(RENDERED, MetadataValue::from_static("true"));
                    response.extensions_mut().insert(rows);
                }
                Ok(response)
            }
            Err(error) => Err(failed(core, &call, &error, operation)),
        }
    };
    let outcome = trace::within(sampled, answering).await;
    if let Some(traced) = traced {
        traced.end(&outcome);
    }
    outcome
}

/// Answers a public operation that changes data. Its work continues if the caller gives up or the store is unavailable.
pub(super) async fn change<M, T, F>(
    core: &Arc<Core>,
    operation: Operation,
    request: Request<M>,
    work: impl FnOnce(Arc<Core>, Arc<Call>, M) -> F,
) -> Result<Response<T>, Status>
where
    T: Send + 'static,
    F: Future<Output = Outcome<T>> + Send + 'static,
{
    answer(core, operation, request, |own, call, message| core.run_to_end(work(own, call, message))).await
}

/// Demands the service credential, and a core that may serve.
pub(super) fn service_only<T>(core: &Core, request: &Request<T>) -> Result<(), Status> {
    credential_only(core, request)?;
    if core.shared.control.is_current() {
        return Ok(());
    }
    Err(error_status(&Error::outdated().api, &core.gate.new_request_id()))
}

/// Demands the service credential.
pub(super) fn credential_only<T>(core: &Core, request: &Request<T>) -> Result<(), Status> {
    let token = text(request.metadata(), SERVICE_TOKEN);
    if request.extensions().get::<Trusted>().is_some() || core.gate.is_service(token.as_deref()) {
        return Ok(());
    }
    let code = token.map_or(ErrorCode::MissingApiKey, |_| ErrorCode::InvalidApiKey);
    let error = ApiError::new(code, "this method needs the service credential; send it as x-service-token");
    Err(error_status(&error.with_param(SERVICE_TOKEN), &core.gate.new_request_id()))
}

/// Answers an internal operation that continues although its caller gives up: it finishes once started.
pub(super) async fn unbroken<T: Send + 'static>(
    core: &Arc<Core>,
    name: &str,
    work: impl Future<Output = Outcome<T>> + Send + 'static,
) -> Result<Response<T>, Status> {
    internal(core, name, core.run_to_end(work)).await
}

/// Answers an internal operation, unless the store is unavailable. Nothing interrupts a started operation: its work
/// must not run twice.
pub(super) async fn internal<T>(
    core: &Core,
    name: &str,
    work: impl Future<Output = Outcome<T>>,
) -> Result<Response<T>, Status> {
    let is_away = core.shared.backend.away().is_some_and(|away| *away.borrow());
    let outcome = if is_away { Err(Error::store_away()) } else { work.await };
    outcome.map(Response::new).map_err(|error| status(&error, &core.gate.new_request_id(), name))
}
