//! Requests of single commands. A request is repeated when the service is busy and names a time to try again.

use std::time::Duration;

use core_service::domain::id;
use reqwest::{Client, Method};
use secrecy::ExposeSecret as _;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use thesis_net::clock::SharedIdSource;
use tokio::time::{sleep, timeout};
use url::Url;

use crate::{
    Failure,
    account::Credentials,
    http::{self, RESPONSE_TIMEOUT, Unanswered, whole},
    terminal::note,
};

/// Maximum number of attempts while the service is busy.
const MAX_ATTEMPTS: usize = 5;
/// Maximum wait for the next attempt: people at a terminal do not wait longer.
const MAX_WAIT: Duration = Duration::from_secs(90);
/// Maximum rows of a page.
const MAX_PAGE: u64 = 100;

/// Parameters of a query.
pub(super) type Query = Vec<(&'static str, String)>;

pub(super) struct ApiClient {
    http: Client,
    credentials: Credentials,
    ids: SharedIdSource,
}

#[derive(Deserialize)]
struct Page {
    data: Vec<Box<RawValue>>,
    next_cursor: Option<String>,
}

impl ApiClient {
    pub(super) fn new(http: Client, credentials: Credentials, ids: SharedIdSource) -> Self {
        Self { http, credentials, ids }
    }

    /// The response to a `GET` of the path under `/v1`.
    pub(super) async fn get(&self, path: &[&str], query: &[(&str, String)]) -> Result<String, Failure> {
        self.send(&Method::GET, self.url(path, query)?, None).await
    }

    pub(super) async fn post(&self, path: &[&str], body: Value) -> Result<String, Failure> {
        self.send(&Method::POST, self.url(path, &[])?, Some(&body)).await
    }

    /// The response to a `POST` without a body.
    pub(super) async fn act(&self, path: &[&str]) -> Result<String, Failure> {
        self.post(path, json!({})).await
    }

    pub(super) async fn patch(&self, path: &[&str], body: Value) -> Result<String, Failure> {
        self.send(&Method::PATCH, self.url(path, &[])?, Some(&body)).await
    }

    pub(super) async fn delete(&self, path: &[&str]) -> Result<String, Failure> {
        self.send(&Method::DELETE, self.url(path, &[])?, None).await
    }

    /// Reads the rows of a list page by page, up to a number of rows, and passes each page on.
    pub(super) async fn rows(
        &self,
        path: &[&str],
        query: &[(&'static str, String)],
        limit: u64,
        mut each: impl FnMut(Vec<Box<RawValue>>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (mut left, mut cursor) = (limit, None);
        loop {
            let mut query = query.to_vec();
            query.push(("limit", left.min(MAX_PAGE).to_string()));
            query.extend(cursor.map(|cursor| ("cursor", cursor)));
            let page: Page = serde_json::from_str(&self.get(path, &query).await?)?;
            left = left.saturating_sub(page.data.len() as u64);
            each(page.data)?;
            match page.next_cursor {
                Some(next) if left > 0 => cursor = Some(next),
                _ => return Ok(()),
            }
        }
    }

    fn url(&self, path: &[&str], query: &[(&str, String)]) -> Result<Url, Failure> {
        // A URL has no such segments, encoded or not, and no line ends and tabs: the request would be another one.
        let is_wrong = |part: &&&str| ["", ".", ".."].contains(*part) || part.contains(char::is_control);
        if let Some(part) = path.iter().find(is_wrong) {
            return Err(format!("`{}` is not an id or another reference", part.escape_debug()).into());
        }
        let mut url = Url::parse(&self.credentials.base)?;
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("v1").extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(url)
    }

    async fn send(&self, method: &Method, url: Url, body: Option<&Value>) -> Result<String, Failure> {
        // All attempts have the same key, so that the change happens once.
        let idempotency_key = id::random("cli_", self.ids.as_ref());
        let mut attempts = 1;
        loop {
            let (why, wait) = match self.attempt(method, &url, body, &idempotency_key).await {
                Ok(text) => return Ok(text),
                Err(Unanswered::Refused(why)) => return Err(why.into()),
                Err(Unanswered::Later { why, wait }) => (why, wait),
            };
            if attempts == MAX_ATTEMPTS || wait.is_zero() || wait > MAX_WAIT {
                return Err(why.into());
            }
            note(&format!("{why}; trying again in {} s", wait.as_secs()));
            sleep(wait).await;
            attempts += 1;
        }
    }

    async fn attempt(
        &self,
        method: &Method,
        url: &Url,
        body: Option<&Value>,
        idempotency_key: &str,
    ) -> Result<String, Unanswered> {
        let key = self.credentials.key.expose_secret().trim();
        let mut request = self.http.request(method.clone(), url.clone()).bearer_auth(key);
        if let Some(body) = body {
            request = request.header("idempotency-key", idempotency_key).json(body);
        }
        let base = &self.credentials.base;
        let response = http::send(request, base).await?;
        if !http::is_json(response.headers()) {
            return Err(Unanswered::Refused(http::other_service(base, response.status())));
        }
        let broken = |why: String| Unanswered::Refused(format!("{base}: {why}"));
        let text = timeout(RESPONSE_TIMEOUT, response.text()).await;
        let text = text.map_err(|_| broken("the response is not complete in time".to_owned()))?;
        text.map_err(|error| broken(whole(error)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::{Router, routing::get};
    use thesis_net::clock::SystemIdSource;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn another_service_at_the_address_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let routes = Router::new().route("/v1/me", get("a page"));
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        let http = http::client(None).unwrap().no_proxy().build().unwrap();
        let credentials = Credentials { key: "k".into(), base: base.clone() };
        let client = ApiClient::new(http, credentials, Arc::new(SystemIdSource));
        for (path, status) in [("me", "200 OK"), ("theses", "404 Not Found")] {
            let error = client.get(&[path], &[]).await.unwrap_err().to_string();
            assert_eq!(error, format!("{base} answers {status}, and not as the API does; check the address"));
        }
    }
}
