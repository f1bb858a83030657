//! The client: the address, the key and the settings of all calls.

use std::{fmt, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use reqwest::{
    Response,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, RANGE, USER_AGENT},
    redirect::Policy,
    retry,
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use url::Url;

use crate::{
    error::{ApiError, Error},
    request::Request,
};

/// The service responds within 10 seconds, at worst with 503.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(15);
const DEFAULT_MAX_RETRIES: u32 = 5;
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

type Sleep = dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync;

/// Calls the service with one API key, or without one. Clones share their connections.
#[derive(Clone)]
pub struct Client(Arc<Shared>);

struct Shared {
    base_url: String,
    /// None in a client without a key.
    authorization: Option<HeaderValue>,
    user_agent: HeaderValue,
    http: reqwest::Client,
    timeout: Duration,
    max_retries: u32,
    sleep: Box<Sleep>,
}

impl fmt::Debug for Client {
    /// Leaves out the key, so that no log shows it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").field("base_url", &self.0.base_url).finish_non_exhaustive()
    }
}

impl Client {
    /// A client for the address of a service, such as `https://api.example.com`, and an API key.
    ///
    /// # Errors
    /// Fails if address or key have another form.
    pub fn new(base_url: &str, key: &str) -> Result<Self, Error> {
        Self::builder(base_url, key).build()
    }

    /// A client with other settings.
    pub fn builder(base_url: &str, key: &str) -> ClientBuilder {
        ClientBuilder { key: Some(key.to_owned()), ..Self::builder_without_key(base_url) }
    }

    /// A client that sends no API key. It suffices for what everybody may read: the status of the service, and the
    /// keys, checkpoints and tiles of its log. The service refuses all other calls with
    /// [`ErrorCode::MissingApiKey`](crate::ErrorCode::MissingApiKey).
    pub fn builder_without_key(base_url: &str) -> ClientBuilder {
        ClientBuilder {
            base_url: base_url.to_owned(),
            key: None,
            program: None,
            http: None,
            timeout: DEFAULT_TIMEOUT,
            max_retries: DEFAULT_MAX_RETRIES,
            sleep: Box::new(|pause| Box::pin(tokio::time::sleep(pause))),
        }
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.0.timeout
    }

    pub(crate) fn max_retries(&self) -> u32 {
        self.0.max_retries
    }

    pub(crate) async fn sleep(&self, pause: Duration) {
        (self.0.sleep)(pause).await;
    }

    /// Sends one try. Returns a successful response.
    pub(crate) async fn send(&self, request: &Request) -> Result<Response, Error> {
        let form = |error: String| Error::Usage(format!("the request cannot be written: {error}"));
        let mut url =
            Url::parse(&format!("{}{}", self.0.base_url, request.path)).map_err(|error| form(error.to_string()))?;
        if !request.query.0.is_empty() {
            url.query_pairs_mut().extend_pairs(&request.query.0);
        }
        let mut builder =
            self.0.http.request(request.method.clone(), url).header(USER_AGENT, self.0.user_agent.clone());
        if let Some(authorization) = &self.0.authorization {
            builder = builder.header(AUTHORIZATION, authorization.clone());
        }
        let headers = [
            (IDEMPOTENCY_KEY, &request.idempotency_key),
            (LAST_EVENT_ID, &request.last_event_id),
            (RANGE, &request.range),
        ];
        for (name, value) in headers {
            if let Some(value) = value {
                builder = builder.header(name, value);
            }
        }
        if let Some(body) = &request.body {
            builder = builder.header(CONTENT_TYPE, "application/json").body(body.clone());
        }
        let response = builder.send().await.map_err(broken)?;
        if response.status().is_success() {
            return Ok(response);
        }
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = response.bytes().await.map_err(broken)?;
        Err(Error::Api(Box::new(ApiError::read(status, &headers, &body))))
    }
}

/// The error of a request that got no whole response.
pub(crate) fn broken(error: reqwest::Error) -> Error {
    if error.is_builder() {
        return Error::Usage(format!("the request cannot be written: {error}"));
    }
    Error::Connection(Box::new(error))
}

/// Settings of a [`Client`].
#[must_use]
pub struct ClientBuilder {
    base_url: String,
    key: Option<String>,
    program: Option<String>,
    http: Option<reqwest::Client>,
    timeout: Duration,
    max_retries: u32,
    sleep: Box<Sleep>,
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClientBuilder").field("base_url", &self.base_url).finish_non_exhaustive()
    }
}

impl ClientBuilder {
    /// Sets the timeout of one try of a call. The default is 15 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the maximum number of retries of a call. The default is 5, and 0 turns retries off.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    /// Adds the name of your program to the `User-Agent` header, such as `bot/1.2`.
    pub fn user_agent(mut self, program: &str) -> Self {
        self.program = Some(program.to_owned());
        self
    }

    /// Replaces the HTTP client, for example to use a proxy or a certificate authority of your own. It must not have a
    /// timeout, which would end streams.
    pub fn http_client(mut self, client: reqwest::Client) -> Self {
        self.http = Some(client);
        self
    }

    #[cfg(test)]
    pub(crate) fn sleep(mut self, sleep: Box<Sleep>) -> Self {
        self.sleep = sleep;
        self
    }

    /// The client.
    ///
    /// # Errors
    /// Fails if a setting has another form.
    pub fn build(self) -> Result<Client, Error> {
        let base_url = self.base_url.trim_end_matches('/').to_owned();
        let is_address = Url::parse(&base_url).is_ok_and(|url| {
            matches!(url.scheme(), "http" | "https")
                && url.has_host()
                && url.query().is_none()
                && url.fragment().is_none()
        });
        if !is_address {
            return Err(Error::Usage(format!(
                "{base_url:?} is not the address of a service, such as https://api.example.com"
            )));
        }
        let authorization = self.key.as_deref().map(authorization).transpose()?;
        let mut user_agent = concat!("trade-thesis-rust/", env!("CARGO_PKG_VERSION")).to_owned();
        if let Some(program) = &self.program {
            user_agent = format!("{user_agent} {program}");
        }
        let user_agent = HeaderValue::from_str(&user_agent)
            .map_err(|_| Error::Usage("the name of the program is no header".to_owned()))?;
        let http = self.http.map_or_else(default_http, Ok)?;
        let Self { timeout, max_retries, sleep, .. } = self;
        Ok(Client(Arc::new(Shared { base_url, authorization, user_agent, http, timeout, max_retries, sleep })))
    }
}

/// The header with a key.
fn authorization(key: &str) -> Result<HeaderValue, Error> {
    let fault = || Error::Usage("the API key is empty or has a character that no key has".to_owned());
    // A key from a file may have an end of line.
    let key = key.trim();
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(fault());
    }
    let mut header = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| fault())?;
    header.set_sensitive(true);
    Ok(header)
}

/// The service never redirects, and a key must not follow a redirect to another place.
fn default_http() -> Result<reqwest::Client, Error> {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Usage(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(Policy::none())
        .retry(retry::never())
        .referer(false)
        .http1_only()
        .build()
        .map_err(broken)
}
