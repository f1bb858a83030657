//! A subscription over gRPC.

use thesis_proto::{
    json::event_json,
    time::parse_iso8601,
    v1::{
        EventFilters, EventType, SubscribeRequest, SubscribeResponse, event_service_client::EventServiceClient,
        subscribe_response::Message,
    },
};
use tonic::{
    Code, Request, Status, Streaming,
    metadata::AsciiMetadataValue,
    transport::{Channel, ClientTlsConfig, Endpoint},
};
use tonic_types::StatusExt as _;

use super::{
    item::{Gap, Item, Query},
    target::{Refusal, Target, soon},
};
use crate::Miss;

pub(super) struct Call {
    messages: Streaming<SubscribeResponse>,
    /// The newest cursor.
    cursor: String,
}

impl Call {
    /// Opens a subscription, or returns its error.
    pub(super) async fn open(target: &Target, key: &str, query: &Query) -> Result<Result<Self, Refusal>, Miss> {
        let address = target.options.grpc.as_deref().ok_or(Miss::NotApplicable("needs --grpc"))?;
        let mut events = EventServiceClient::new(channel(address)?);
        let mut request = Request::new(SubscribeRequest {
            types: vec![EventType::ThesisCreated.into()],
            filters: Some(EventFilters {
                token: query.tokens.clone(),
                handle: query.handle.iter().cloned().collect(),
                ..EventFilters::default()
            }),
            cursor: query.cursor.clone(),
            from: query.from.as_deref().and_then(parse_iso8601),
            to: query.to.as_deref().and_then(parse_iso8601),
            speed: None,
        });
        let credential = AsciiMetadataValue::try_from(format!("Bearer {key}"));
        request.metadata_mut().insert("authorization", credential.map_err(|_| "the key is no ASCII text")?);
        match soon("the head of a subscription", events.subscribe(request)).await? {
            Ok(response) => Ok(Ok(Self { messages: response.into_inner(), cursor: String::new() })),
            Err(status) => refusal(&status).map(Err),
        }
    }

    /// The next item.
    pub(super) async fn next(&mut self) -> Result<Item, Miss> {
        let response = self.messages.message().await.map_err(|status| format!("the stream ended: {status}"))?;
        let Some(response) = response else { return Ok(Item::End(self.cursor.clone())) };
        match response.message {
            Some(Message::Heartbeat(heartbeat)) => {
                self.cursor.clone_from(&heartbeat.cursor);
                Ok(Item::Cursor(heartbeat.cursor))
            }
            Some(Message::Gap(gap)) => Ok(Item::Gap(Gap {
                first_cursor: gap.first_cursor,
                last_cursor: gap.last_cursor,
                skipped: gap.skipped,
                path: gap.path,
            })),
            Some(Message::Event(sent)) => {
                let event = sent.event.ok_or("an event message without its event")?;
                let event = serde_json::from_slice(&event_json(&event)).map_err(|error| error.to_string())?;
                self.cursor.clone_from(&sent.cursor);
                Ok(Item::Event { cursor: sent.cursor, event })
            }
            None => Err("an empty message".into()),
        }
    }
}

fn channel(address: &str) -> Result<Channel, Miss> {
    let wrong = |error: tonic::transport::Error| format!("--grpc: {error}");
    let mut endpoint = Endpoint::from_shared(address.to_owned()).map_err(wrong)?;
    if address.starts_with("https:") {
        endpoint = endpoint.tls_config(ClientTlsConfig::new().with_enabled_roots()).map_err(wrong)?;
    }
    Ok(endpoint.connect_lazy())
}

/// The error of a status, with the status that it has over HTTP. A status without a reason is a failure of the call.
fn refusal(status: &Status) -> Result<Refusal, Miss> {
    let details = status.get_error_details();
    let info = details.error_info().ok_or_else(|| format!("a status without ErrorInfo: {status}"))?;
    let status = match status.code() {
        Code::InvalidArgument => 400,
        Code::Unauthenticated => 401,
        Code::PermissionDenied => 403,
        Code::ResourceExhausted => 429,
        _ => 500,
    };
    Ok(Refusal { status: Some(status), code: info.reason.clone() })
}
