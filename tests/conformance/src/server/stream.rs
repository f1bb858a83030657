//! An open stream over any transport.

use reqwest::Method;
use serde_json::Value;

use super::{
    grpc::Call,
    item::{Item, Query},
    socket::Socket,
    sse::Sse,
    target::{Refusal, Target, retried, soon},
};
use crate::{
    Miss,
    verdict::{Verdict, ensure},
};

/// A transport of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Server-Sent Events.
    Sse,
    /// WebSocket.
    WebSocket,
    /// gRPC.
    Grpc,
}

impl Transport {
    /// All transports.
    pub const ALL: &'static [Self] = &[Self::Sse, Self::WebSocket, Self::Grpc];

    /// Its name in the report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sse => "sse",
            Self::WebSocket => "websocket",
            Self::Grpc => "grpc",
        }
    }
}

pub(super) enum Stream {
    Sse(Box<Sse>),
    WebSocket(Box<Socket>),
    Grpc(Box<Call>),
}

impl Stream {
    /// Opens a stream with the key under judgement.
    pub(super) async fn open(target: &Target, transport: Transport, query: &Query) -> Result<Self, Miss> {
        retried(async || Self::try_open(target, transport, &target.options.key, query).await).await
    }

    /// Opens a stream, or returns its error.
    pub(super) async fn try_open(
        target: &Target,
        transport: Transport,
        key: &str,
        query: &Query,
    ) -> Result<Result<Self, Refusal>, Miss> {
        Ok(match transport {
            Transport::Sse => {
                let request = target.request(Method::GET, &query.path(), Some(key));
                Sse::open(target, request).await?.map(|sse| Self::Sse(Box::new(sse)))
            }
            Transport::WebSocket => {
                Socket::subscribe(target, key, query).await?.map(|socket| Self::WebSocket(Box::new(socket)))
            }
            Transport::Grpc => Call::open(target, key, query).await?.map(|call| Self::Grpc(Box::new(call))),
        })
    }

    /// Demands that a stream is refused with an error.
    pub(super) async fn expect_refusal(
        target: &Target,
        transport: Transport,
        key: &str,
        query: &Query,
        (status, code): (u16, &str),
    ) -> Verdict {
        let refused = retried(async || match Self::try_open(target, transport, key, query).await? {
            Err(limit) if limit.is_limit() && limit.code != code => Ok(Err(limit)),
            Err(refusal) => Ok(Ok(refusal)),
            Ok(_) => Err(format!("a stream opens instead of {code}").into()),
        });
        refused.await?.expect(status, code)
    }

    /// The next item.
    pub(super) async fn next(&mut self) -> Result<Item, Miss> {
        let next = async {
            match self {
                Self::Sse(sse) => sse.next().await,
                Self::WebSocket(socket) => socket.next_item().await,
                Self::Grpc(call) => call.next().await,
            }
        };
        soon("an event or a heartbeat", next).await?
    }

    /// The next cursor without an event; no event or gap may come before.
    pub(super) async fn cursor(&mut self) -> Result<String, Miss> {
        match self.next().await? {
            Item::Cursor(cursor) => Ok(cursor),
            other => Err(format!("{other:?} instead of a cursor").into()),
        }
    }

    /// The next event with its cursor; no gap may come before.
    pub(super) async fn event(&mut self) -> Result<(String, Value), Miss> {
        loop {
            match self.next().await? {
                Item::Cursor(_) => {}
                Item::Event { cursor, event } => return Ok((cursor, event)),
                other => return Err(format!("{other:?} instead of an event").into()),
            }
        }
    }

    /// Demands that the next event is this one.
    pub(super) async fn expect(&mut self, event: &Value) -> Result<(), Miss> {
        let (_, next) = self.event().await?;
        ensure!(next == *event, "the event {} comes instead of {}", next["id"], event["id"]);
        Ok(())
    }
}
