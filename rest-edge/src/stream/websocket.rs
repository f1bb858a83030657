//! `GET /v1/stream`: opens a WebSocket.
//!
//! WebSockets come only by the upgrade of HTTP/1.1. That of RFC 8441 would leave HTTP/2 in the path of each frame,
//! which costs the memory that leaving HTTP saves. A client that is not offered it opens HTTP/1.1 by itself.

use base64::{
    Engine as _, alphabet,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version,
    header::{
        AUTHORIZATION, CONNECTION, CONTENT_LENGTH, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION,
        TRANSFER_ENCODING, UPGRADE,
    },
};
use http_body_util::Either;
use thesis_net::server::Takeover;
use thesis_proto::{
    error::{ApiError, ErrorCode},
    v1::{self, OpenKind},
};
use tungstenite::handshake::derive_accept_key;

use super::{client::Client, one_credential, socket::Socket};
use crate::{
    answer::{Answer, Failure, copy_headers},
    call::Call,
    context::Context,
    input::Param,
    route::{Route, route},
};

/// The keys of some clients have unused bits in the last character, as the example in RFC 6455 (4.1) does.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

const QUERY: &[Param] = &[super::TICKET];

pub(crate) fn routes() -> Vec<Route> {
    vec![
        route!(GET, "/v1/stream", "StreamService/Open", open)
            .named("openWebSocket", "Streams", "Opens a WebSocket that streams events.")
            .about(
                "Open it with a library for WebSockets: a generated client cannot. The guide [Streams over \
                 WebSocket](/docs/streams-websocket) shows such libraries.\n\n\
                 Open it over HTTP/1.1 with `Upgrade: websocket`, and with a key in `Authorization`, with \
                 `?ticket=`, or with the message `auth` first, within 10 seconds. `/v1/asyncapi.json` has the \
                 schemas of all messages, and `x-websocket-messages` of the OpenAPI description names them; each \
                 message is a JSON object in a text frame of up to 64 KiB.\n\n\
                 After `welcome`, send `subscribe`, up to 16 times with different names in `sub`; each counts as \
                 one standard request, and the connection as one of the plan's streams. `subscribed` confirms it, \
                 `event` messages follow, and `heartbeat` tells a cursor every 15 seconds. Resume with the last \
                 cursor in `subscribe`; a `gap` message tells what could not be replayed. A wrong request is \
                 answered with `error`, and the connection lives.\n\n\
                 With `from`, `to` and `speed` a subscription replays past events, as over SSE. `ended` tells that it \
                 has ended at `to`. A cursor beside `from` resumes a replay.\n\n\
                 This side closes with a code. Reconnect after 4001 (shutting down), 4008 (too slow), 4012 \
                 (no message from you for 45 seconds) and 1013 (try later). Do not after 4500 (key bad, revoked or \
                 expired), 4501 (not a JSON object, or not `auth` first), 4502 (no `auth` in time), 4503 (missing \
                 scope), 4504 (stream limit) and 4505 (replaced by its ticket's new connection), nor after RFC \
                 6455's 1002, 1003, 1007 and 1009.\n\n\
                 What is wrong at the handshake is answered over HTTP with the error envelope.",
            )
            .needs(Some("streams:read"), "standard")
            .fails(&[ErrorCode::FeatureDisabled, ErrorCode::StreamLimitReached])
            .query(QUERY)
            .answers_upgrade(),
    ]
}

/// True if the header lists the token.
fn has_token(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|listed| listed.trim().eq_ignore_ascii_case(token))
}

/// The response to a client's key (RFC 6455, 4.2.2).
fn accept_key(key: &HeaderValue) -> HeaderValue {
    HeaderValue::try_from(derive_accept_key(key.as_bytes())).expect("Base64 is printable")
}

/// The key of a WebSocket request.
fn handshake_key(call: &Call) -> Result<&HeaderValue, Failure> {
    let headers = &call.head.headers;
    let asks = call.head.version == Version::HTTP_11
        && has_token(headers, CONNECTION, "upgrade")
        && has_token(headers, UPGRADE, "websocket");
    if !asks {
        let message = "this path answers WebSockets only: send Upgrade: websocket over HTTP/1.1";
        return Err(Failure::shape(ErrorCode::InvalidRequest, message));
    }
    // A body's bytes would count as frames.
    if headers.contains_key(TRANSFER_ENCODING) || headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0") {
        return Err(Failure::shape(ErrorCode::InvalidRequest, "a request for a WebSocket has no body; leave it out"));
    }
    let mut keys = headers.get_all(SEC_WEBSOCKET_KEY).iter();
    let key = keys.next().filter(|key| BASE64.decode(key.as_bytes()).is_ok_and(|nonce| nonce.len() == 16));
    key.filter(|_| keys.next().is_none()).ok_or_else(|| {
        Failure::shape(ErrorCode::InvalidRequest, "Sec-WebSocket-Key must be one value of 16 bytes in Base64")
    })
}

async fn open(edge: &Context, call: &Call) -> Answer {
    let mut query = call.query()?;
    let ticket = query.text("ticket");
    call.add_unread(query.unread());
    one_credential(call, ticket.as_ref())?;
    // Core reports wrong parameters before the edge reports a missing upgrade.
    if call.head.method == Method::HEAD || !call.unread.lock().is_empty() {
        let mut request = v1::OpenRequest { ticket, ..v1::OpenRequest::default() };
        request.set_kind(OpenKind::Check);
        let (metadata, ..) = edge.core.streams.open(call.request(request)).await?.into_parts();
        let mut response = Response::new(Either::Left(Default::default()));
        copy_headers(&metadata, response.headers_mut());
        return Ok(response);
    }
    let key = accept_key(handshake_key(call)?);
    if call.head.headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Ok(other_version(edge, call));
    }
    let client = Client::new(edge, call);
    let mut response = Response::new(Either::Left(Default::default()));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, key);
    let opened = if ticket.is_some() || call.head.headers.contains_key(AUTHORIZATION) {
        let mut request = v1::OpenRequest { ticket, ..v1::OpenRequest::default() };
        request.set_kind(OpenKind::Place);
        let (opened, stream) = edge.hub.open("websocket", call.request(request)).await?;
        copy_headers(&opened.metadata, headers);
        Some(stream)
    } else {
        None
    };
    response.extensions_mut().insert(Takeover::new(|socket| Socket::new(socket, client, opened).run()));
    Ok(response)
}

/// The response to another version of the protocol (RFC 6455, 4.2.2).
fn other_version(edge: &Context, call: &Call) -> Response<crate::answer::Body> {
    let error = ApiError::new(ErrorCode::InvalidRequest, "Sec-WebSocket-Version must be 13");
    let headers = HeaderMap::from_iter([
        (SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13")),
        (UPGRADE, HeaderValue::from_static("websocket")),
        (CONNECTION, HeaderValue::from_static("upgrade")),
    ]);
    let mut response = edge.errors.answer(&error, &headers, call.origin.request_id.to_str().unwrap_or_default());
    *response.status_mut() = StatusCode::UPGRADE_REQUIRED;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_a_key_is_that_of_the_rfc() {
        let key = HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accept_key(&key), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
