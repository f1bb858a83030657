//! A REST client that checks the rules of all answers in every answer.

use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicUsize, Ordering},
};

use reqwest::{
    Certificate, ClientBuilder, IntoUrl, Method, RequestBuilder, Response, header::HeaderMap, redirect::Policy,
};
use serde_json::{Value, json};

use super::{SOON, Socket, Sse, eventually, rows, text};

/// A customer's client, at an address of its own.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    /// Where its requests go, in turn.
    edges: Arc<[String]>,
    next: Arc<AtomicUsize>,
    key: Option<String>,
    /// The client's address as the edge sees it.
    pub(crate) address: String,
}

/// Builds clients that trust no certificate. To read those of this machine takes longer than most requests of a test.
pub(crate) fn http_client() -> ClientBuilder {
    reqwest::Client::builder().no_proxy().tls_certs_only([])
}

/// Gets a URL without TLS, over a connection of its own.
pub(crate) async fn fetch(url: impl IntoUrl) -> reqwest::Result<Response> {
    http_client().build()?.get(url).send().await
}

/// An address that no other client of this run has.
pub(super) fn new_address() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let [_, a, b, c] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    format!("10.{a}.{b}.{c}")
}

impl Client {
    /// A client of one edge, by its base URL.
    pub(crate) fn new(base: &str, key: Option<&str>) -> Self {
        Self::over(&[base.to_owned()], key)
    }

    /// A client whose requests alternate between edges.
    pub(crate) fn over(edges: &[String], key: Option<&str>) -> Self {
        let http = http_client().redirect(Policy::none()).build().unwrap();
        let key = key.map(str::to_owned);
        Self { http, edges: edges.into(), next: Arc::default(), key, address: new_address() }
    }

    /// A client of an edge by TLS, whose certificate this root (PEM) must have issued.
    pub(crate) fn trusting(base: &str, key: &str, root: &str) -> Self {
        let root = Certificate::from_pem(root.as_bytes()).unwrap();
        let http = http_client().redirect(Policy::none()).tls_certs_only([root]);
        Self { http: http.build().unwrap(), ..Self::new(base, Some(key)) }
    }

    /// The same client at another address.
    pub(crate) fn at(&self, address: &str) -> Self {
        Self { address: address.to_owned(), ..self.clone() }
    }

    /// The same client with another key.
    pub(crate) fn with_key(&self, key: Option<&str>) -> Self {
        Self { key: key.map(str::to_owned), ..self.clone() }
    }

    /// The same customer at the first edge alone: replicas tell each other their counts a little later.
    pub(crate) fn at_one_edge(&self) -> Self {
        Self { edges: self.edges[..1].into(), ..self.clone() }
    }

    /// The same customer at another edge.
    pub(crate) fn moved_to(&self, base: &str) -> Self {
        Self::new(base, self.key.as_deref())
    }

    /// The same customer over new connections.
    pub(crate) fn anew(&self) -> Self {
        Self { http: Self::over(&self.edges, None).http, ..self.clone() }
    }

    /// Its key.
    pub(crate) fn key(&self) -> &str {
        self.key.as_deref().unwrap()
    }

    /// A request with the client's key and address.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let edge = &self.edges[self.next.fetch_add(1, Ordering::Relaxed) % self.edges.len()];
        let request = self.http.request(method, format!("{edge}{path}"));
        let request = request.header("x-forwarded-for", &self.address);
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    /// Sends a request and reads its answer.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Answer {
        Answer::read(request.send().await.unwrap()).await
    }

    /// GET
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    /// GET, until the search index is ready: a core that has just started answers 503 until it has taken in the logs.
    pub(crate) async fn search(&self, path: &str) -> Answer {
        let is_there = async || Some(self.get(path).await).filter(|answer| answer.status != 503);
        eventually("the search index is there", SOON, is_there).await
    }

    /// POST
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    /// POST with an idempotency key
    pub(crate) async fn post_once(&self, path: &str, body: &Value, idempotency_key: &str) -> Answer {
        let request = self.request(Method::POST, path).json(body);
        self.send(request.header("idempotency-key", idempotency_key)).await
    }

    /// PATCH
    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Answer {
        self.send(self.request(Method::PATCH, path).json(body)).await
    }

    /// DELETE
    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(self.request(Method::DELETE, path)).await
    }

    /// Creates a test thesis; gives its thesis and event.
    pub(crate) async fn thesis(&self, handle: &str, token: &str, text: &str) -> (Value, Value) {
        let body = json!({"handle": handle, "token": token, "text": text});
        let mut made = self.post("/v1/test/theses", &body).await.ok(201);
        (made["thesis"].take(), made["event"].take())
    }

    /// Creates a webhook; gives it with its secret.
    pub(crate) async fn webhook(&self, url: &str, events: &[&str]) -> Value {
        self.post("/v1/webhooks", &json!({"url": url, "events": events})).await.ok(201)
    }

    /// Every row of a list, page by page.
    pub(crate) async fn all(&self, path: &str) -> Vec<Value> {
        let mut all = Vec::new();
        let mut next = path.to_owned();
        loop {
            let page = self.get(&next).await.ok(200);
            all.extend(rows(&page).iter().cloned());
            match page["next_cursor"].as_str() {
                None => return all,
                Some(cursor) => {
                    let separator = if path.contains('?') { '&' } else { '?' };
                    next = format!("{path}{separator}cursor={cursor}");
                }
            }
        }
    }

    /// Opens a stream.
    pub(crate) async fn stream(&self, query: &str) -> Sse {
        self.open(self.request(Method::GET, &format!("/v1/events/stream{query}"))).await
    }

    /// The base URL of its first edge.
    pub(crate) fn base(&self) -> &str {
        &self.edges[0]
    }

    /// Opens a WebSocket and hears its welcome.
    pub(crate) async fn socket(&self) -> Socket {
        let edge = &self.edges[self.next.fetch_add(1, Ordering::Relaxed) % self.edges.len()];
        let headers = [("authorization", format!("Bearer {}", self.key())), ("x-forwarded-for", self.address.clone())];
        let mut socket = Socket::open(&format!("{edge}/v1/stream"), &headers).await.unwrap();
        assert_eq!(socket.next().await["op"], "welcome");
        socket
    }

    /// Opens a stream that resumes after a cursor.
    pub(crate) async fn resume(&self, query: &str, cursor: &str) -> Sse {
        let request = self.request(Method::GET, &format!("/v1/events/stream{query}"));
        self.open(request.header("last-event-id", cursor)).await
    }

    /// The same; none if it cannot be opened now.
    pub(crate) async fn try_resume(&self, query: &str, cursor: &str) -> Option<Sse> {
        let request = self.request(Method::GET, &format!("/v1/events/stream{query}"));
        let response = request.header("last-event-id", cursor).send().await.ok()?;
        (response.status() == 200).then(|| Sse::new(response))
    }

    async fn open(&self, request: RequestBuilder) -> Sse {
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), 200, "{:?}", response.headers());
        Sse::new(response)
    }
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    async fn read(response: Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let answer = Self { status, headers, text: response.text().await.unwrap() };
        assert!(answer.header("x-service-request-id").starts_with("req_"), "{answer:?}");
        assert_eq!(answer.header("content-type"), "application/json", "{answer:?}");
        assert_eq!(status >= 400, answer.json().get("error").is_some(), "{answer:?}");
        answer
    }

    /// A header that must be there.
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).unwrap_or_else(|| panic!("no {name} in {self:?}"));
        value.to_str().unwrap()
    }

    /// A header that must be a number.
    pub(crate) fn number(&self, name: &str) -> i64 {
        self.header(name).parse().unwrap()
    }

    /// Its body.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON in {self:?}"))
    }

    /// The body of a success.
    pub(crate) fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.json()
    }

    /// The error of a failure, its envelope checked.
    pub(crate) fn error(&self, status: u16, code: &str) -> Value {
        let mut envelope = self.json();
        assert_eq!(envelope.as_object().unwrap().len(), 1, "{}", self.text);
        let error = envelope["error"].take();
        assert_eq!((self.status, text(&error, "code")), (status, code), "{}", self.text);
        let kind = match status {
            400 | 405 | 413 | 416 => "invalid_request",
            401 => "authentication",
            403 => "permission",
            404 => "not_found",
            409 => "conflict",
            422 => "validation",
            429 => "rate_limit",
            503 if code == "UPSTREAM_UNAVAILABLE" => "upstream",
            _ => "internal",
        };
        assert_eq!(text(&error, "type"), kind);
        assert!(!text(&error, "message").is_empty());
        assert_eq!(text(&error, "request_id"), self.header("x-service-request-id"));
        let optional = ["param", "details", "doc_url"];
        for (name, value) in error.as_object().unwrap() {
            let required = ["type", "code", "message", "request_id"].contains(&name.as_str());
            assert!(required || (optional.contains(&name.as_str()) && !value.is_null()), "{}", self.text);
        }
        if status == 429 || status == 503 {
            assert!((1..=60 * 60 * 24 * 31).contains(&self.number("retry-after")), "{self:?}");
        }
        error
    }

    /// An envelope without its request id, and without the address of the edge that it came from.
    pub(crate) fn same_everywhere(&self) -> String {
        let error = &self.json()["error"];
        let edge = text(error, "doc_url").split("/docs/").next().unwrap();
        self.text.replace(text(error, "request_id"), "").replace(edge, "")
    }

    /// A 422 that names these fields, the first one as `param`.
    pub(crate) fn invalid(&self, fields: &[&str]) {
        let error = self.error(422, "VALIDATION_FAILED");
        let listed = error["details"]["errors"].as_array().unwrap();
        let named: Vec<&str> = listed.iter().map(|field| text(field, "param")).collect();
        assert_eq!(named, fields, "{}", self.text);
        assert_eq!(error["param"], fields[0]);
        assert!(listed.iter().all(|field| !text(field, "message").is_empty()));
    }
}
