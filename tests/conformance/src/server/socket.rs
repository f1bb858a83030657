//! A WebSocket, opened by the upgrade of an HTTP request.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use reqwest::{
    Method, RequestBuilder, StatusCode, Upgraded,
    header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE},
};
use serde_json::{Value, json};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol::Role},
};

use super::{
    item::{Gap, Item, Query},
    target::{RATE_LIMITED, Refusal, Target, retried, soon, whole, within},
};
use crate::{Miss, verdict::ensure};

/// The key of RFC 6455 (1.3) and what a server makes of it.
const NONCE: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

pub(super) struct Socket {
    socket: WebSocketStream<Upgraded>,
    /// The cursor of `subscribed`, until it is read as the first item.
    first: Option<String>,
}

/// A request for a WebSocket, with the version of the protocol.
pub(super) fn upgrade(target: &Target, key: Option<&str>, query: &str, version: &str) -> RequestBuilder {
    let request = target.request(Method::GET, &format!("/v1/stream{query}"), key);
    let request = request.header(CONNECTION, "Upgrade").header(UPGRADE, "websocket");
    request.header(SEC_WEBSOCKET_KEY, NONCE).header(SEC_WEBSOCKET_VERSION, version)
}

impl Socket {
    /// Opens a socket with a key or with a ticket in the query, or returns its error.
    pub(super) async fn try_open(
        target: &Target,
        key: Option<&str>,
        query: &str,
    ) -> Result<Result<Self, Refusal>, Miss> {
        let response = match target.send(upgrade(target, key, query, "13")).await? {
            Ok(response) => response,
            Err(refusal) => return Ok(Err(refusal)),
        };
        ensure!(response.status() == StatusCode::SWITCHING_PROTOCOLS, "{} instead of 101", response.status());
        let accept = response.headers().get(SEC_WEBSOCKET_ACCEPT);
        ensure!(accept.is_some_and(|accept| accept == ACCEPT), "Sec-WebSocket-Accept is {accept:?}, not {ACCEPT}");
        let upgraded = response.upgrade().await.map_err(whole)?;
        let socket = WebSocketStream::from_raw_socket(upgraded, Role::Client, None).await;
        Ok(Ok(Self { socket, first: None }))
    }

    /// Opens a socket, again while a limit refuses it.
    pub(super) async fn open(target: &Target, key: Option<&str>, query: &str) -> Result<Self, Miss> {
        retried(async || Self::try_open(target, key, query).await).await
    }

    /// Opens a socket with the key under judgement, and reads its welcome.
    pub(super) async fn welcomed(target: &Target) -> Result<Self, Miss> {
        let mut socket = Self::open(target, Some(&target.options.key), "").await?;
        socket.expect("welcome").await?;
        Ok(socket)
    }

    /// Opens a socket with one subscription, or returns the error of either.
    pub(super) async fn subscribe(target: &Target, key: &str, query: &Query) -> Result<Result<Self, Refusal>, Miss> {
        let mut socket = match Self::try_open(target, Some(key), "").await? {
            Ok(socket) => socket,
            Err(refusal) => return Ok(Err(refusal)),
        };
        socket.expect("welcome").await?;
        socket.send(&subscribe("s", query)).await?;
        let response = socket.next().await?;
        if response["op"] == "error" {
            let code = response["error"]["code"].as_str().unwrap_or("without a code").to_owned();
            return Ok(Err(Refusal { status: None, code }));
        }
        let cursor = response["cursor"].as_str();
        ensure!(response["op"] == "subscribed" && cursor.is_some(), "{response} instead of subscribed with a cursor");
        socket.first = cursor.map(str::to_owned);
        Ok(Ok(socket))
    }

    pub(super) async fn send(&mut self, message: &Value) -> Result<(), Miss> {
        self.send_frame(Message::text(message.to_string())).await
    }

    /// Sends a frame.
    pub(super) async fn send_frame(&mut self, frame: Message) -> Result<(), Miss> {
        self.socket.send(frame).await.map_err(|error| format!("nothing can be sent: {error}").into())
    }

    /// The next message; at the end the close code, if there is one.
    async fn read(&mut self) -> Result<Result<Value, Option<u16>>, Miss> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => {
                    let message = serde_json::from_str(&text).map_err(|_| format!("a message is no JSON: {text}"))?;
                    return Ok(Ok(message));
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(Some(frame)))) => return Ok(Err(Some(frame.code.into()))),
                Some(Ok(other)) if !other.is_close() => return Err(format!("{other:?} instead of a text").into()),
                _ => return Ok(Err(None)),
            }
        }
    }

    /// The next message, whatever it is.
    async fn message(&mut self) -> Result<Value, Miss> {
        self.read().await?.map_err(|code| format!("the socket was closed with {code:?}").into())
    }

    /// The next message other than a heartbeat.
    pub(super) async fn next(&mut self) -> Result<Value, Miss> {
        let next = async {
            loop {
                let message = self.message().await?;
                if message["op"] != "heartbeat" {
                    return Ok::<_, Miss>(message);
                }
            }
        };
        soon("a message", next).await?
    }

    /// Sends a message, again while the rate limit refuses it; returns the response.
    pub(super) async fn request(&mut self, message: &Value) -> Result<Value, Miss> {
        let response = retried(async || {
            self.send(message).await?;
            Ok(unless_limited(self.next().await?))
        });
        response.await
    }

    /// The next message, which must be of this kind.
    pub(super) async fn expect(&mut self, op: &str) -> Result<Value, Miss> {
        let message = self.next().await?;
        ensure!(message["op"] == op, "{message} instead of {op}");
        Ok(message)
    }

    /// Demands that the socket is closed with a code, whatever comes before.
    pub(super) async fn closed(&mut self, limit: Duration, code: u16) -> Result<(), Miss> {
        let closing = async {
            loop {
                if let Err(given) = self.read().await? {
                    return Ok::<_, Miss>(given);
                }
            }
        };
        let given = within(limit, &format!("the close code {code}"), closing).await??;
        ensure!(given == Some(code), "closed with {given:?} instead of {code}");
        Ok(())
    }

    /// The next item of the only subscription.
    pub(super) async fn next_item(&mut self) -> Result<Item, Miss> {
        if let Some(cursor) = self.first.take() {
            return Ok(Item::Cursor(cursor));
        }
        let mut message = self.message().await?;
        let event = message["event"].take();
        let cursor = message["cursor"].as_str().map(str::to_owned);
        match (message["op"].as_str(), cursor) {
            (Some("event"), Some(cursor)) => Ok(Item::Event { cursor, event }),
            (Some("heartbeat"), Some(cursor)) => Ok(Item::Cursor(cursor)),
            (Some("ended"), Some(cursor)) => Ok(Item::End(cursor)),
            (Some("gap"), _) => Gap::read(&message).map(Item::Gap),
            _ => Err(format!("{message} instead of an event, a gap or a heartbeat with a cursor").into()),
        }
    }
}

/// A response, or its refusal by the rate limit.
pub(super) fn unless_limited(response: Value) -> Result<Value, Refusal> {
    if response["error"]["code"] == RATE_LIMITED {
        return Err(Refusal::of_rate_limit(None));
    }
    Ok(response)
}

/// The request of a subscription.
pub(super) fn subscribe(sub: &str, query: &Query) -> Value {
    let handles: Vec<&str> = query.handle.iter().map(String::as_str).collect();
    let mut request = json!({
        "op": "subscribe",
        "rid": format!("r-{sub}"),
        "sub": sub,
        "types": [Query::TYPE],
        "filters": {"token": query.tokens, "handle": handles},
    });
    if let Some(cursor) = &query.cursor {
        request["cursor"] = json!(cursor);
    }
    for (name, time) in [("from", &query.from), ("to", &query.to)] {
        if let Some(time) = time {
            request[name] = json!(time);
        }
    }
    request
}
