//! A running simulator.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, middleware::from_fn_with_state, serve::ListenerExt as _};
use thesis_net::clock::SharedClock;
use tokio::{net::TcpListener, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    Options, auth, control, feed, lookups,
    shared::{Shared, Sim},
    ticker,
};

/// Timeout for open requests at the end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// A running simulator. It stops when it is dropped.
#[derive(Debug)]
pub struct Simulator {
    address: SocketAddr,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Simulator {
    /// Creates the world and listens.
    ///
    /// # Errors
    ///
    /// Fails when the address cannot be used.
    pub async fn start(options: Options, clock: SharedClock) -> io::Result<Self> {
        let listener = TcpListener::bind(options.listen).await?;
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let sim = Arc::new(Shared::new(&options, clock, stop.clone()));
        tokio::spawn(ticker::run(Arc::clone(&sim)));
        // Otherwise a frame would wait for the acknowledgement of the one before.
        let listener = listener.tap_io(|socket| drop(socket.set_nodelay(true)));
        let serving = axum::serve(listener, routes(sim)).with_graceful_shutdown(stop.clone().cancelled_owned());
        let serving = tokio::spawn(async move { drop(serving.await) });
        Ok(Self { address, stop, serving })
    }

    /// The address at which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes the feed, lets lookups finish, and ends.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if timeout(DRAIN_TIMEOUT, &mut self.serving).await.is_err() {
            self.serving.abort();
        }
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn routes(sim: Sim) -> Router {
    Router::new()
        .merge(lookups::routes())
        .merge(feed::routes())
        .nest("/sim", control::routes())
        .layer(from_fn_with_state(Arc::clone(&sim), auth::check))
        .with_state(sim)
}
