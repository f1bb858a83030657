//! Sends requests to the upstream over HTTP. One call is one try; the caller decides on pauses and repeats.

mod feed;
mod response;
#[cfg(test)]
mod tests;

use std::time::Duration;

use bytes::Bytes;
use reqwest::{
    Client, RequestBuilder,
    header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue},
    redirect::Policy,
    retry,
};
use rustls::RootCertStore;
use secrecy::ExposeSecret as _;
use thesis_net::tls::client_config;
use thesis_proto::time::format_millis;
use url::Url;

pub use self::{
    feed::{Feed, FeedError},
    response::LookupError,
};
use super::settings::UpstreamSettings;

const PAGE_THESES: &str = "200";
/// Idle time after which the client closes a connection. Common servers close theirs after 5 s, and a lookup must not
/// use a connection that closes.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThesisScope<'a> {
    Token {
        chain: &'a str,
        address: &'a str,
    },
    /// Theses of the profile with this upstream id.
    Profile(&'a str),
    Everything,
}

#[derive(Debug)]
pub struct UpstreamClient {
    http: Client,
    base: Url,
    /// Time limit for the whole response to a lookup, and for the head of the feed's response.
    timeout: Duration,
}

impl UpstreamClient {
    /// Creates a client that trusts the public roots.
    pub fn new(settings: &UpstreamSettings) -> Result<Self, String> {
        let mut base = settings.url.clone();
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
            return Err("SVC_UPSTREAM_URL: must be an http or https URL".to_owned());
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err("SVC_UPSTREAM_URL: must not contain credentials; SVC_UPSTREAM_TOKEN has them".to_owned());
        }
        base.set_query(None);
        base.set_fragment(None);
        let token = settings.token.expose_secret().trim();
        let mut authorization = HeaderValue::try_from(format!("Bearer {token}"))
            .ok()
            .filter(|_| !token.is_empty())
            .ok_or("SVC_UPSTREAM_TOKEN: must have characters that a header can carry")?;
        authorization.set_sensitive(true);
        let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        let http = Client::builder()
            .user_agent("trade-thesis")
            .default_headers(HeaderMap::from_iter([(AUTHORIZATION, authorization)]))
            .tls_backend_preconfigured(client_config(roots))
            .redirect(Policy::none())
            .retry(retry::never())
            .referer(false)
            .no_proxy()
            .http1_only()
            // A lookup that is given up leaves a half-open connection, and only this timeout ends it.
            .connect_timeout(settings.timeout)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .build()
            .map_err(|error| format!("SVC_UPSTREAM_URL: {}", response::why(error)))?;
        Ok(Self { http, base, timeout: settings.timeout })
    }

    pub async fn profile(&self, id: &str) -> Result<Bytes, LookupError> {
        self.lookup(&["profiles", id], &[]).await
    }

    /// The profile with this handle, in any case.
    pub async fn profile_by_handle(&self, handle: &str) -> Result<Bytes, LookupError> {
        self.lookup(&["profiles"], &[("handle", handle)]).await
    }

    pub async fn wallets(&self, id: &str) -> Result<Bytes, LookupError> {
        self.lookup(&["profiles", id, "wallets"], &[]).await
    }

    pub async fn token(&self, chain: &str, address: &str) -> Result<Bytes, LookupError> {
        self.lookup(&["tokens", chain, address], &[]).await
    }

    /// A page of theses that changed at `since_ms` or later, newest first. It follows the page that returned the
    /// cursor.
    pub async fn theses(
        &self,
        scope: ThesisScope<'_>,
        since_ms: Option<i64>,
        cursor: Option<&str>,
    ) -> Result<Bytes, LookupError> {
        let since = since_ms.map(format_millis);
        let mut query = match scope {
            ThesisScope::Token { chain, address } => vec![("chain", chain), ("address", address)],
            ThesisScope::Profile(id) => vec![("profile", id)],
            ThesisScope::Everything => Vec::new(),
        };
        query.extend(since.as_deref().map(|since| ("since", since)));
        query.extend(cursor.map(|cursor| ("cursor", cursor)));
        query.push(("limit", PAGE_THESES));
        self.lookup(&["theses"], &query).await
    }

    async fn lookup(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Bytes, LookupError> {
        // No URL can name the object, so the upstream has none.
        let url = self.url(path, query).ok_or(LookupError::NotFound)?;
        let request = self.http.get(url).header(ACCEPT, "application/json");
        let max_bytes = if path == ["theses"] { response::MAX_PAGE } else { response::MAX_OBJECT };
        let answer = async { response::body(send(request).await?, max_bytes).await };
        tokio::time::timeout(self.timeout, answer).await.unwrap_or_else(|_| Err(self.late()))
    }

    fn url(&self, path: &[&str], query: &[(&str, &str)]) -> Option<Url> {
        // A parser removes these segments from a path, which would then name another object.
        let has_place = |segment: &&str| !matches!(*segment, "" | "." | "..") && !segment.contains(char::is_control);
        if !path.iter().all(has_place) {
            return None;
        }
        let mut url = self.base.clone();
        url.path_segments_mut().ok()?.pop_if_empty().extend(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Some(url)
    }

    fn late(&self) -> LookupError {
        LookupError::failed(format!("no whole answer within {} ms", self.timeout.as_millis()))
    }
}

async fn send(request: RequestBuilder) -> Result<reqwest::Response, LookupError> {
    request.send().await.map_err(|error| LookupError::failed(response::why(error)))
}
