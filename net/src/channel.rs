//! The gRPC channel to core, over several addresses.
//!
//! A call that one core failed to answer is made at another core where that is safe: when the contract says that the
//! method may be repeated (`idempotency_level`), when the call has an idempotency key, or when it reached nobody.

mod remedies;
#[cfg(test)]
mod tests;

use std::{
    collections::HashSet,
    future::Future,
    pin::Pin,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use prost_types::{MethodDescriptorProto, MethodOptions, method_options::IdempotencyLevel};
use thesis_proto::{descriptors, metadata::IDEMPOTENCY_KEY};
use tokio::time::timeout;
use tonic::{
    Code, ConnectError,
    body::Body,
    transport::{Channel, Endpoint},
};
use tower::{Service, ServiceExt as _};

pub use self::remedies::remedy;
use crate::{
    causes::{causes, with_causes},
    clock::SharedClock,
    tls::Authorities,
};

/// Time, in milliseconds, for which a failed address is tried last.
const AVOID_TIME_MS: i64 = 2_000;
/// Minimum time, in milliseconds, between two log lines about TLS errors of one core.
const TLS_ERROR_LOG_INTERVAL_MS: i64 = 60_000;
/// Timeout for the head of a core's response while another core can be tried.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);

/// HTTP/2 window of one response in bytes. `MAX_WINDOW`, the largest that HTTP/2 allows, is for all calls of a
/// connection.
const STREAM_WINDOW: u32 = 256 * 1024;
const MAX_WINDOW: u32 = (1 << 31) - 1;
const MAX_HEADERS: u32 = 256 * 1024;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A channel for the generated clients.
#[derive(Clone)]
pub struct CoreChannel(Arc<Cores>);

struct Cores {
    cores: Vec<Arc<Core>>,
    next: AtomicUsize,
    clock: SharedClock,
}

struct Core {
    address: String,
    channel: Channel,
    avoid_until: AtomicI64,
    tls_failed_at: AtomicI64,
}

impl CoreChannel {
    /// Spreads calls over the addresses. Where it is safe, a call that one core failed is repeated on
    /// another. Connects when first used; to an address of `https` by TLS, where core must show a certificate of one of
    /// the authorities.
    ///
    /// # Errors
    /// Fails when an address is not a URL.
    pub fn new(
        addresses: &[String],
        authorities: &Authorities,
        clock: SharedClock,
    ) -> Result<Self, tonic::transport::Error> {
        Self::connected_by(Endpoint::connect_lazy, addresses, authorities, clock)
    }

    /// Does the same over connections of another kind than the system's sockets.
    ///
    /// # Errors
    /// Fails when an address is not a URL.
    pub fn connected_by(
        connect: impl Fn(&Endpoint) -> Channel,
        addresses: &[String],
        authorities: &Authorities,
        clock: SharedClock,
    ) -> Result<Self, tonic::transport::Error> {
        let cores = addresses
            .iter()
            .map(|address| {
                let mut endpoint = Endpoint::from_shared(address.clone())?;
                if address.starts_with("https://") {
                    endpoint = endpoint.tls_config(authorities.client())?;
                }
                let endpoint = endpoint
                    .connect_timeout(Duration::from_secs(2))
                    // A silent core is given up before its streams' slots are given to others.
                    .http2_keep_alive_interval(Duration::from_secs(3))
                    .keep_alive_timeout(Duration::from_secs(4))
                    .keep_alive_while_idle(true)
                    .tcp_nodelay(true)
                    // A stream whose reader stops must not take the room of the connection's other streams.
                    .initial_stream_window_size(STREAM_WINDOW)
                    .initial_connection_window_size(MAX_WINDOW)
                    // Errors travel in headers, with everything that they list.
                    .http2_max_header_list_size(MAX_HEADERS);
                let channel = connect(&endpoint);
                let (address, avoid_until, tls_failed_at) = (address.clone(), AtomicI64::new(0), AtomicI64::new(0));
                Ok(Arc::new(Core { address, channel, avoid_until, tls_failed_at }))
            })
            .collect::<Result<_, tonic::transport::Error>>()?;
        Ok(Self(Arc::new(Cores { cores, next: AtomicUsize::new(0), clock })))
    }

    /// One channel for each core.
    pub fn each(&self) -> Vec<Self> {
        let alone = |core: &Arc<Core>| {
            let (cores, clock) = (vec![Arc::clone(core)], Arc::clone(&self.0.clock));
            Self(Arc::new(Cores { cores, next: AtomicUsize::new(0), clock }))
        };
        self.0.cores.iter().map(alone).collect()
    }

    /// The addresses of its cores, with commas between them.
    pub fn addresses(&self) -> String {
        self.0.cores.iter().map(|core| core.address.as_str()).collect::<Vec<_>>().join(",")
    }
}

impl Cores {
    /// The cores in the order to try them: those that failed just now come last.
    fn order(&self) -> Vec<&Arc<Core>> {
        let start = self.next.fetch_add(1, Ordering::Relaxed);
        let now = self.clock.now_ms();
        let (late, early) = self.cores.split_at(start % self.cores.len().max(1));
        let mut order: Vec<&Arc<Core>> = early.iter().chain(late).collect();
        order.sort_by_key(|core| core.avoid_until.load(Ordering::Relaxed) > now);
        order
    }

    /// Calls one core after another until one responds. A core without a response may have carried out the call. Such a
    /// call is repeated only where that changes nothing.
    async fn call(&self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let repeatable = is_repeatable(head.uri.path(), &head.headers);
        let mut last = Err(BoxError::from("no address of core is known"));
        let mut remedy = None;
        let order = self.order();
        for (place, core) in order.iter().enumerate() {
            let request = Request::from_parts(head.clone(), Body::new(Full::new(body.clone())));
            let calling = core.channel.clone().oneshot(request);
            // A slow core still holds the idempotency key of its call, so another core could not help.
            last = if REPEATABLE.contains(head.uri.path()) && place + 1 < order.len() {
                timeout(RESPONSE_TIMEOUT, calling).await.map_err(BoxError::from).and_then(|response| Ok(response?))
            } else {
                calling.await.map_err(BoxError::from)
            };
            let again = match &last {
                Ok(response) => repeatable && is_unavailable(response),
                Err(error) => repeatable || was_never_sent(error.as_ref()),
            };
            if let Err(error) = &last {
                let error: &(dyn std::error::Error + 'static) = error.as_ref();
                remedy = remedies::remedy_for(error, &core.address);
                if core.failed(error, self.clock.now_ms()) {
                    tracing::error!(core = core.address, error = with_causes(error), remedy, "TLS with core failed");
                }
            }
            if !again {
                break;
            }
        }
        // The caller gets `UNAVAILABLE`, whatever the reason was.
        last.map_err(|error| remedies::unavailable(with_causes(error.as_ref()), remedy).into())
    }
}

impl Core {
    /// Notes that the core was not reached. Returns true if the error should be logged: TLS failed, and the log
    /// interval has passed.
    fn failed(&self, error: &(dyn std::error::Error + 'static), now_ms: i64) -> bool {
        self.avoid_until.store(now_ms + AVOID_TIME_MS, Ordering::Relaxed);
        let is_tls = remedies::tls_error(error).is_some();
        is_tls && self.tls_failed_at.swap(now_ms, Ordering::Relaxed) + TLS_ERROR_LOG_INTERVAL_MS <= now_ms
    }
}

/// True if a core responded that it is unavailable, before it carried out the call.
fn is_unavailable(response: &Response<Body>) -> bool {
    let status = response.headers().get("grpc-status");
    status.is_some_and(|status| Code::from_bytes(status.as_bytes()) == Code::Unavailable)
}

/// True if no connection was made, so that no core received the request.
fn was_never_sent(error: &(dyn std::error::Error + 'static)) -> bool {
    causes(error).any(|error| error.is::<ConnectError>())
}

/// True if a call that perhaps succeeded may be repeated: the method's `idempotency_level` allows it, or core knows the
/// call by its idempotency key.
fn is_repeatable(path: &str, headers: &HeaderMap) -> bool {
    REPEATABLE.contains(path) || headers.contains_key(IDEMPOTENCY_KEY)
}

static REPEATABLE: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let is_repeatable = |method: &MethodDescriptorProto| {
        let level = method.options.as_ref().map(MethodOptions::idempotency_level);
        level.is_some_and(|level| level != IdempotencyLevel::IdempotencyUnknown)
    };
    let repeatable = descriptors::methods().filter(|(_, method)| is_repeatable(method));
    repeatable.map(|(service, method)| format!("/{service}/{}", method.name())).collect()
});

impl Service<Request<Body>> for CoreChannel {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let cores = Arc::clone(&self.0);
        Box::pin(async move { cores.call(request).await })
    }
}
