//! The console: pages in which users manage their own access, rendered from core's responses. It holds no data.
//!
//! `visit` identifies the visitor, `page_query` reads queries, `form` guards posted forms, `kept` keeps a form over a
//! sign-in, `refused` leads a refused form to its page, `shown` passes a secret to the page after a form, `frame`
//! derives the links around a page from its address, `view` renders, `question` asks for confirmation, and `failure`
//! has the reasons why a handler shows no page. The other modules have the pages.
//!
//! # Recipe: a page
//!
//! The example is `/console/projects/{id}/usage`. Paths that begin with `src` or `templates` are in this crate.
//!
//! 1. `src/projects/usage.rs`: a handler that takes `SignedIn`, calls core's services with `signed_in.request`, so that
//!    core judges the person's rights, and renders a template with a `Layout` whose title no other page has. Pages of a
//!    project call `find` first; pages of a workspace take `Workspace` and call `workspace.request`.
//! 2. `templates/usage.html`, which extends `layout.html`. The Content-Security-Policy forbids inline styles and
//!    scripts. The page must work without JavaScript. Each table is in a `div`, as in that file; with `data-table`, a
//!    name of a file, people sort it and save it as CSV. Times are `view::moment`, which a script shows in the zone of
//!    the visitor.
//! 3. `src/projects.rs`: `mod usage` and the path in `routes`. A new group of pages also enters `router` below. A link
//!    to the page: the example's is in `src/frame.rs`.
//! 4. A form: `Posted` and `Faults` (`src/form.rs`), and a path that answers POST. Where sending it twice would create
//!    two things, `forms::once` in the template and `visit.once` in the message. After success it redirects to a page
//!    that can be reloaded, with `shown` if that page has a secret. Its call of core is in `visit.change`. A refused
//!    form renders its page with the faults: `refused` redirects to the same path and runs the handler again for it.
//! 5. Data that no service has: a method of `AccountService` in `proto`, its operation in
//!    `core-service/src/operations/account/`, called in `core-service/src/grpc/account.rs`. Its right enters `TABLE` in
//!    `core-service/src/access/rights/tests.rs`, its call `core-service/src/grpc/account/tests.rs` and, if it concerns
//!    an organization, `CALLS` in `tests/system/accounts/roles.rs`.
//!
//! Tests: `tests/system/console.rs`: the path in `pages` or `ADMINISTRATION`, a form in `forms`, so that roles,
//! isolation and forged forms cover them; its content in a module of `tests/system/console/`; texts of customers that
//! it shows, in `markup.rs` there; `tests/clients/console.cjs` opens it in Chromium, where axe checks it.

mod administration;
pub mod assets;
mod cookies;
mod failure;
mod find;
mod form;
mod frame;
mod identity;
mod kept;
mod organizations;
mod page_query;
mod projects;
mod question;
mod refused;
mod shown;
mod view;
mod visit;
mod workspace;

use std::{net::IpAddr, sync::Arc};

use axum::{
    Router,
    response::{IntoResponse as _, Response as Answered},
};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri,
    header::{
        ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
        SET_COOKIE, STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS,
    },
    request::Parts,
};
use http_body_util::{BodyExt as _, Full};
use thesis_net::{
    clock::{SharedClock, SharedIdSource},
    services::Services,
    trace::Trace,
};
use thesis_proto::error::{ApiError, ErrorCode};
use tower::ServiceExt as _;

use self::{
    cookies::Cookies,
    failure::{Failed, PageError},
    kept::SentForm,
};
pub use self::{visit::Visit, workspace::event_line};

/// The path of the first page, and the prefix of all others.
pub const HOME: &str = "/console";
/// A header of the forms that scripts send. These forms are not in the browser's history, so a reload does not send
/// them again, and their responses need no redirect.
const SCRIPT: HeaderName = HeaderName::from_static("x-script");
/// The prefix of one-time links. Their last segment is a secret.
const LINKS: &str = "/console/links/";

/// Headers of every response. The referrer policy is `same-origin`: with `no-referrer` browsers would post forms with
/// `Origin: null`. Other sites do not see the address of a page with `same-origin` either.
pub const HEADERS: [(HeaderName, HeaderValue); 3] = [
    (
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; font-src 'self'; \
             connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        ),
    ),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (REFERRER_POLICY, HeaderValue::from_static("same-origin")),
];
/// A browser that opened the console by https uses only https for it for a year.
const SECURE_ONLY: HeaderValue = HeaderValue::from_static("max-age=31536000");

pub(crate) type Page = Result<Answered, Failed>;

/// An operation of the REST API, which is a method of the SDKs.
pub struct Operation {
    /// The HTTP method.
    pub method: Method,
    /// The path with the names of its parameters, as the request log has it.
    pub path: &'static str,
    /// The name of the operation, such as `listTheses`.
    pub id: &'static str,
    /// The names of the parameters of its query.
    pub query: Vec<&'static str>,
    /// The parameters of the query that are whole numbers.
    pub integers: Vec<&'static str>,
    /// True if a request has a body.
    pub has_body: bool,
}

/// The state that all pages share. Every visit has it.
pub(crate) struct Console {
    pub(crate) core: Services,
    pub(crate) operations: Vec<Operation>,
    /// The public URL without a trailing slash.
    pub(crate) public_url: String,
    pub(crate) clock: SharedClock,
    /// True if the public URL is https.
    is_secure: bool,
    /// True if the console may send `Strict-Transport-Security`, which covers all ports of the host.
    is_secure_only: bool,
    ids: SharedIdSource,
}

fn router() -> Router {
    Router::new()
        .merge(identity::routes())
        .merge(organizations::routes())
        .merge(projects::routes())
        .merge(workspace::routes())
        .merge(administration::routes())
        .merge(find::routes())
        .merge(assets::routes())
        .fallback(no_page)
        .method_not_allowed_fallback(|| async {
            Failed::from(ApiError::new(
                ErrorCode::MethodNotAllowed,
                "this page does not answer that method; open it again",
            ))
        })
}

/// Redirects a path with a trailing slash to the path without it. Other paths are 404.
async fn no_page(method: Method, uri: Uri) -> Page {
    let (path, query) = (uri.path(), uri.query().map(|query| format!("?{query}")).unwrap_or_default());
    let shorter = path.trim_end_matches('/');
    if shorter == path || !method.is_safe() {
        return Err(Failed::missing());
    }
    Ok(failure::moved(&format!("{shorter}{query}")))
}

/// True if the path belongs to the console.
pub fn covers(path: &str) -> bool {
    path.strip_prefix(HOME).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The path for logs: it leaves out the secret of a one-time link.
pub fn loggable_path(path: &str) -> &str {
    if path.starts_with(LINKS) { LINKS } else { path }
}

/// True if the client accepts HTML with full quality, as browsers do.
pub fn wants_page(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let kinds = values.flat_map(|text| text.split(',')).map(str::trim);
    // Programs that accept HTML as a fallback give it a lower quality, such as `q=0.5`.
    let mut wanted = kinds.filter(|kind| !kind.contains(";q=0") && !kind.contains("; q=0"));
    wanted.any(|kind| kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/html")))
}

/// The console of a service with one public URL.
pub struct Site {
    console: Arc<Console>,
    router: Router,
}

impl Site {
    /// A console that reads and changes data through `core`. It shows calls of `operations` as code.
    pub fn new(
        core: &Services,
        operations: Vec<Operation>,
        public_url: &str,
        clock: &SharedClock,
        ids: &SharedIdSource,
    ) -> Self {
        let (is_secure, is_secure_only) = (public_url.starts_with("https://"), is_usual_https(public_url));
        let public_url = public_url.to_owned();
        let (core, clock, ids) = (core.clone(), clock.clone(), ids.clone());
        let console = Arc::new(Console { core, operations, public_url, clock, is_secure, is_secure_only, ids });
        Self { console, router: router() }
    }

    /// Identifies the visitor of a request.
    pub fn visit(&self, address: IpAddr, request_id: &HeaderValue, trace: Trace, head: &Parts) -> Visit {
        Visit::new(&self.console, address, request_id, trace, head)
    }

    /// Routes a request with its complete body to its page.
    pub async fn answer(&self, visit: Visit, mut head: Parts, body: Bytes) -> Answered {
        if let Some((again, form)) = refused::read(&visit, &head.method) {
            head.method = Method::POST;
            // The session may have ended since the form was sent.
            let sent = SentForm::new(again.clone(), &Method::POST, &form);
            return refused::end(&visit, sent.keep(self.route(again, head, form).await));
        }
        let (sent, method) = (SentForm::new(visit.clone(), &head.method, &body), head.method.clone());
        let is_script = head.headers.contains_key(SCRIPT);
        let answered = sent.keep(self.route(visit.clone(), head, body.clone()).await);
        if is_script { answered } else { refused::keep(&visit, &method, &body, answered) }
    }

    async fn route(&self, visit: Visit, mut head: Parts, body: Bytes) -> Answered {
        head.extensions.insert(visit);
        let request = Request::from_parts(head, axum::body::Body::from(body));
        self.router.clone().oneshot(request).await.unwrap_or_else(|never| match never {})
    }

    /// Turns failures into pages and adds the headers that every response has.
    pub async fn finish(
        &self,
        visit: &Visit,
        method: &Method,
        answered: Result<Answered, ApiError>,
    ) -> Response<Full<Bytes>> {
        let mut answered = answered.unwrap_or_else(|error| Failed::from(error).into_response());
        if let Some(error) = failure_of(&mut answered) {
            log_error(visit, method, &error);
            let headers = [ALLOW, SET_COOKIE].map(|name| (name.clone(), answered.headers_mut().remove(name)));
            answered = view::failed(visit, &error);
            answered.headers_mut().extend(headers.into_iter().filter_map(|(name, value)| Some((name, value?))));
        }
        let (mut head, body) = answered.into_parts();
        let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        head.headers.extend(HEADERS);
        if self.console.is_secure_only {
            head.headers.insert(STRICT_TRANSPORT_SECURITY, SECURE_ONLY);
        }
        if !head.headers.contains_key(CACHE_CONTROL) {
            head.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        if !head.headers.contains_key(CONTENT_LENGTH) {
            head.headers.insert(CONTENT_LENGTH, body.len().into());
        }
        if is_page(&head.headers)
            && let Some(cookie) = visit.new_form_cookie(self.console.cookies())
        {
            head.headers.append(SET_COOKIE, cookie);
        }
        Response::from_parts(head, Full::new(body))
    }
}

/// True for an https URL on the default port. With another port, the default port may belong to somebody else.
fn is_usual_https(url: &str) -> bool {
    let is_usual = |url: Uri| url.scheme_str() == Some("https") && url.port_u16().is_none_or(|port| port == 443);
    url.parse().is_ok_and(is_usual)
}

impl Console {
    pub(crate) const fn cookies(&self) -> Cookies {
        Cookies { is_secure: self.is_secure }
    }
}

/// True if a response is a page.
pub fn is_page(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"))
}

/// The failure that a response represents, if any.
fn failure_of(answered: &mut Answered) -> Option<ApiError> {
    if let Some(PageError(error)) = answered.extensions_mut().remove::<PageError>() {
        return Some(error);
    }
    let status = answered.status();
    // axum could not read the path or the query.
    if status.is_client_error() && !is_page(answered.headers()) {
        return Some(failure::not_found());
    }
    (status.is_server_error() && !is_page(answered.headers())).then(ApiError::internal)
}

fn log_error(visit: &Visit, method: &Method, error: &ApiError) {
    let path = visit.path.split('?').next().unwrap_or_default();
    let (id, path, trace) = (visit.request_id.to_str().unwrap_or_default(), loggable_path(path), &visit.trace);
    let (status, code) = (error.code.http_status(), error.code.as_str());
    if status < 500 {
        tracing::info!(request_id = id, trace_id = %trace, %method, path, status, code, "page refused");
    } else {
        tracing::warn!(request_id = id, trace_id = %trace, %method, path, status, code, "page failed");
    }
}
