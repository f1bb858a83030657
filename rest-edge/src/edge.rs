//! The pipeline of a request: a key in the query string, route and method, form, core. Only this module turns failures
//! into responses.

mod mcp_endpoint;
mod status;

use std::{any::Any, fmt::Debug, net::IpAddr, panic::AssertUnwindSafe, time::Duration};

use bytes::Bytes;
use futures::FutureExt as _;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header::VARY, request::Parts};
use http_body_util::Either;
use hyper::body::Body as HttpBody;
use ipnet::IpNet;
use parking_lot::Mutex;
use rest_edge_console::{self as console, Site};
use thesis_net::{
    client_address::client_address,
    clock::{SharedClock, SharedIdSource},
    panics,
    server::{Bodies, BodyError},
    services::Services,
    trace::Trace,
};
use thesis_proto::{
    error::{ApiError, ErrorCode, FieldError},
    json::event_json,
    metadata, v1,
};
use thesis_streams::Hub;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use self::mcp_endpoint::McpEndpoint;
use crate::{
    EdgeConfig,
    access::AccessRecord,
    answer::{Answer, Body, Envelopes, Failure, REQUEST_ID, bytes, method_not_allowed, protect_answer},
    asyncapi::asyncapi,
    call::{Call, RequestOrigin},
    conditional,
    context::Context,
    cors,
    description::Description,
    design,
    docs::{self, Docs},
    document::Document,
    encoding::{self, Encoding},
    home::{self, Home},
    input::{all_errors, has_key, path_text},
    mcp,
    openapi::openapi,
    receipt_page::{self, ReceiptPage},
    request_metrics::{RequestMetrics, crowded},
    route::{PathRoutes, Route, router},
    status_page, v1 as resources,
};

/// Limit for a request's body in bytes.
const MAX_BODY: usize = 64 * 1024;
/// Limit for the bodies in memory of all connections together, in bytes.
const MAX_BODIES: usize = 64 * 1024 * 1024;
/// Limit for concurrent calls of core. The edge refuses further requests, so that the others finish soon.
const MAX_CALLS: usize = 1_024;
/// Limit for streams that open concurrently. Others wait, because all clients reconnect at once after a deployment.
const MAX_OPENINGS: usize = 128;
/// Bytes that the edge still reads of a body that is too large, so that its sender can read the response.
const MAX_DISCARDED: usize = 1024 * 1024;
const CORE_CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The body of a request from a connection or from a test.
pub(crate) trait RequestBody: HttpBody<Data = Bytes, Error: Debug> + Send + Unpin {}

impl<B: HttpBody<Data = Bytes, Error: Debug> + Send + Unpin> RequestBody for B {}

/// The state that all connections share.
pub(crate) struct Edge {
    pub(crate) context: Context,
    console: Site,
    home: Home,
    docs: Docs,
    design: Document,
    receipt_page: ReceiptPage,
    mcp: McpEndpoint,
    /// Permits for calls of core.
    calls: Semaphore,
    /// Permits for streams that open.
    openings: Semaphore,
    /// Budget for bodies in memory.
    bodies: Bodies,
    request_metrics: RequestMetrics,
    router: matchit::Router<PathRoutes>,
    trusted_proxies: Vec<IpNet>,
    public_url: String,
    clock: SharedClock,
}

impl Edge {
    pub(crate) fn new(
        core: Services,
        config: EdgeConfig,
        clock: SharedClock,
        ids: SharedIdSource,
        shutdown: CancellationToken,
    ) -> Self {
        let routes = resources::routes();
        let operations = routes.iter().filter_map(Route::as_operation).collect();
        let context = Context {
            hub: Hub::new(&core.streams_of, &core.streams, event_json, &ids, shutdown),
            core,
            errors: Envelopes::new(&config.public_url),
            discovery: resources::discovery_document(&config.public_url),
            openapi: Description::new(openapi, &config.public_url, clock.clone()),
            asyncapi: Description::new(asyncapi, &config.public_url, clock.clone()),
            ids,
        };
        Self {
            home: Home::new(&config.public_url),
            docs: Docs::new(&config.public_url, clock.clone()),
            design: design::document(&config.public_url),
            receipt_page: ReceiptPage::new(&config.public_url),
            mcp: McpEndpoint::new(&config.public_url),
            console: Site::new(&context.core, operations, &config.public_url, &clock, &context.ids),
            context,
            calls: Semaphore::new(MAX_CALLS),
            openings: Semaphore::new(MAX_OPENINGS),
            bodies: Bodies::new(MAX_BODIES),
            request_metrics: RequestMetrics::new(&routes),
            router: router(routes),
            trusted_proxies: config.trusted_proxies,
            public_url: config.public_url,
            clock,
        }
    }

    /// Responds to any request.
    pub(crate) async fn respond<B: RequestBody>(&self, peer: IpAddr, request: Request<B>) -> Response<Body> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let encoding = Encoding::preferred(request.headers());
        let counted = self.request_metrics.begin(&method, &path);
        let access = AccessRecord::begin(request.headers(), counted.name(), self.context.ids.as_ref(), &self.clock);
        let id = access.id.clone();
        let mut response = if console::covers(&path) {
            self.respond_page(peer, &id, access.trace, request).await
        } else if path == mcp::PATH {
            // In a box, since its future is large and would enlarge that of every other request.
            Box::pin(self.respond_mcp(peer, &access, request)).await
        } else {
            self.respond_api(peer, &access, request).await
        };
        response.headers_mut().insert(REQUEST_ID, id);
        if cors::covers(&path) {
            cors::open(response.headers_mut());
            protect_answer(response.headers_mut());
        }
        // Pages stay uncompressed: they contain a token and texts of other people, so their compressed length would
        // leak the token.
        if !(console::covers(&path) && console::is_page(response.headers())) {
            encoding::encode(&mut response, encoding).await;
        }
        if path == home::PATH {
            response.headers_mut().insert(VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
        }
        if method == Method::HEAD {
            *response.body_mut() = Either::Left(Default::default());
        }
        access.end(&response);
        counted.answered(response.status());
        response
    }

    async fn respond_page<B: RequestBody>(
        &self,
        peer: IpAddr,
        id: &HeaderValue,
        trace: Trace,
        request: Request<B>,
    ) -> Response<Body> {
        let (mut head, body) = request.into_parts();
        metadata::hide_secrets(&mut head.headers);
        let method = head.method.clone();
        let visit = self.console.visit(self.client_address(peer, &head.headers), id, trace, &head);
        let answering = async {
            let body = self.bodies.read(body, MAX_BODY, MAX_DISCARDED).await.map_err(body_error)?;
            let _slot = self.calls.try_acquire().map_err(|_| crowded("calls"))?;
            let answering = timeout(CORE_CALL_TIMEOUT, self.console.answer(visit.clone(), head, body));
            answering.await.map_err(|_| ApiError::unavailable())
        };
        let answered = AssertUnwindSafe(answering).catch_unwind().await;
        let answered = answered.unwrap_or_else(|panic| Err(panicked(id, panic.as_ref())));
        self.console.finish(&visit, &method, answered).await.map(Either::Left)
    }

    async fn respond_api<B: RequestBody>(
        &self,
        peer: IpAddr,
        access: &AccessRecord<'_>,
        request: Request<B>,
    ) -> Response<Body> {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let routing = AssertUnwindSafe(self.route_request(peer, access, request)).catch_unwind();
        let answer = routing.await.unwrap_or_else(|panic| Err(panicked(&access.id, panic.as_ref()).into()));
        self.finish_api(access, &method, uri.path(), answer)
    }

    /// Turns a failure into its envelope, and logs it.
    fn finish_api(&self, access: &AccessRecord<'_>, method: &Method, path: &str, answer: Answer) -> Response<Body> {
        match answer {
            Ok(response) => response,
            Err(failure) => {
                let (error, headers) = match failure {
                    Failure::Error(error, headers) => (error, headers),
                    Failure::Shape(_) => (Box::new(ApiError::internal()), Box::default()),
                };
                let id = access.id.to_str().unwrap_or_default();
                let took_ms = self.clock.now_ms() - access.started_ms;
                let (status, code) = (error.code.http_status(), error.code.as_str());
                let trace = access.trace;
                // The log leaves out the query string, which may contain a secret.
                if status < 500 {
                    tracing::info!(request_id = id, trace_id = %trace, %method, path, status, code, took_ms, "request refused");
                } else {
                    tracing::warn!(request_id = id, trace_id = %trace, %method, path, status, code, took_ms, "request failed");
                }
                let mut response = self.context.errors.answer(&error, &headers, id);
                response.extensions_mut().insert(error.code);
                response
            }
        }
    }

    async fn route_request<B: RequestBody>(
        &self,
        peer: IpAddr,
        access: &AccessRecord<'_>,
        request: Request<B>,
    ) -> Answer {
        let (mut head, body) = request.into_parts();
        metadata::hide_secrets(&mut head.headers);
        refuse_key_in_query(&head)?;
        if let Some(answer) = self.public_page(peer, access, &head).await {
            return answer;
        }
        let uri = head.uri.clone();
        let Ok(found) = self.router.at(uri.path()) else {
            let message = "there is nothing under this path; GET /v1/openapi.json lists every path";
            return Err(ApiError::new(ErrorCode::RouteNotFound, message).into());
        };
        if head.method == Method::OPTIONS {
            return Ok(cors::preflight(found.value.allow()));
        }
        let route = found.value.for_method(&head.method).map_err(method_not_allowed)?;
        let raw_id = found.params.iter().next().map(|(_, value)| value).unwrap_or_default();

        let (client_address, request_id) = (self.client_address(peer, &head.headers), access.id.clone());
        let origin = RequestOrigin { client_address, request_id, trace: access.trace };
        let mut call =
            Call { form: route.form(), head, id: String::new(), body: Bytes::new(), origin, unread: Mutex::default() };
        let answer = match self.read_call(route, &mut call, raw_id, body).await {
            Ok(()) => match self.acquire_permit(route).await {
                Some(_slot) => timeout(CORE_CALL_TIMEOUT, (route.handler)(&self.context, &mut call))
                    .await
                    .unwrap_or_else(|_| Err(ApiError::unavailable().into())),
                None => Err(crowded(if route.opens_stream() { "openings" } else { "calls" }).into()),
            },
            Err(failure) => Err(failure),
        };
        let unread = call.unread.get_mut();
        match answer {
            Err(Failure::Shape(error)) => Err(self.refuse(route, &call, *error).await),
            other if !unread.is_empty() => Err(merge_errors(route, unread, other)),
            Ok(mut response) if route.tagged => {
                conditional::add_tag(&mut response, &call.head.headers).await;
                Ok(response)
            }
            other => other,
        }
    }

    /// Answers requests for pages that everybody may read; none for other paths.
    async fn public_page(&self, peer: IpAddr, access: &AccessRecord<'_>, head: &Parts) -> Option<Answer> {
        let (method, headers) = (&head.method, &head.headers);
        Some(match head.uri.path() {
            home::PATH => self.root(head).await,
            home::EVENTS_PATH => self.home.events(&self.context.core, method, headers).await,
            receipt_page::PATH => self.receipt_page.answer(method, headers).await,
            status_page::PATH => self.show_status(self.client_address(peer, headers), access, method).await,
            design::PATH => self.design.page(method, headers).await,
            path if docs::covers(path) => self.docs.answer(method, &head.uri, headers).await,
            _ => return None,
        })
    }

    /// Browsers get the home page, and programs the discovery document.
    async fn root(&self, head: &Parts) -> Answer {
        if head.method != Method::GET && head.method != Method::HEAD {
            return Err(method_not_allowed(&HeaderValue::from_static("GET, HEAD")));
        }
        if console::wants_page(&head.headers) {
            return self.home.page(&self.context.core, &head.headers).await;
        }
        Ok(bytes(StatusCode::OK, self.context.discovery.clone()))
    }

    /// Acquires the permit for a call; none if the limit is reached.
    async fn acquire_permit(&self, route: &Route) -> Option<SemaphorePermit<'_>> {
        if route.opens_stream() {
            return timeout(CORE_CALL_TIMEOUT, self.openings.acquire()).await.ok()?.ok();
        }
        self.calls.try_acquire().ok()
    }

    /// Reads the path parameter and the body, and checks the idempotency key.
    async fn read_call<B: RequestBody>(
        &self,
        route: &Route,
        call: &mut Call,
        raw_id: &str,
        body: B,
    ) -> Result<(), Failure> {
        let broken = "the path's percent-encoding is broken; write each % as %25";
        let id = path_text(raw_id).ok_or_else(|| Failure::shape(ErrorCode::InvalidRequest, broken))?;
        call.id = id.into_owned();
        if route.query.is_empty() {
            // The route declares no parameter. Unreadable queries and unknown parameters are faults on every route.
            call.add_unread(call.query()?.unread());
        }
        if route.body.is_some() {
            call.body = self.bodies.read(body, MAX_BODY, MAX_DISCARDED).await.map_err(unread)?;
        }
        call.idempotency_key().map(drop)
    }

    /// Core decides whether the caller may learn the faults of a request's form.
    async fn refuse(&self, route: &Route, call: &Call, error: v1::RequestError) -> Failure {
        let Some(operation) = route.operation else {
            let code = ErrorCode::parse(&error.code).unwrap_or(ErrorCode::InvalidRequest);
            return ApiError::new(code, error.message).into();
        };
        let request = v1::RefuseRequest { operation: operation.to_owned(), error: Some(error) };
        let refused = timeout(CORE_CALL_TIMEOUT, self.context.core.gate.refuse(call.request(request))).await;
        match refused {
            Ok(Err(status)) => status.into(),
            Ok(Ok(_)) => Failure::incomplete(),
            Err(_) => ApiError::unavailable().into(),
        }
    }

    fn client_address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        client_address(peer.to_canonical(), headers, &self.trusted_proxies)
    }
}

fn refuse_key_in_query(head: &Parts) -> Result<(), Failure> {
    if head.uri.query().is_some_and(has_key) {
        let message = "an API key must not be in the query string; send it as Authorization: Bearer <API_KEY>";
        return Err(ApiError::new(ErrorCode::InvalidRequest, message).into());
    }
    Ok(())
}

/// The failure of a request with unreadable fields.
fn merge_errors(route: &Route, unread: &[FieldError], answer: Answer) -> Failure {
    match answer {
        Err(Failure::Error(error, headers)) if error.code == ErrorCode::ValidationFailed => {
            let params = route.body.unwrap_or(route.query);
            let errors = all_errors(params, unread, error.field_errors().collect());
            Failure::Error(Box::new(ApiError::validation(&errors)), headers)
        }
        Err(failure) => failure,
        Ok(_) if route.operation.is_none() => ApiError::validation(&all_errors(route.query, unread, Vec::new())).into(),
        // Core must not accept a request with unreadable fields.
        Ok(_) => Failure::incomplete(),
    }
}

fn unread(error: BodyError) -> Failure {
    let error = body_error(error);
    if error.code == ErrorCode::ServiceUnavailable { error.into() } else { Failure::shape(error.code, &error.message) }
}

fn body_error(error: BodyError) -> ApiError {
    let (code, message) = match error {
        BodyError::TooLarge => (ErrorCode::PayloadTooLarge, "a body may have 64 KiB at most; send less"),
        BodyError::Broken => (ErrorCode::InvalidRequest, "the body broke off; send the request again"),
        BodyError::Late => (ErrorCode::InvalidRequest, "the body did not arrive in time; send the request again"),
        BodyError::NoRoom => return crowded("bodies"),
    };
    ApiError::new(code, message)
}

/// The error of a request whose handler panicked.
fn panicked(id: &HeaderValue, panic: &(dyn Any + Send)) -> ApiError {
    let panic = panics::text(panic);
    tracing::error!(request_id = id.to_str().unwrap_or_default(), panic, "a request panicked");
    ApiError::internal()
}
