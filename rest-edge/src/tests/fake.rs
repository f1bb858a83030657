//! A core whose answers a test chooses, an edge in front of it, and a client.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::{
    StreamExt as _, stream,
    stream::{BoxStream, unfold},
};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use parking_lot::Mutex;
use prost::Message;
use serde_json::Value;
use thesis_net::{
    clock::{Clock, IdSource, SharedClock, SharedIdSource},
    services::Services,
};
use thesis_proto::{
    error::{ApiError, ErrorCode, FieldError},
    v1,
};
use tokio::{net::TcpListener, sync::broadcast};
use tokio_util::sync::CancellationToken;
use tonic::{Status, body::Body};

use crate::{EdgeConfig, edge::Edge};

/// A call that core received.
pub(crate) struct SeenCall {
    /// `Service/Method`.
    pub(crate) operation: String,
    pub(crate) headers: HeaderMap,
    pub(crate) message: Bytes,
}

impl SeenCall {
    /// True for calls that the stream engine makes by itself.
    pub(crate) fn is_housekeeping(&self) -> bool {
        ["StreamService/Endings", "StreamService/Close", "StreamService/Tail"].contains(&self.operation.as_str())
    }
}

pub(crate) type Reply = Result<BoxStream<'static, Result<Bytes, Status>>, Status>;

/// A reply with one message.
pub(crate) fn reply(message: impl Message) -> Reply {
    Ok(stream::iter([Ok(message.encode_to_vec().into())]).boxed())
}

/// A core's answers to calls.
type Script = Box<dyn Fn(&str, &Bytes) -> Reply + Send + Sync>;

pub(crate) struct FakeCore {
    pub(crate) seen: Mutex<Vec<SeenCall>>,
    /// The faults that core finds in a malformed request.
    pub(crate) found: Mutex<ApiError>,
    answer: Script,
    /// The ends of streams. The open session receives them.
    ends: broadcast::Sender<v1::EndingsResponse>,
}

impl FakeCore {
    pub(crate) fn new(answer: impl Fn(&str, &Bytes) -> Reply + Send + Sync + 'static) -> Arc<Self> {
        let found = Mutex::new(ApiError::validation(&[]));
        let ends = broadcast::Sender::new(16);
        Arc::new(Self { seen: Mutex::default(), found, answer: Box::new(answer), ends })
    }

    /// A core that gives every call the smallest complete response, and serves `Refuse`.
    pub(crate) fn plain() -> Arc<Self> {
        Self::new(plain_answer)
    }

    pub(crate) fn services(self: &Arc<Self>) -> Services {
        let core = Arc::clone(self);
        let channel = tower::service_fn(move |request: Request<Body>| {
            let core = Arc::clone(&core);
            async move { Ok::<_, Infallible>(core.handle(request).await) }
        });
        Services::remote(channel.clone(), vec![channel], &"service-token".into()).unwrap()
    }

    /// Ends a stream by its number. The edge counts streams from 1.
    pub(crate) fn end(&self, stream: u64, reason: v1::StreamEndReason) {
        let ends = vec![v1::StreamEnd { stream, reason: reason.into() }];
        self.ends.send(v1::EndingsResponse { ends }).unwrap();
    }

    /// A session of streams, until `end` names one.
    fn endings(&self) -> Reply {
        let ends = unfold(self.ends.subscribe(), |mut ends| async move {
            let end = ends.recv().await.ok()?;
            Some((Ok(end.encode_to_vec().into()), ends))
        });
        let hello = v1::EndingsResponse::default().encode_to_vec().into();
        Ok(stream::iter([Ok(hello)]).chain(ends).boxed())
    }

    async fn handle(&self, request: Request<Body>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let operation = head.uri.path().trim_start_matches("/thesis.v1.").to_owned();
        let message = body.collect().await.unwrap().to_bytes().slice(5..);
        let answer = match operation.as_str() {
            "StreamService/Endings" => self.endings(),
            "StreamService/Close" => reply(v1::CloseResponse {}),
            _ if head.headers.contains_key("x-malformed") => Err(self.found.lock().to_status("req_core")),
            _ => (self.answer)(&operation, &message),
        };
        self.seen.lock().push(SeenCall { operation, headers: head.headers, message });
        let mut response = match answer {
            Err(status) => status.into_http(),
            Ok(messages) => {
                let frames = messages.map(|message| match message {
                    Ok(message) => Frame::data(framed(&message)),
                    Err(status) => {
                        let mut trailers = HeaderMap::new();
                        status.add_header(&mut trailers).unwrap();
                        Frame::trailers(trailers)
                    }
                });
                let end = Frame::trailers(HeaderMap::from_iter([("grpc-status".parse().unwrap(), 0.into())]));
                let body = frames.chain(stream::iter([end])).map(Ok::<_, Status>);
                let mut response = Response::new(Body::new(StreamBody::new(body)));
                response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
                response
            }
        };
        response.headers_mut().insert("x-ratelimit-limit", 300.into());
        response
    }
}

fn framed(message: &Bytes) -> Bytes {
    let mut framed = BytesMut::with_capacity(message.len() + 5);
    framed.put_u8(0);
    framed.put_u32(message.len().try_into().unwrap());
    framed.put_slice(message);
    framed.freeze()
}

fn plain_answer(operation: &str, message: &Bytes) -> Reply {
    match operation {
        "MetaService/GetMe" => reply(v1::GetMeResponse { key: Some(v1::KeyInfo::default()) }),
        "MetaService/GetUsage" => reply(v1::GetUsageResponse { usage: Some(v1::Usage::default()) }),
        "ProfileService/GetProfile" => reply(v1::GetProfileResponse { profile: Some(v1::Profile::default()) }),
        "ProfileService/GetProfileWallets" => {
            reply(v1::GetProfileWalletsResponse { profile_wallets: Some(v1::ProfileWallets::default()) })
        }
        "TokenService/GetToken" => reply(v1::GetTokenResponse { token: Some(v1::Token::default()) }),
        "TokenService/GetTokenActivity" => reply(v1::GetTokenActivityResponse { activity: Some(Default::default()) }),
        "TokenService/GetThesisVelocity" => reply(v1::GetThesisVelocityResponse { velocity: Some(Default::default()) }),
        "StatusService/GetStatus" => reply(v1::GetStatusResponse { status: Some(Default::default()) }),
        "LogService/GetCheckpoint" => reply(v1::GetCheckpointResponse { note: "note".to_owned() }),
        "LogService/GetTile" => reply(v1::GetTileResponse { hashes: vec![1; 32].into() }),
        "LogService/GetReceipt" => {
            let (evidence, receipt) = ("{}".to_owned(), v1::Receipt::default());
            reply(v1::GetReceiptResponse { receipt: Some(v1::Receipt { evidence, ..receipt }) })
        }
        "ArchiveService/GetArchiveFile" => {
            let data = Bytes::from_static(b"PAR1");
            let file = Some(v1::ArchiveFile { sha256: "00ff".to_owned(), bytes: 4, ..Default::default() });
            reply(v1::GetArchiveFileResponse { file, first: 0, length: 4, data })
        }
        "ArchiveService/GetArchiveReceipt" => {
            reply(v1::GetArchiveReceiptResponse { receipt: Some(v1::ArchiveReceipt::default()) })
        }
        "ThesisService/VerifyThesis" => {
            reply(v1::VerifyThesisResponse { verification: Some(v1::ThesisVerification::default()) })
        }
        "SearchService/Search" | "SearchService/SemanticSearch" => {
            reply(v1::SearchResponse { result: Some(v1::SearchResult::default()) })
        }
        "ThesisService/GetThesis" => reply(v1::GetThesisResponse { thesis: Some(v1::Thesis::default()) }),
        "TestDataService/CreateTestThesis" => {
            reply(v1::CreateTestThesisResponse { result: Some(v1::TestThesisResult::default()) })
        }
        "EventService/GetEvent" => reply(v1::GetEventResponse { event: Some(event(7)) }),
        "WebhookService/GetWebhook" => reply(v1::GetWebhookResponse { webhook: Some(v1::Webhook::default()) }),
        "WebhookService/UpdateWebhook" => reply(v1::UpdateWebhookResponse { webhook: Some(v1::Webhook::default()) }),
        "WebhookService/TestWebhook" => reply(v1::TestWebhookResponse { delivery: Some(Default::default()) }),
        "WebhookService/ReplayDelivery" => reply(v1::ReplayDeliveryResponse { delivery: Some(Default::default()) }),
        "WebhookService/GetWebhookInsight" => {
            reply(v1::GetWebhookInsightResponse { insight: Some(Default::default()) })
        }
        "WebhookService/StartWebhookReplay" => {
            reply(v1::StartWebhookReplayResponse { replay: Some(Default::default()) })
        }
        "AlertService/CreateAlert" => reply(v1::CreateAlertResponse { alert: Some(v1::Alert::default()) }),
        "AlertService/GetAlert" => reply(v1::GetAlertResponse { alert: Some(v1::Alert::default()) }),
        "AlertService/UpdateAlert" => reply(v1::UpdateAlertResponse { alert: Some(v1::Alert::default()) }),
        "EventService/CreateStreamTicket" => {
            reply(v1::CreateStreamTicketResponse { stream_ticket: Some(Default::default()) })
        }
        "StreamService/Open" => {
            let asked = v1::OpenRequest::decode(message.clone()).unwrap();
            let replay = asked.from.map(|_| v1::StreamReplay::default());
            reply(v1::OpenResponse { replay, ..live(&[]) })
        }
        "GateService/Refuse" => {
            let error = v1::RefuseRequest::decode(message.clone()).unwrap().error.unwrap();
            let code = ErrorCode::parse(&error.code).unwrap();
            let errors: Vec<_> =
                error.errors.into_iter().map(|error| FieldError::new(error.param, error.message)).collect();
            Err(ApiError::fields(code, Some(error.message), &errors).to_status("req_core"))
        }
        // An empty list or wrapper.
        _ => reply(()),
    }
}

/// A stream that starts at the head.
pub(crate) fn live(positions: &[(&str, u64)]) -> v1::OpenResponse {
    begin(positions, positions, None)
}

/// A stream that starts at these positions, perhaps after a gap.
pub(crate) fn begin(from: &[(&str, u64)], live: &[(&str, u64)], gap: Option<v1::StreamGap>) -> v1::OpenResponse {
    let named = |positions: &[(&str, u64)]| {
        let named = positions.iter();
        named
            .map(|(dataset, position)| v1::DatasetPosition { dataset: (*dataset).to_owned(), position: *position })
            .collect()
    };
    v1::OpenResponse { positions: named(from), live: named(live), gap, ..v1::OpenResponse::default() }
}

/// An event with its number in it.
pub(crate) fn event(number: u64) -> v1::Event {
    let data = v1::ThesisCreatedData { thesis_id: format!("th_{number}"), ..Default::default() };
    v1::Event {
        id: format!("evt_{number}"),
        r#type: v1::EventType::ThesisCreated.into(),
        data: Some(v1::event::Data::ThesisCreated(data)),
        ..Default::default()
    }
}

struct Stopped;

impl Clock for Stopped {
    fn now_ms(&self) -> i64 {
        0
    }
}

#[derive(Default)]
struct Counting(AtomicU8);

impl IdSource for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(self.0.fetch_add(1, Ordering::Relaxed));
    }
}

/// A clock that stands still, and ids that count up.
pub(crate) fn sources() -> (SharedClock, SharedIdSource) {
    (Arc::new(Stopped), Arc::new(Counting::default()))
}

/// An edge in front of a core.
pub(crate) fn edge(core: &Arc<FakeCore>, shutdown: CancellationToken) -> Edge {
    let config = EdgeConfig::new("http://edge.test/");
    let (clock, ids) = sources();
    Edge::new(core.services(), config, clock, ids, shutdown)
}

/// Serves an edge in front of a core over sockets.
pub(crate) fn serve(core: &Arc<FakeCore>, listener: TcpListener, stop: CancellationToken) -> impl Future<Output = ()> {
    let (clock, ids) = sources();
    crate::serve(listener, core.services(), EdgeConfig::new("http://edge.test/"), clock, ids, stop)
}

/// Sends a request and returns the response's head and JSON.
pub(crate) async fn ask(core: &Arc<FakeCore>, request: Request<&'static str>) -> (StatusCode, HeaderMap, Value) {
    ask_at(&edge(core, CancellationToken::new()), request).await
}

/// Sends a request to an existing edge, because a new edge takes time.
pub(crate) async fn ask_at(edge: &Edge, request: Request<impl Into<Bytes>>) -> (StatusCode, HeaderMap, Value) {
    let response = edge.respond([192, 0, 2, 1].into(), request.map(|body| Full::<Bytes>::new(body.into()))).await;
    let (head, body) = response.into_parts();
    if head.headers.get("content-type").is_some_and(|kind| kind == "text/event-stream") {
        // A stream does not end.
        return (head.status, head.headers, Value::Null);
    }
    let body = body.collect().await.unwrap().to_bytes();
    (head.status, head.headers, serde_json::from_slice(&body).unwrap_or_default())
}

/// Sends a request with a method and a target only.
pub(crate) async fn simply(core: &Arc<FakeCore>, method: &str, target: &str) -> (StatusCode, HeaderMap, Value) {
    ask(core, Request::builder().method(method).uri(target).body("").unwrap()).await
}
