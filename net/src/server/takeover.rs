//! Connections that continue without HTTP, as WebSockets and long responses do. The buffers of HTTP, more than 16 KiB,
//! are free then.
//!
//! A reader may pause. A stream ends when its client is over 1,000 events behind and has taken no byte for a minute;
//! the connection ends when no byte was taken for ten minutes. `TCP_USER_TIMEOUT` counts from the moment at which the
//! window closes, even if the peer answers, so it must be as long. Therefore a client of Server-Sent Events without a
//! network is noticed after ten minutes; WebSockets have pongs.

use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::{Metered, Wire};

/// The bytes of a connection after HTTP.
pub type Socket = Metered<Wire>;

type Serve = Box<dyn FnOnce(Socket) -> BoxFuture<'static, ()> + Send>;

/// Serves a connection over HTTP/1.1 once the head of a response is written; an extension of that response. The
/// response's body stays pending and has no known size, so that hyper announces chunks over HTTP/1.1, and the end of
/// the connection over HTTP/1.0. The connection still counts, is metered and drained as before, and closes in the end.
#[derive(Clone)]
pub struct Takeover(Arc<Mutex<Option<Serve>>>);

impl Takeover {
    /// Serves the socket until the future ends.
    pub fn new<F: Future<Output = ()> + Send + 'static>(serve: impl FnOnce(Socket) -> F + Send + 'static) -> Self {
        let serve: Serve = Box::new(|socket| Box::pin(serve(socket)));
        Self(Arc::new(Mutex::new(Some(serve))))
    }

    /// Serves the socket, the first time.
    pub(super) async fn serve(self, socket: Socket) {
        let serve = self.0.lock().take();
        if let Some(serve) = serve {
            serve(socket).await;
        }
    }
}
