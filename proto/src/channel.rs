//! How edge, worker and admin reach core: in process without a socket, or over gRPC to several addresses.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response};
use tonic::{
    Status,
    body::Body,
    transport::{Channel, ClientTlsConfig, Endpoint},
};
use tower::{Service, ServiceExt as _, util::BoxCloneSyncService};

use crate::clock::SharedClock;

/// An address that failed is left alone for so long, unless no other is left.
const AVOID_MS: i64 = 2_000;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A channel for the generated clients.
#[derive(Clone)]
pub struct CoreChannel(Inner);

#[derive(Clone)]
enum Inner {
    Local(BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>),
    Remote(Arc<Remote>),
}

struct Remote {
    cores: Vec<Core>,
    next: AtomicUsize,
    clock: SharedClock,
}

struct Core {
    channel: Channel,
    avoid_until: AtomicI64,
}

impl CoreChannel {
    /// Calls a service in this process.
    pub fn local<S>(service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
    {
        Self(Inner::Local(BoxCloneSyncService::new(service.map_err(Into::into))))
    }

    /// Spreads calls over the addresses, avoiding those that cannot be reached. Connects when first used.
    ///
    /// # Errors
    /// When an address is not a URL.
    pub fn remote(addresses: &[String], clock: SharedClock) -> Result<Self, tonic::transport::Error> {
        let cores = addresses
            .iter()
            .map(|address| {
                let mut endpoint = Endpoint::from_shared(address.clone())?;
                if address.starts_with("https://") {
                    endpoint = endpoint.tls_config(ClientTlsConfig::new().with_enabled_roots())?;
                }
                let channel = endpoint
                    .connect_timeout(Duration::from_secs(2))
                    // A silent core is given up before its streams' slots are given to others.
                    .http2_keep_alive_interval(Duration::from_secs(3))
                    .keep_alive_timeout(Duration::from_secs(4))
                    .keep_alive_while_idle(true)
                    .tcp_nodelay(true)
                    .connect_lazy();
                Ok(Core { channel, avoid_until: AtomicI64::new(0) })
            })
            .collect::<Result<_, tonic::transport::Error>>()?;
        Ok(Self(Inner::Remote(Arc::new(Remote { cores, next: AtomicUsize::new(0), clock }))))
    }
}

impl Remote {
    fn pick(&self) -> Option<&Core> {
        let start = self.next.fetch_add(1, Ordering::Relaxed);
        let now = self.clock.now_ms();
        let order = || (0..self.cores.len()).filter_map(|step| self.cores.get((start + step) % self.cores.len()));
        order().find(|core| core.avoid_until.load(Ordering::Relaxed) <= now).or_else(|| order().next())
    }

    async fn call(&self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let core = self.pick().ok_or_else(|| Status::unavailable("no address of core is known"))?;
        let answer = core.channel.clone().oneshot(request).await;
        if answer.is_err() {
            core.avoid_until.store(self.clock.now_ms() + AVOID_MS, Ordering::Relaxed);
        }
        Ok(answer?)
    }
}

impl Service<Request<Body>> for CoreChannel {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match &self.0 {
            Inner::Local(service) => Box::pin(service.clone().oneshot(request)),
            Inner::Remote(remote) => {
                let remote = Arc::clone(remote);
                Box::pin(async move { remote.call(request).await })
            }
        }
    }
}
