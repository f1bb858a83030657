//! The endpoint of the Model Context Protocol, over Streamable HTTP without sessions: each message is an independent
//! request, so any edge can answer it.
//!
//! `rmcp` reads the message. A tool's request to the API then takes the same way through the edge as one from outside,
//! with the key, the address and the id of the message. Every message needs a key. A message that causes such a request
//! gets 401 if the key does not work; the responses to others are public. So a page that reaches the edge by another
//! name (DNS rebinding) gains nothing. Pages of other origins are refused nevertheless, as the protocol demands.

use std::{net::IpAddr, panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::FutureExt as _;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri,
    header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH},
};
use http_body_util::{BodyExt as _, Either, Full};
use rmcp::{
    model::ClientJsonRpcMessage,
    transport::{
        StreamableHttpServerConfig, StreamableHttpService, streamable_http_server::session::never::NeverSessionManager,
    },
};
use thesis_proto::{
    error::{ApiError, ErrorCode},
    json::untrusted,
    metadata,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{Edge, MAX_BODY, MAX_DISCARDED, RequestBody, body_error, panicked, refuse_key_in_query};
use crate::{
    access::AccessRecord,
    answer::{Answer, Body, method_not_allowed, protect_answer, take_bytes},
    mcp::{self, McpServer, ToolApi},
};

/// Timeout for a message. A call of core has a shorter one, so only a handler that panicked runs into this.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// The settings of the endpoint.
pub(super) struct McpEndpoint {
    config: StreamableHttpServerConfig,
    sessions: Arc<NeverSessionManager>,
}

impl McpEndpoint {
    pub(super) fn new(public_url: &str) -> Self {
        // Clients reach the edge by many host names, of load balancers and machines. `server.rs` refuses a request
        // without one.
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(MAX_BODY)
            .disable_allowed_hosts()
            .with_allowed_origins(origin(public_url))
            .enforce_origin_validation();
        Self { config, sessions: Arc::default() }
    }
}

/// The origin of a URL, with its port.
fn origin(url: &str) -> Option<String> {
    let url: Uri = url.parse().ok()?;
    let (scheme, host) = (url.scheme_str()?, url.host()?);
    let port = url.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
    Some(format!("{scheme}://{host}:{port}"))
}

/// A tool's request to the API.
struct ToolCall {
    request: Request<Bytes>,
    answer: oneshot::Sender<Response<Bytes>>,
}

/// Hands the requests of tools to the task of their message.
struct EdgeApi {
    calls: mpsc::Sender<ToolCall>,
    /// The id of the message.
    request_id: String,
}

impl ToolApi for EdgeApi {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, String> {
        let given_up = "the request was given up";
        let (answer, answered) = oneshot::channel();
        self.calls.send(ToolCall { request, answer }).await.map_err(|_| given_up)?;
        answered.await.map_err(|_| given_up.to_owned())
    }

    fn request_id(&self) -> Option<&str> {
        Some(&self.request_id)
    }
}

impl Edge {
    /// Responds to a message.
    pub(super) async fn respond_mcp<B: RequestBody>(
        &self,
        peer: IpAddr,
        access: &AccessRecord<'_>,
        request: Request<B>,
    ) -> Response<Body> {
        let method = request.method().clone();
        let answering = AssertUnwindSafe(self.answer_mcp(peer, access, request)).catch_unwind();
        let answer = answering.await.unwrap_or_else(|panic| Err(panicked(&access.id, panic.as_ref()).into()));
        let mut response = self.finish_api(access, &method, mcp::PATH, answer);
        protect_answer(response.headers_mut());
        response
    }

    async fn answer_mcp<B: RequestBody>(&self, peer: IpAddr, access: &AccessRecord<'_>, request: Request<B>) -> Answer {
        let (mut head, body) = request.into_parts();
        metadata::hide_secrets(&mut head.headers);
        refuse_key_in_query(&head)?;
        if head.method != Method::POST {
            return Err(method_not_allowed(&HeaderValue::from_static("POST")));
        }
        if !head.headers.contains_key(AUTHORIZATION) {
            // Core refuses it, and counts it against the address.
            let request = Request::get(mcp::KEY_PATH).body(Bytes::new()).expect("the path is a URI");
            return self.route_request(peer, access, with_headers(request, &head.headers)).await;
        }
        let body = self.bodies.read(body, MAX_BODY, MAX_DISCARDED).await.map_err(body_error)?;
        // `rmcp` reads the body in the same way, but answers 415 as if its media type were wrong.
        if untrusted::read::<ClientJsonRpcMessage>(&body).is_err() {
            let message = "the body is not one message of JSON-RPC 2.0: a JSON object in UTF-8 with `jsonrpc` \"2.0\" and a \
                           `method`, `result` or `error`, whose `params` are an object";
            return Err(ApiError::new(ErrorCode::InvalidRequest, message).into());
        }
        let headers = head.headers.clone();
        let (calls, mut received) = mpsc::channel(1);
        let request_id = access.id.to_str().unwrap_or_default().to_owned();
        let server = move || Ok(McpServer::new(EdgeApi { calls: calls.clone(), request_id: request_id.clone() }));
        let service = StreamableHttpService::new(server, Arc::clone(&self.mcp.sessions), self.mcp.config.clone());
        let handling = service.handle(Request::from_parts(head, Full::new(body)));
        let mut handling = pin!(timeout(MESSAGE_TIMEOUT, handling));
        let (mut rates, mut code) = (HeaderMap::new(), None);
        loop {
            tokio::select! {
                handled = &mut handling => {
                    let (head, body) = handled.map_err(|_| ApiError::unavailable())?.into_parts();
                    let Ok(body) = body.collect().await;
                    let mut response = Response::from_parts(head, Either::Left(Full::new(body.to_bytes())));
                    response.headers_mut().extend(rates);
                    if let Some(code) = code {
                        response.extensions_mut().insert::<ErrorCode>(code);
                    }
                    return Ok(response);
                }
                Some(ToolCall { request, answer }) = received.recv() => {
                    let mut response = self.respond_api(peer, access, with_headers(request, &headers)).await;
                    if response.status() == StatusCode::UNAUTHORIZED {
                        return Ok(response);
                    }
                    rates = rate_headers(response.headers());
                    code = response.extensions().get().copied();
                    // The receiver is gone if the message was given up.
                    let _ = answer.send(whole(&mut response).await);
                }
            }
        }
    }
}

/// The request with the headers of its message, but for those of the message's body.
fn with_headers(request: Request<Bytes>, of_message: &HeaderMap) -> Request<Full<Bytes>> {
    let (mut head, body) = request.into_parts();
    let own = std::mem::replace(&mut head.headers, of_message.clone());
    for name in [CONTENT_TYPE, CONTENT_LENGTH, IF_NONE_MATCH] {
        head.headers.remove(name);
    }
    head.headers.extend(own);
    Request::from_parts(head, Full::new(body))
}

/// The headers of a response that belong to the key, not to the body.
fn rate_headers(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in [CONTENT_TYPE, CONTENT_LENGTH, ETAG] {
        headers.remove(name);
    }
    headers
}

async fn whole(response: &mut Response<Body>) -> Response<Bytes> {
    let body = match response.body_mut() {
        Either::Left(body) => take_bytes(body).await,
        // The operations of tools never respond with a stream.
        Either::Right(_) => Bytes::new(),
    };
    let mut whole = Response::new(body);
    *whole.status_mut() = response.status();
    *whole.headers_mut() = response.headers().clone();
    whole
}
