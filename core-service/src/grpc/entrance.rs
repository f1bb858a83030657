//! The entrance of every call over a socket: its message is read within bounds, and it is let in if there is room. Callers
//! without the service credential have few calls, few watches of health, and little time.

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
    Bodies, BodyError, ConnectionCalls, Ready, Refused, Unattended, begin_refused, count_refused,
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

use super::{MAX_MESSAGE, answer::error_status, deadline::Until, guard, reflection};
use crate::{domain::abuse::network_of, operations::Core, places::Places};

/// Bytes of a request message with its frame.
const MAX_FRAME: usize = MAX_MESSAGE + 5;
/// Bytes still read of a message that is too large, so that its sender can read the answer.
const MAX_DISCARDED: usize = 1024 * 1024;
/// Bytes of request messages held at once.
const MAX_MESSAGES: usize = 128 * 1024 * 1024;
/// Calls worked on at once. More are refused, so that the others are answered soon. A stream counts until it is open.
const MAX_WORKED_ON: usize = 2_048;
/// Open calls of a connection that come without the service credential, streams included.
pub(super) const MAX_CALLS_OF_CONNECTION: u32 = 256;
/// Watches of health without the service credential: of all callers, and of one network.
const MAX_WATCHES: [usize; 2] = [1_024, 64];
/// Time after which such a watch ends. Its client begins another one.
const WATCH_TIMEOUT: Duration = Duration::from_mins(5);
/// Calls of reflection without the service credential: of all callers, and of one network.
const MAX_REFLECTIONS: [usize; 2] = [64, 8];
/// Time in which a call of reflection must end.
const REFLECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Seconds after which a refused call may be tried again.
const RETRY_AFTER: u32 = 1;

const WATCH: &str = "/grpc.health.v1.Health/Watch";
/// Before the version in the name of reflection.
const REFLECTION: &str = "/grpc.reflection.";

/// The room that all calls share.
#[derive(Clone)]
pub(super) struct Entrance {
    core: Arc<Core>,
    /// The server's name in metrics.
    server: &'static str,
    messages: Bodies,
    calls: Arc<Semaphore>,
    unattended: Places,
}

impl Entrance {
    pub(super) fn new(core: &Arc<Core>, server: &'static str) -> Self {
        begin_refused(server, &["calls", "bodies", "connection", "watches", "reflections"]);
        Self {
            core: Arc::clone(core),
            server,
            messages: Bodies::new(MAX_MESSAGES),
            calls: Arc::new(Semaphore::new(MAX_WORKED_ON)),
            unattended: Places::default(),
        }
    }

    fn refuse(&self, reason: &'static str, error: &ApiError) -> Status {
        count_refused(self.server, reason);
        error_status(error, &self.core.gate.new_request_id())
    }

    /// A place among the calls of a kind that may stay open for long, until a time; an error when all are taken.
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
        let places = self.unattended.take(limits).map_err(|_| self.refuse(kind, &ApiError::unavailable()))?;
        // A client that takes nothing keeps its answer open for longer, but not the place.
        Ok(AbortOnDropHandle::new(tokio::spawn(async move {
            sleep_until(until).await;
            drop(places);
        })))
    }

    /// A place among the open calls of the connection.
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

    /// An answer that ends at a time and holds its place until then. Its connection may give way to others meanwhile.
    fn ending(&self, answer: Response, until: Instant, place: impl Send + 'static) -> Response {
        let core = Arc::clone(&self.core);
        let ended = "the call was open for as long as it may be; begin another one";
        let late = move || guard::late(ended, &core.gate.new_request_id());
        let mut answer = answer.map(|body| Body::new(Until::new(body, until, late)));
        answer.extensions_mut().insert(Unattended);
        holding(answer, place)
    }

    async fn enter(&self, mut request: Request, next: Next, is_service: bool) -> Result<Response, Status> {
        thesis_proto::metadata::hide_secrets(request.headers_mut());
        let of_connection = if is_service { None } else { self.place_on_connection(&request)? };
        let path = request.uri().path();
        if path.starts_with(REFLECTION) {
            let until = Instant::now() + REFLECTION_TIMEOUT;
            let place = if is_service {
                None
            } else {
                Some(self.place_until(&request, "reflections", MAX_REFLECTIONS, until)?)
            };
            let answer = next.run(request.map(|body| ends_at(body, until))).await;
            return Ok(self.ending(answer, until, (place, of_connection)));
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
            answer.extensions_mut().insert(Ready);
        }
        Ok(match of_connection {
            Some(place) => holding(answer, place),
            None => answer,
        })
    }
}

/// A request's body that ends at a time, whether or not its client goes on.
fn ends_at(body: Body, until: Instant) -> Body {
    Body::from_stream(body.into_data_stream().take_until(sleep_until(until)))
}

/// An answer whose body holds a place for as long as it is there.
fn holding(answer: Response, place: impl Send + 'static) -> Response {
    answer.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _held = &place;
            frame
        }))
    })
}

/// Lets a call in, and answers it.
pub(super) async fn enter(State(entrance): State<Entrance>, request: Request, next: Next) -> Response {
    let token = request.headers().get(SERVICE_TOKEN).and_then(|token| token.to_str().ok());
    let is_service = entrance.core.gate.is_service(token);
    entrance.enter(request, next, is_service).await.unwrap_or_else(|status| {
        let mut refusal: Response = status.into_http();
        if !is_service {
            refusal.extensions_mut().insert(Refused);
        }
        refusal
    })
}
