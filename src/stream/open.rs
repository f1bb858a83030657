//! Opens the stream of events.

use reqwest::{
    Client, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE},
};
use secrecy::ExposeSecret as _;
use url::Url;

use crate::{
    account::Credentials,
    http::{self, Unanswered},
};

pub(crate) struct StreamClient {
    http: Client,
    url: Url,
    credentials: Credentials,
}

pub(super) enum NotOpen {
    /// The replay is complete.
    Complete,
    Unanswered(Unanswered),
}

impl StreamClient {
    /// The stream of a key, with these parameters of its query.
    pub(crate) fn new(
        http: Client,
        credentials: Credentials,
        query: &[(&str, String)],
    ) -> Result<Self, url::ParseError> {
        let mut url = Url::parse(&format!("{}/v1/events/stream", credentials.base))?;
        for (name, value) in query {
            url.query_pairs_mut().append_pair(name, value);
        }
        Ok(Self { http, url, credentials })
    }

    /// Address of the API.
    pub(super) fn base(&self) -> &str {
        &self.credentials.base
    }

    /// Opens the stream after a cursor, or at its end.
    pub(super) async fn open(&self, cursor: Option<&str>) -> Result<Response, NotOpen> {
        let key = self.credentials.key.expose_secret().trim();
        let mut request = self.http.get(self.url.clone()).bearer_auth(key).header(ACCEPT, "text/event-stream");
        if let Some(cursor) = cursor {
            request = request.header("last-event-id", cursor);
        }
        let response = http::send(request, self.base()).await.map_err(NotOpen::Unanswered)?;
        if response.status() == StatusCode::NO_CONTENT {
            return Err(NotOpen::Complete);
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.starts_with("text/event-stream") {
            return Ok(response);
        }
        let why = format!("{} answers with no stream of events", self.url);
        Err(NotOpen::Unanswered(Unanswered::Refused(why)))
    }
}
