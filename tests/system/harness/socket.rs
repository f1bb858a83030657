//! A client of WebSockets.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use reqwest::header::HeaderMap;
use serde_json::Value;
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Error, Message, client::IntoClientRequest as _, handshake::client::Response},
};

use super::SOON;

/// An open WebSocket.
pub(crate) struct Socket {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// The head of the answer that opened it.
    pub(crate) headers: HeaderMap,
}

impl Socket {
    /// Opens a socket, or gives the status and the error that refuse it.
    pub(crate) async fn open(url: &str, headers: &[(&'static str, String)]) -> Result<Self, (u16, Value)> {
        let mut request = url.replacen("http", "ws", 1).into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        match connect_async(request).await {
            Ok((socket, response)) => Ok(Self { socket, headers: response.headers().clone() }),
            Err(Error::Http(response)) => Err(refusal(&response)),
            Err(error) => panic!("{error}"),
        }
    }

    /// Sends a message.
    pub(crate) async fn send(&mut self, message: &Value) {
        self.say(Message::text(message.to_string())).await;
    }

    /// Sends a frame.
    pub(crate) async fn say(&mut self, message: Message) {
        self.socket.send(message).await.unwrap();
    }

    /// The next message, whatever it is.
    pub(crate) async fn next_within(&mut self, within: Duration) -> Value {
        loop {
            match timeout(within, self.socket.next()).await.expect("a message in time") {
                Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).unwrap(),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("no message: {other:?}"),
            }
        }
    }

    /// The next message but heartbeats.
    pub(crate) async fn next(&mut self) -> Value {
        loop {
            let message = self.next_within(SOON).await;
            if message["op"] != "heartbeat" {
                return message;
            }
        }
    }

    /// Sends a message and gives the next one.
    pub(crate) async fn ask(&mut self, message: &Value) -> Value {
        self.send(message).await;
        self.next().await
    }

    /// The code with which the other side closes; messages before it are passed over.
    pub(crate) async fn closed(&mut self, within: Duration) -> u16 {
        let closing = async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Message::Close(Some(frame)))) => return frame.code.into(),
                    Some(Ok(_)) => {}
                    other => panic!("no close: {other:?}"),
                }
            }
        };
        timeout(within, closing).await.expect("closed in time")
    }
}

fn refusal(response: &Response) -> (u16, Value) {
    let body = response.body().as_deref().unwrap_or_default();
    (response.status().as_u16(), serde_json::from_slice(body).unwrap_or_default())
}
