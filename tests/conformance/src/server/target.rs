//! The server under judgement, over its REST API.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use reqwest::{Client, Method, RequestBuilder, Response, redirect::Policy};
use serde_json::{Value, json};
use thesis_net::{
    causes::with_causes,
    clock::{SystemIdSource, random},
};
use tokio::{
    sync::{Mutex, OnceCell},
    time::{sleep, timeout},
};

use super::Options;
use crate::{Miss, verdict::ensure};

/// Maximum wait for anything that should happen soon. A heartbeat comes every 15 s; the rest is for a busy machine.
pub(super) const SOON: Duration = Duration::from_secs(30);
/// The wait before a request is repeated that a limit refused.
const RETRY_WAIT: Duration = Duration::from_secs(1);
/// Number of tries of such a request.
const TRIES: usize = 120;
/// The code of the rate limit's error.
pub(super) const RATE_LIMITED: &str = "RATE_LIMITED";
const PAGE: usize = 100;

/// A failed request: its status and the code of its error.
#[derive(Debug)]
pub(super) struct Refusal {
    /// None for a message of a WebSocket.
    pub(super) status: Option<u16>,
    pub(super) code: String,
}

impl Refusal {
    /// A refusal by the rate limit.
    pub(super) fn of_rate_limit(status: Option<u16>) -> Self {
        Self { status, code: RATE_LIMITED.to_owned() }
    }

    /// True if a limit refused the request.
    pub(super) fn is_limit(&self) -> bool {
        matches!(self.code.as_str(), RATE_LIMITED | "STREAM_LIMIT_REACHED")
    }

    /// Demands an error.
    pub(super) fn expect(&self, status: u16, code: &str) -> Result<(), Miss> {
        let has_status = self.status.is_none_or(|given| given == status);
        ensure!(has_status && self.code == code, "{self:?} instead of {status} {code}");
        Ok(())
    }
}

/// Events that a client has missed, more than a stream replays.
pub(super) struct Backlog {
    /// The cursor before them.
    pub(super) cursor: String,
    pub(super) token: String,
}

pub(super) struct Target {
    http: Client,
    pub(super) options: Options,
    /// Makes the names of this run its own.
    run: String,
    names: AtomicU32,
    /// Filled before the rules.
    pub(super) backlog: OnceCell<Backlog>,
    /// Held by the rule that uses the other key's streams.
    pub(super) other: Mutex<()>,
}

impl Target {
    pub(super) fn new(options: Options) -> Result<Self, String> {
        // The caller may have installed one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = Client::builder().no_proxy().redirect(Policy::none()).http1_only();
        let http = http.build().map_err(whole)?;
        let options = Options { url: options.url.trim_end_matches('/').to_owned(), ..options };
        let run = format!("CT{:08X}N", u32::from_be_bytes(random(&SystemIdSource)));
        Ok(Self { http, options, run, names: AtomicU32::new(0), backlog: OnceCell::new(), other: Mutex::default() })
    }

    /// A symbol of a token that no event names yet.
    pub(super) fn new_token(&self) -> String {
        format!("{}{}", self.run, self.names.fetch_add(1, Ordering::Relaxed))
    }

    /// A request with a key.
    pub(super) fn request(&self, method: Method, path: &str, key: Option<&str>) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.options.url));
        match key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    /// Sends a request; returns the head of its response, or its error.
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<Result<Response, Refusal>, Miss> {
        let response = soon("a response", request.send()).await?.map_err(whole)?;
        let status = response.status();
        if status.is_success() || status.is_informational() {
            return Ok(Ok(response));
        }
        let body = soon("the body of an error", response.bytes()).await?.map_err(whole)?;
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let code = body["error"]["code"].as_str().unwrap_or("without a code").to_owned();
        Ok(Err(Refusal { status: Some(status.as_u16()), code }))
    }

    /// Sends a request, again while a limit refuses it; returns the head of its response, or another error.
    pub(super) async fn send_retried(
        &self,
        request: impl Fn() -> RequestBuilder,
    ) -> Result<Result<Response, Refusal>, Miss> {
        let sent = retried(async || match self.send(request()).await? {
            Err(limit) if limit.is_limit() => Ok(Err(limit)),
            response => Ok(Ok(response)),
        });
        sent.await
    }

    /// Sends a JSON request, again while a limit refuses it; returns the body of the response.
    async fn json(&self, method: Method, path: &str, key: &str, body: Option<&Value>) -> Result<Value, Miss> {
        let request = || {
            let request = self.request(method.clone(), path, Some(key));
            match body {
                Some(body) => request.json(body),
                None => request,
            }
        };
        match self.send_retried(request).await? {
            Ok(response) => soon("a body", response.json()).await?.map_err(|error| whole(error).into()),
            Err(refusal) => Err(format!("{method} {path}: {refusal:?}").into()),
        }
    }

    /// GET with the key under judgement.
    pub(super) async fn get(&self, path: &str) -> Result<Value, Miss> {
        self.json(Method::GET, path, &self.options.key, None).await
    }

    /// The number of streams that the plan of a key allows.
    pub(super) async fn stream_limit(&self, key: &str) -> Result<usize, Miss> {
        let usage = self.json(Method::GET, "/v1/me/usage", key, None).await?;
        let limit = usage["streams"]["limit"].as_u64().and_then(|limit| usize::try_from(limit).ok());
        limit.ok_or_else(|| "GET /v1/me/usage has no streams.limit".into())
    }

    /// Creates a test thesis about a token; returns its event.
    pub(super) async fn post(&self, token: &str, text: &str) -> Result<Value, Miss> {
        self.post_as("conformance", token, text).await
    }

    /// The same by an author.
    pub(super) async fn post_as(&self, handle: &str, token: &str, text: &str) -> Result<Value, Miss> {
        let body = json!({"handle": handle, "token": token, "text": text});
        let mut created = self.json(Method::POST, "/v1/test/theses", &self.options.key, Some(&body)).await?;
        Ok(created["event"].take())
    }

    /// Creates a ticket.
    pub(super) async fn ticket(&self) -> Result<String, Miss> {
        let created = self.json(Method::POST, "/v1/stream/tickets", &self.options.key, None).await?;
        created["ticket"].as_str().map(str::to_owned).ok_or_else(|| "a ticket without its text".into())
    }

    /// The first rows of a list whose path has a query, page by page.
    pub(super) async fn list(&self, path: &str, most: usize) -> Result<Vec<Value>, Miss> {
        let mut rows = Vec::new();
        let mut next = format!("{path}&limit={PAGE}");
        loop {
            let mut page = self.get(&next).await?;
            let Value::Array(data) = page["data"].take() else { return Err("a list without data".into()) };
            rows.extend(data);
            match page["next_cursor"].as_str() {
                Some(cursor) if rows.len() < most => next = format!("{path}&limit={PAGE}&cursor={cursor}"),
                _ => break,
            }
        }
        rows.truncate(most);
        Ok(rows)
    }
}

/// Opens or requests something, again while a limit refuses it.
pub(super) async fn retried<T>(mut open: impl AsyncFnMut() -> Result<Result<T, Refusal>, Miss>) -> Result<T, Miss> {
    for _ in 0..TRIES {
        match open().await? {
            Ok(opened) => return Ok(opened),
            Err(refusal) if refusal.is_limit() => sleep(RETRY_WAIT).await,
            Err(refusal) => return Err(format!("the stream does not open: {refusal:?}").into()),
        }
    }
    Err(format!("a limit refuses each of {TRIES} tries").into())
}

/// Waits for something that should happen soon.
pub(super) async fn soon<T>(what: &str, coming: impl Future<Output = T>) -> Result<T, Miss> {
    within(SOON, what, coming).await
}

/// Waits for something.
pub(super) async fn within<T>(limit: Duration, what: &str, coming: impl Future<Output = T>) -> Result<T, Miss> {
    let late = |_| Miss::Failed(format!("{what} does not come within {} seconds", limit.as_secs()));
    timeout(limit, coming).await.map_err(late)
}

/// An error with its causes, without the address, which may have a ticket.
pub(super) fn whole(error: reqwest::Error) -> String {
    with_causes(&error.without_url())
}
