//! One open stream, whatever carries it.

use serde_json::{Value, json};
use thesis_proto::v1::{self, event_service_client::EventServiceClient, subscribe_response::Message};
use tonic::{Request, Streaming, transport::Endpoint};

use crate::harness::{Client, Socket, Sse, text};

/// A filter, as each transport says it.
#[derive(Clone, Default)]
pub(super) struct Filter {
    pub(super) tokens: Vec<String>,
    pub(super) handles: Vec<String>,
    /// `thesis.created` alone.
    pub(super) created: bool,
}

impl Filter {
    /// Its query parameters.
    pub(super) fn query(&self) -> String {
        let lists = [("token", self.tokens.join(",")), ("handle", self.handles.join(","))];
        let lists = lists.iter().filter(|(_, list)| !list.is_empty()).map(|(name, list)| format!("&{name}={list}"));
        let types = if self.created { "types=thesis.created" } else { "types=thesis.created,token.activity" };
        format!("?{types}{}", lists.collect::<String>())
    }

    fn types(&self) -> Vec<v1::EventType> {
        let more = (!self.created).then_some(v1::EventType::TokenActivity);
        [v1::EventType::ThesisCreated].into_iter().chain(more).collect()
    }
}

/// What a stream tells.
pub(super) enum Told {
    /// Everything up to here was told.
    Cursor(String),
    /// An event's cursor, id and time.
    Event(String, String, i64),
    /// The list of events that are not replayed, and the cursor after them.
    Gap(String, String),
    /// It has ended; over a WebSocket perhaps with a code.
    End(Option<u16>),
}

/// An open stream.
pub(super) enum Transport {
    Sse(Sse),
    Socket(Socket),
    Grpc(Streaming<v1::SubscribeResponse>),
}

impl Transport {
    /// Opens a stream over SSE, WebSocket or gRPC by `kind`; none if that cannot be now.
    pub(super) async fn open(
        kind: u64,
        client: &Client,
        core: &str,
        filter: &Filter,
        cursor: Option<&str>,
    ) -> Option<Self> {
        match kind {
            0 => client.try_resume(&filter.query(), cursor.unwrap_or_default()).await.map(Self::Sse),
            1 => Self::open_socket(client, filter, cursor).await.map(Self::Socket),
            _ => {
                let channel = Endpoint::from_shared(core.to_owned()).unwrap().connect().await.ok()?;
                let filters = v1::EventFilters {
                    token: filter.tokens.clone(),
                    handle: filter.handles.clone(),
                    ..v1::EventFilters::default()
                };
                let mut request = Request::new(v1::SubscribeRequest {
                    types: filter.types().into_iter().map(Into::into).collect(),
                    filters: Some(filters),
                    cursor: cursor.map(str::to_owned),
                    ..v1::SubscribeRequest::default()
                });
                request.metadata_mut().insert("authorization", format!("Bearer {}", client.key()).parse().unwrap());
                let opened = EventServiceClient::new(channel).subscribe(request).await.ok()?;
                Some(Self::Grpc(opened.into_inner()))
            }
        }
    }

    async fn open_socket(client: &Client, filter: &Filter, cursor: Option<&str>) -> Option<Socket> {
        let headers = [("authorization", format!("Bearer {}", client.key()))];
        let mut socket = Socket::try_open(&format!("{}/v1/stream", client.base()), &headers).await.ok()?;
        let types: &[&str] = if filter.created { &["thesis.created"] } else { &["thesis.created", "token.activity"] };
        let filters = json!({"token": filter.tokens, "handle": filter.handles});
        let mut subscribe = json!({"op": "subscribe", "sub": "all", "types": types, "filters": filters});
        if let Some(cursor) = cursor {
            subscribe["cursor"] = cursor.into();
        }
        socket.try_send(&subscribe).await.then_some(socket)
    }

    /// What the stream tells next.
    pub(super) async fn next(&mut self) -> Told {
        match self {
            Self::Sse(sse) => {
                if sse.stands_at.is_none() {
                    // Each stream begins with its cursor, before a gap too.
                    return match sse.try_first_cursor().await {
                        Some(cursor) => Told::Cursor(cursor),
                        None => Told::End(None),
                    };
                }
                match sse.read().await {
                    None => Told::End(None),
                    Some(frame) if frame.event == "stream.gap" => {
                        Told::Gap(text(&frame.data, "path").to_owned(), frame.cursor().to_owned())
                    }
                    Some(frame) => event(frame.cursor(), &frame.data),
                }
            }
            Self::Socket(socket) => loop {
                let told = match socket.hear().await {
                    Ok(told) => told,
                    Err(code) => return Told::End(code),
                };
                match text(&told, "op") {
                    "event" => return event(text(&told, "cursor"), &told["event"]),
                    "gap" => return Told::Gap(text(&told, "path").to_owned(), text(&told, "last_cursor").to_owned()),
                    "subscribed" | "heartbeat" if told["cursor"].is_string() => {
                        return Told::Cursor(text(&told, "cursor").to_owned());
                    }
                    "error" => return Told::End(None),
                    _ => {}
                }
            },
            Self::Grpc(stream) => loop {
                match stream.message().await.ok().flatten().map(|told| told.message) {
                    None => return Told::End(None),
                    Some(Some(Message::Event(told))) => {
                        let json = thesis_proto::json::event_json(&told.event.unwrap());
                        return event(&told.cursor, &serde_json::from_slice(&json).unwrap());
                    }
                    Some(Some(Message::Gap(gap))) => return Told::Gap(gap.path, gap.last_cursor),
                    Some(Some(Message::Heartbeat(told))) => return Told::Cursor(told.cursor),
                    Some(_) => {}
                }
            },
        }
    }
}

fn event(cursor: &str, event: &Value) -> Told {
    Told::Event(cursor.to_owned(), text(event, "id").to_owned(), crate::harness::time(event, "created_at"))
}
