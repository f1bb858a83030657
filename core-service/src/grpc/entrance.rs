//! The entrance of every call over a socket: it reads the message within bounds, and admits the call if there is
//! capacity. Callers without the service credential have few calls, few watches of health, and little time.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use thesis_net::server::{
    Bodies, BodyError, ConnectionCalls, ReadyResponse, RefusedRequest, UnattendedResponse, begin_refused, count_refused,
};
use thesis_proto::{
    error::{ApiError, ErrorCode},
    metadata::SERVICE_TOKEN,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep_until},
};
use tokio_util::task::AbortOnDropHandle;
use tonic::{Status, transport::server::TcpConnectInfo};

use super::{MAX_MESSAGE, answer::error_status, deadline::with_deadline, guard, reflection};
use crate::{domain::abuse::network_of, named_slots::NamedSlots, service::Core};

/// Bytes of a request message with its frame.
const MAX_FRAME: usize = MAX_MESSAGE + 5;
/// Bytes that are still read of a message that is too large, so that its sender can read the response.
const MAX_DISCARDED: usize = 1024 * 1024;
/// Bytes of request messages in memory.
const MAX_MESSAGES: usize = 128 * 1024 * 1024;
/// Concurrent calls. More are refused, so that the others are answered soon. A stream counts until it is open.
const MAX_WORKED_ON: usize = 2_048;
/// Open calls of a connection that come without the service credential, streams included.
pub(super) const MAX_CALLS_OF_CONNECTION: u32 = 256;
/// Watches of health without the service credential: of all callers, and of one network.
const MAX_WATCHES: [usize; 2] = [1_024, 64];
/// Time limit of such a watch. Its client starts another one.
const WATCH_TIMEOUT: Duration = Duration::from_mins(5);
/// Calls of reflection without the service credential: of all callers, and of one network.
const MAX_REFLECTIONS: [usize; 2] = [64, 8];
/// Time limit of a call of reflection.
const REFLECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Seconds until the retry of a refused call.
const RETRY_AFTER: u32 = 1;

const WATCH: &str = "/grpc.health.v1.Health/Watch";
/// Prefix of the version in the name of reflection.
const REFLECTION: &str = "/grpc.reflection.";

/// The capacity that all calls share.
#[derive(Clone)]
pub(super) struct Entrance {
    core: Arc<Core>,
    /// The server's name in metrics.
    server: &'static str,
    messages: Bodies,
    calls: Arc<Semaphore>,
    unattended: NamedSlots,
}

impl Entrance {
    pub(super) fn new(core: &Arc<Core>, server: &'static str) -> Self {
        begin_refused(server, &["calls", "bodies", "connection", "watches", "reflections"]);
        Self {
            core: Arc::clone(core),
            server,
            messages: Bodies::new(MAX_MESSAGES),
            calls: Arc::new(Semaphore::new(MAX_WORKED_ON)),
            unattended: NamedSlots::default(),
        }
    }

    fn refuse(&self, reason: &'static str, error: &ApiError) -> Status {
        count_refused(self.server, reason);
        error_status(error, &self.core.gate.new_request_id())
    }

    /// Takes a slot among the long calls of a kind, until a time; an error when all are taken.
    fn place_until(
        &self,
        request: &Request,
        kind: &'static str,
        [of_all, of_network]: [usize; 2],
        until: Instant,
    ) -> Result<AbortOnDropHandle<()>, Status> {
        let peer = request.extensions().get::<TcpConnectInfo>().and_then(|info| info.remote_addr);
        let network = peer.map(|peer| network_of(peer.ip())).unwrap_or_default();
        let limits = [(kind.to_owned(), of_all), (format!("{kind} {network}"), of_network)];
        let slots = self.unattended.take_slots(limits).map_err(|_| self.refuse(kind, &ApiError::unavailable()))?;
        // A client that reads nothing keeps its response open for longer, but not the slot.
        Ok(AbortOnDropHandle::new(tokio::spawn(async move {
            sleep_until(until).await;
            drop(slots);
        })))
    }

    /// Takes a slot among the open calls of the connection.
    fn place_on_connection(&self, request: &Request) -> Result<Option<OwnedSemaphorePermit>, Status> {
        let Some(ConnectionCalls(calls)) = request.extensions().get() else { return Ok(None) };
        Arc::clone(calls).try_acquire_owned().map(Some).map_err(|_| {
            let text =
                format!("a connection has at most {MAX_CALLS_OF_CONNECTION} open calls; end some, or open another");
            let error = ApiError::new(ErrorCode::RateLimited, text).with_retry_after(RETRY_AFTER);
            self.refuse("connection", &error)
        })
    }

    /// Reads the message of a call.
    async fn read(&self, request: Request) -> Result<Request, Status> {
        let (head, body) = request.into_parts();
        match self.messages.read(body, MAX_FRAME, MAX_DISCARDED).await {
            Ok(message) => Ok(Request::from_parts(head, Body::from(message))),
            Err(BodyError::NoRoom) => Err(self.refuse("bodies", &ApiError::unavailable())),
            Err(error @ BodyError::Late) => Err(Status::deadline_exceeded(error.to_string())),
            Err(error @ BodyError::TooLarge) => Err(Status::out_of_range(error.to_string())),
            Err(error @ BodyError::Broken) => Err(Status::invalid_argument(error.to_string())),
        }
    }

    /// Wraps a response that ends at a time and holds its slot until then. Its connection may be closed in favour of
    /// others.
    fn ending(&self, answer: Response, until: Instant, slot: impl Send + 'static) -> Response {
        let core = Arc::clone(&self.core);
        let ended = "the call was open for as long as it may be; begin another one";
        let late = move || guard::late(ended, &core.gate.new_request_id());
        let mut answer = answer.map(|body| with_deadline(body, until, late));
        answer.extensions_mut().insert(UnattendedResponse);
        holding(answer, slot)
    }

    async fn enter(&self, mut request: Request, next: Next, is_service: bool) -> Result<Response, Status> {
        thesis_proto::metadata::hide_secrets(request.headers_mut());
        let of_connection = if is_service { None } else { self.place_on_connection(&request)? };
        let path = request.uri().path();
        if path.starts_with(REFLECTION) {
            let until = Instant::now() + REFLECTION_TIMEOUT;
            let slot = if is_service {
                None
            } else {
                Some(self.place_until(&request, "reflections", MAX_REFLECTIONS, until)?)
            };
            let answer = next.run(request.map(|body| ends_at(body, until))).await;
            return Ok(self.ending(answer, until, (slot, of_connection)));
        }
        let is_unary = !reflection::streams(path) && path != WATCH;
        let until = (!is_service && path == WATCH).then(|| Instant::now() + WATCH_TIMEOUT);
        let watch = until.map(|until| self.place_until(&request, "watches", MAX_WATCHES, until)).transpose()?;
        let request = self.read(request).await?;
        let worked_on = self.calls.try_acquire();
        let _worked_on = worked_on.map_err(|_| self.refuse("calls", &ApiError::unavailable()))?;
        let mut answer = next.run(request).await;
        if let Some(until) = until {
            return Ok(self.ending(answer, until, (watch, of_connection)));
        }
        if is_unary {
            answer.extensions_mut().insert(ReadyResponse);
        }
        Ok(match of_connection {
            Some(slot) => holding(answer, slot),
            None => answer,
        })
    }
}

/// A body of a request that ends at a time, whether or not its client continues.
fn ends_at(body: Body, until: Instant) -> Body {
    Body::from_stream(body.into_data_stream().take_until(sleep_until(until)))
}

/// Wraps a response whose body holds a slot while it exists.
fn holding(answer: Response, slot: impl Send + 'static) -> Response {
    answer.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _held = &slot;
            frame
        }))
    })
}

/// Admits a call, and answers it.
pub(super) async fn enter(State(entrance): State<Entrance>, request: Request, next: Next) -> Response {
    let token = request.headers().get(SERVICE_TOKEN).and_then(|token| token.to_str().ok());
    let is_service = entrance.core.gate.is_service(token);
    entrance.enter(request, next, is_service).await.unwrap_or_else(|status| {
        let mut refusal: Response = status.into_http();
        if !is_service {
            refusal.extensions_mut().insert(RefusedRequest);
        }
        refusal
    })
}
