//! Rules of WebSockets alone.

use std::time::Duration;

use reqwest::{Method, StatusCode, header::SEC_WEBSOCKET_VERSION};
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_tungstenite::tungstenite::{
    Message,
    protocol::frame::{
        Frame,
        coding::{Data, OpCode},
    },
};

use super::{
    item::Query,
    socket::{Socket, subscribe, unless_limited, upgrade},
    stream::Transport,
    target::{Refusal, SOON, Target, retried, soon, whole},
};
use crate::{
    Miss,
    verdict::{Verdict, ensure},
};

/// Maximum bytes of a client's message.
const MAX_MESSAGE: usize = 64 * 1024;
/// Maximum number of subscriptions of a connection.
const MAX_SUBSCRIPTIONS: usize = 16;
/// A server closes a connection after this time without any frame.
const SILENCE: Duration = Duration::from_secs(45);

pub(super) async fn welcome(target: &Target, _transport: Transport) -> Verdict {
    let by_header = Socket::open(target, Some(&target.options.key), "").await?.expect("welcome").await?;
    // A server may close a socket whose first message the rate limit refuses, so each try opens another one.
    let by_message = retried(async || {
        let mut socket = Socket::open(target, None, "").await?;
        socket.send(&json!({"op": "auth", "key": target.options.key})).await?;
        Ok(unless_limited(socket.next().await?))
    });
    for welcome in [by_header, by_message.await?] {
        let is_whole =
            welcome["op"] == "welcome" && welcome["connection_id"].is_string() && welcome["heartbeat_s"] == 15;
        ensure!(is_whole, "{welcome} instead of a welcome with connection_id and heartbeat_s 15");
    }
    Ok(())
}

/// Demands that a connection whose first message is this one is closed with a code.
async fn first_message(target: &Target, message: &Value, code: u16) -> Verdict {
    let mut socket = Socket::open(target, None, "").await?;
    socket.send(message).await?;
    socket.closed(SOON, code).await
}

pub(super) async fn close_4500(target: &Target, _transport: Transport) -> Verdict {
    let key = format!("svc_test_{}", "0".repeat(40));
    first_message(target, &json!({"op": "auth", "key": key}), 4500).await
}

pub(super) async fn close_4501(target: &Target, _transport: Transport) -> Verdict {
    first_message(target, &subscribe("s", &Query::default()), 4501).await?;
    let mut socket = Socket::welcomed(target).await?;
    socket.send(&json!(["no object"])).await?;
    socket.closed(SOON, 4501).await
}

pub(super) async fn close_4502(target: &Target, _transport: Transport) -> Verdict {
    Socket::open(target, None, "").await?.closed(SOON, 4502).await
}

pub(super) async fn close_4503(target: &Target, _transport: Transport) -> Verdict {
    let key = target.options.narrow_key.as_deref().ok_or(Miss::NotApplicable("needs --narrow-key"))?;
    first_message(target, &json!({"op": "auth", "key": key}), 4503).await
}

pub(super) async fn close_4012(target: &Target, _transport: Transport) -> Verdict {
    let mut socket = Socket::welcomed(target).await?;
    // Who reads nothing answers no ping.
    sleep(SILENCE).await;
    socket.closed(SOON, 4012).await
}

pub(super) async fn close_of_rfc(target: &Target, _transport: Transport) -> Verdict {
    let raw = |payload: &'static [u8]| Message::Frame(Frame::message(payload, OpCode::Data(Data::Text), true));
    for (frame, code) in [
        (Message::binary("{}"), 1003),
        (raw(b"\"\xc3\x28\""), 1007),
        (Message::text(" ".repeat(MAX_MESSAGE + 1)), 1009),
    ] {
        let mut socket = Socket::welcomed(target).await?;
        // The server may close while a long frame is under way.
        let _sent = socket.send_frame(frame).await;
        socket.closed(SOON, code).await?;
    }
    Ok(())
}

pub(super) async fn subscriptions(target: &Target, _transport: Transport) -> Verdict {
    let (token, other) = (target.new_token(), target.new_token());
    let mut socket = Socket::welcomed(target).await?;
    for number in 0..MAX_SUBSCRIPTIONS {
        let query = Query::of(if number < 2 { &token } else { &other });
        let response = socket.request(&subscribe(&number.to_string(), &query)).await?;
        let fields = ["cursor", "resumed", "replayed", "gap"];
        let is_whole = response["op"] == "subscribed" && fields.iter().all(|field| !response[*field].is_null());
        ensure!(is_whole, "{response} instead of subscribed with {fields:?}");
    }
    let refused = socket.request(&subscribe("one more", &Query::of(&token))).await?;
    ensure!(refused["op"] == "error", "{refused} for one subscription more than {MAX_SUBSCRIPTIONS}");
    let event = target.post(&token, "for two").await?;
    let mut subs = Vec::new();
    for _ in 0..2 {
        let message = socket.expect("event").await?;
        ensure!(message["event"] == event, "{message} instead of the event {}", event["id"]);
        subs.push(message["sub"].as_str().unwrap_or_default().to_owned());
    }
    subs.sort_unstable();
    ensure!(subs == ["0", "1"], "the event comes for the subscriptions {subs:?}");
    let gone = socket.request(&json!({"op": "unsubscribe", "rid": "u", "sub": "0"})).await?;
    ensure!(gone == json!({"op": "unsubscribed", "rid": "u", "sub": "0"}), "{gone} instead of unsubscribed");
    target.post(&token, "for one").await?;
    let message = socket.expect("event").await?;
    ensure!(message["sub"] == "1", "an event comes for {} after unsubscribe", message["sub"]);
    let pong = socket.request(&json!({"op": "ping", "rid": "p"})).await?;
    ensure!(pong["op"] == "pong", "{pong} instead of a pong: the ended subscription has an event");
    Ok(())
}

pub(super) async fn wrong_requests(target: &Target, _transport: Transport) -> Verdict {
    let mut socket = Socket::welcomed(target).await?;
    let query = Query::of(&target.new_token());
    let first = socket.request(&subscribe("taken", &query)).await?;
    ensure!(first["op"] == "subscribed", "{first} instead of subscribed");
    for wrong in [
        json!({"op": "open", "rid": "r"}),
        json!({"op": "ping", "rid": "r", "more": 1}),
        json!({"op": "subscribe", "rid": "r", "sub": "b", "types": ["thesis.gone"]}),
        json!({"op": "unsubscribe", "rid": "r", "sub": "b"}),
        json!({"op": "subscribe", "rid": "r", "sub": "taken"}),
    ] {
        let refused = socket.request(&wrong).await?;
        let is_named = refused["op"] == "error" && refused["rid"] == "r";
        ensure!(is_named && refused["error"]["code"] == "VALIDATION_FAILED", "{refused} in answer to {wrong}");
    }
    let pong = socket.request(&json!({"op": "ping", "rid": "p"})).await?;
    ensure!(pong == json!({"op": "pong", "rid": "p"}), "{pong} instead of a pong");
    Ok(())
}

pub(super) async fn handshake(target: &Target, _transport: Transport) -> Verdict {
    let key = Some(target.options.key.as_str());
    match target.send_retried(|| target.request(Method::GET, "/v1/stream", key)).await? {
        Ok(response) => return Err(format!("{} for a request without an upgrade", response.status()).into()),
        Err(refusal) => refusal.expect(400, "INVALID_REQUEST")?,
    }
    let old = retried(async || {
        let response = soon("a response", upgrade(target, key, "", "12").send()).await?.map_err(whole)?;
        let is_limited = response.status() == StatusCode::TOO_MANY_REQUESTS;
        Ok(if is_limited { Err(Refusal::of_rate_limit(Some(429))) } else { Ok(response) })
    });
    let old = old.await?;
    let versions = old.headers().get(SEC_WEBSOCKET_VERSION).cloned();
    ensure!(old.status() == 426, "{} for version 12 of the protocol", old.status());
    ensure!(versions.as_ref().is_some_and(|versions| versions == "13"), "Sec-WebSocket-Version is {versions:?}");
    Ok(())
}
