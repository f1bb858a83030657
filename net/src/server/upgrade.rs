//! Connections that go on as something else than HTTP.

use std::{fmt, sync::Arc};

use futures::future::BoxFuture;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;

/// The bytes of a connection after HTTP.
pub type Socket = TokioIo<Upgraded>;

type Serve = Box<dyn FnOnce(Socket) -> BoxFuture<'static, ()> + Send>;

/// What a connection does after its answer 101, as an extension of that answer. The connection still counts, is metered
/// and drained as before.
#[derive(Clone)]
pub struct Upgrade(Arc<Mutex<Option<Serve>>>);

impl Upgrade {
    /// Serves the socket until the future ends.
    pub fn new<F: Future<Output = ()> + Send + 'static>(serve: impl FnOnce(Socket) -> F + Send + 'static) -> Self {
        let serve: Serve = Box::new(|socket| Box::pin(serve(socket)));
        Self(Arc::new(Mutex::new(Some(serve))))
    }

    /// Serves the socket, the first time.
    pub(super) async fn serve(self, socket: Upgraded) {
        let serve = self.0.lock().take();
        if let Some(serve) = serve {
            serve(TokioIo::new(socket)).await;
        }
    }
}

impl fmt::Debug for Upgrade {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Upgrade")
    }
}
