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
        match Self::try_open(url, headers).await {
            Ok(socket) => Ok(socket),
            Err(Error::Http(response)) => Err(refusal(&response)),
            Err(error) => panic!("{error}"),
        }
    }

    /// Opens a socket if the other side is there and lets it.
    pub(crate) async fn try_open(url: &str, headers: &[(&'static str, String)]) -> Result<Self, Error> {
        let mut request = url.replacen("http", "ws", 1).into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let (socket, response) = connect_async(request).await?;
        Ok(Self { socket, headers: response.headers().clone() })
    }

    /// Sends a message.
    pub(crate) async fn send(&mut self, message: &Value) {
        self.say(Message::text(message.to_string())).await;
    }

    /// Sends a message; tells whether the socket was open for it.
    pub(crate) async fn try_send(&mut self, message: &Value) -> bool {
        self.socket.send(Message::text(message.to_string())).await.is_ok()
    }

    /// Sends a frame.
    pub(crate) async fn say(&mut self, message: Message) {
        self.socket.send(message).await.unwrap();
    }

    /// The next message; at the end the code with which the other side closes, if it says one.
    pub(crate) async fn hear(&mut self) -> Result<Value, Option<u16>> {
        Ok(serde_json::from_str(&self.hear_text().await?).unwrap())
    }

    /// The text of the next message; at the end the code with which the other side closes, if it says one.
    async fn hear_text(&mut self) -> Result<String, Option<u16>> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => return Ok(text.to_string()),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(Some(frame)))) => return Err(Some(frame.code.into())),
                _ => return Err(None),
            }
        }
    }

    /// The next message, whatever it is.
    pub(crate) async fn next_within(&mut self, within: Duration) -> Value {
        let heard = timeout(within, self.hear()).await.expect("a message in time");
        heard.unwrap_or_else(|code| panic!("closed: {code:?}"))
    }

    /// The next message but heartbeats.
    pub(crate) async fn next(&mut self) -> Value {
        serde_json::from_str(&self.next_text().await).unwrap()
    }

    /// The text of the next message but heartbeats.
    pub(crate) async fn next_text(&mut self) -> String {
        loop {
            let heard = timeout(SOON, self.hear_text()).await.expect("a message in time");
            let text = heard.unwrap_or_else(|code| panic!("closed: {code:?}"));
            if serde_json::from_str::<Value>(&text).unwrap()["op"] != "heartbeat" {
                return text;
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
                if let Err(code) = self.hear().await {
                    return code.expect("a code");
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
