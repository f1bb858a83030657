//! Streams of an edge: Server-Sent Events and WebSockets.

use std::{error::Error, time::Duration};

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::{
    Request,
    header::{AUTHORIZATION, HOST},
};
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use thesis_net::sse::{Parser, StreamItem};
use tokio::time::timeout;
use tokio_tungstenite::{
    client_async,
    tungstenite::{Message, client::IntoClientRequest as _},
};
use turmoil::net::TcpStream;

use super::Progress;
use crate::tests::simulation::network::EDGE_PORT;

/// Time within which a stream opens.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// Time without a byte after which a client gives a stream up. A heartbeat comes every 15 seconds.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(20);
const MAX_EVENT_BYTES: usize = 1024 * 1024;

type Failure = Box<dyn Error + Send + Sync>;

/// The name of an edge.
fn edge(progress: &mut Progress<'_>) -> String {
    let number = progress.dice.roll(progress.cluster.edges.len());
    progress.cluster.edges[number].name.clone()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// Follows Server-Sent Events until the stream ends; returns the reason.
pub(super) async fn read_events(progress: &mut Progress<'_>, key: &str) -> String {
    match try_read_events(progress, key).await {
        Ok(()) => "closed".to_owned(),
        Err(failure) => failure.to_string(),
    }
}

async fn try_read_events(progress: &mut Progress<'_>, key: &str) -> Result<(), Failure> {
    let edge = edge(progress);
    let mut request = Request::get("/v1/events/stream").header(HOST, &edge);
    if let Some(cursor) = &progress.cursor {
        request = request.header("last-event-id", cursor);
    }
    let request = request.header(AUTHORIZATION, format!("Bearer {key}")).body(Empty::<Bytes>::new())?;
    let opening = async {
        let stream = TcpStream::connect((edge, EDGE_PORT)).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let response = sender.send_request(request).await?;
        Ok::<_, Failure>((sender, response))
    };
    // The connection ends with its sender.
    let (_sender, mut response) = timeout(OPEN_TIMEOUT, opening).await??;
    if response.status() != 200 {
        return Err(response.status().to_string().into());
    }
    let mut parser = Parser::new(MAX_EVENT_BYTES);
    while let Some(frame) = timeout(SILENCE_TIMEOUT, response.body_mut().frame()).await? {
        for item in parser.read(frame?.data_ref().map(|bytes| &bytes[..]).unwrap_or_default()) {
            if let StreamItem::Event(event) = item {
                let data: Value = serde_json::from_slice(&event.data)?;
                let cursor = event.id.map(|id| id.to_string());
                match event.kind.as_str() {
                    "stream.cursor" => progress.reach(cursor),
                    "stream.gap" => progress.gap(data["skipped"].as_i64(), cursor),
                    _ => progress.event(data["id"].as_str().ok_or("an event without an id")?, cursor),
                }
                if progress.disconnects() {
                    return Err("disconnected".into());
                }
            }
        }
    }
    Ok(())
}

/// Follows over a WebSocket until it ends; returns the reason.
pub(super) async fn read_socket(progress: &mut Progress<'_>, key: &str) -> String {
    match try_read_socket(progress, key).await {
        Ok(()) => "closed".to_owned(),
        Err(failure) => failure.to_string(),
    }
}

async fn try_read_socket(progress: &mut Progress<'_>, key: &str) -> Result<(), Failure> {
    let edge = edge(progress);
    let mut request = format!("ws://{edge}:{EDGE_PORT}/v1/stream").into_client_request()?;
    request.headers_mut().insert(AUTHORIZATION, format!("Bearer {key}").parse()?);
    let opening = async {
        let stream = TcpStream::connect((edge, EDGE_PORT)).await?;
        let (mut socket, _) = client_async(request, stream).await?;
        let subscribe = match &progress.cursor {
            Some(cursor) => json!({"op": "subscribe", "sub": "all", "cursor": cursor}),
            None => json!({"op": "subscribe", "sub": "all"}),
        };
        socket.send(Message::text(subscribe.to_string())).await?;
        Ok::<_, Failure>(socket)
    };
    let mut socket = timeout(OPEN_TIMEOUT, opening).await??;
    while let Some(message) = timeout(SILENCE_TIMEOUT, socket.next()).await? {
        let Message::Text(message) = message? else { continue };
        let message: Value = serde_json::from_str(&message)?;
        let cursor = text(&message["cursor"]);
        match message["op"].as_str() {
            // The connection's first heartbeat may come before the subscription.
            Some("heartbeat") if !progress.is_open => {}
            Some("subscribed" | "heartbeat") => progress.reach(cursor),
            Some("event") => {
                progress.event(message["event"]["id"].as_str().ok_or("an event without an id")?, cursor);
            }
            Some("gap") => progress.gap(message["skipped"].as_i64(), text(&message["last_cursor"])),
            Some("error") => return Err(message["error"].to_string().into()),
            _ => {}
        }
    }
    Ok(())
}
