//! One POST: the event as a webhook's delivery.

use std::time::Duration;

use core_service::domain::id;
use delivery_worker::Signer;
use reqwest::{Client, StatusCode, header::HeaderValue};
use thesis_net::{
    clock::{SharedClock, SharedIdSource},
    sse::Event,
};
use thesis_proto::{time::format_millis, v1::ClaimResponse, webhook::EVENT_TYPE};
use tokio::time::timeout;
use url::Url;

use crate::{Failure, stream::Sink, terminal::say};

/// Timeout for the endpoint's response, as for a webhook's.
const ENDPOINT_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) struct Forwarder {
    pub(super) http: Client,
    pub(super) to: Url,
    pub(super) secret: String,
    /// The seed of the Ed25519 key.
    pub(super) signing_key: [u8; 32],
    pub(super) signer: Signer,
    pub(super) clock: SharedClock,
    pub(super) ids: SharedIdSource,
}

impl Sink for Forwarder {
    fn purpose(&self) -> String {
        format!(", forwarding to {}", self.to)
    }

    async fn take(&mut self, id: &str, event: &Event) -> Result<(), Failure> {
        Ok(say(&self.forward(id, event).await)?)
    }
}

impl Forwarder {
    /// POSTs an event once; returns the outcome in one line.
    async fn forward(&self, id: &str, event: &Event) -> String {
        let began = self.clock.now_ms();
        let posted = timeout(ENDPOINT_TIMEOUT, self.post(id, event, began)).await;
        let took = (self.clock.now_ms() - began).max(0);
        let ended = match posted {
            Ok(Ok(status)) => status.as_u16().to_string(),
            Ok(Err(why)) => why.to_owned(),
            Err(_) => "timeout".to_owned(),
        };
        format!("{}  {}  {id}  {ended}  {took} ms", format_millis(began), event.kind)
    }

    async fn post(&self, event_id: &str, event: &Event, now_ms: i64) -> Result<StatusCode, &'static str> {
        let claim = ClaimResponse {
            delivery_id: id::random("del_", self.ids.as_ref()),
            attempt: 1,
            event_id: event_id.to_owned(),
            body: event.data.clone().into(),
            secrets: vec![self.secret.clone()],
            signing_key: self.signing_key.to_vec().into(),
            ..ClaimResponse::default()
        };
        let signed = self.signer.headers(&claim, now_ms.div_euclid(1_000));
        let parts = signed.zip(HeaderValue::from_str(&event.kind).ok());
        let (mut headers, kind) = parts.ok_or("request not sendable")?;
        // The stream's name of the type: this version may not know it.
        headers.insert(EVENT_TYPE, kind);
        let sent = self.http.post(self.to.clone()).headers(headers).body(claim.body).send().await;
        sent.map(|response| response.status()).map_err(|error| why(&error))
    }
}

/// The reason why there is no response.
fn why(error: &reqwest::Error) -> &'static str {
    if error.is_timeout() {
        "timeout"
    } else if error.is_connect() {
        "connection failed"
    } else if error.is_builder() {
        "request not sendable"
    } else {
        "no valid response"
    }
}
