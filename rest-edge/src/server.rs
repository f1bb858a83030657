//! Accepts connections, bounds them, and drains them in the end.

use std::{io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{
        conn::auto::Builder,
        graceful::{GracefulShutdown, Watcher},
    },
};
use thesis_proto::{
    channel::CoreChannel,
    clock::{SharedClock, SharedIdSource},
    error::ApiError,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    EdgeConfig,
    answer::raw,
    edge::{Edge, Peer},
    refusal::Enveloped,
};

/// A request's head must have arrived within so long; an idle connection is closed after as long.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// Open requests may take so long once the edge stops.
const DRAIN: Duration = Duration::from_secs(8);
const MAX_HEAD: usize = 16 * 1024;

/// Serves the REST API until `shutdown`, then ends streams, finishes requests and returns.
///
/// # Errors
/// When the service token cannot be sent.
pub async fn serve(
    listener: TcpListener,
    core: CoreChannel,
    config: EdgeConfig,
    clock: SharedClock,
    ids: SharedIdSource,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let slots = Arc::new(Semaphore::new(config.max_connections.min(Semaphore::MAX_PERMITS)));
    let edge = Edge::new(core, config, clock, ids, shutdown.clone())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the service token has unprintable characters"))?;
    let edge = Arc::new(edge);
    let protocol = protocol();
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        while connections.try_join_next().is_some() {}
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file handles, most likely: others close soon.
                tracing::warn!(%error, "cannot accept a connection");
                sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
            turn_away(&edge, &stream);
            continue;
        };
        let serving = connection(Arc::clone(&edge), protocol.clone(), graceful.watcher(), stream, address);
        connections.spawn(async move {
            serving.await;
            drop(slot);
        });
    }
    drop(listener);
    if timeout(DRAIN, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in time");
    }
    Ok(())
}

fn protocol() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).max_buf_size(MAX_HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(10))
        .max_concurrent_streams(128)
        .max_header_list_size(MAX_HEAD as u32);
    builder
}

async fn connection(
    edge: Arc<Edge>,
    protocol: Builder<TokioExecutor>,
    watcher: Watcher,
    stream: TcpStream,
    address: SocketAddr,
) {
    // A frame of a stream should leave at once.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let peer = Arc::new(Peer::new(address.ip()));
    let answering = Arc::clone(&edge);
    let service = service_fn(|request| {
        let (edge, peer) = (Arc::clone(&answering), Arc::clone(&peer));
        async move { edge.answer(&peer, request).await }
    });
    let io = TokioIo::new(Enveloped::new(stream, edge));
    let mut serving = pin!(watcher.watch(protocol.serve_connection(io, service)));
    // Telling the protocols apart has no time limit of its own, so the first request has one here.
    let ended = match timeout(HEAD_PATIENCE, serving.as_mut()).await {
        Err(_) if peer.asked() => serving.await,
        Err(_) => return,
        Ok(ended) => ended,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

/// Tells a connection beyond the limit to come again, as far as that works without waiting for it.
fn turn_away(edge: &Edge, stream: &TcpStream) {
    let id = edge.request_id();
    let id = id.to_str().unwrap_or_default();
    // Best effort: the connection is closed either way.
    let _ = stream.try_write(&raw(&ApiError::unavailable(), id));
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt as _, stream};
    use prost::Message as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::tests::fake::{FakeCore, live, sources};

    /// A running edge whose streams stay open.
    async fn start(max_connections: usize) -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<io::Result<()>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let core = FakeCore::new(|_, _| {
            let first = Ok(live(&[]).encode_to_vec().into());
            Ok(stream::iter([first]).chain(stream::pending()).boxed())
        });
        let config = EdgeConfig { max_connections, ..EdgeConfig::new("http://edge.test", "t") };
        let shutdown = CancellationToken::new();
        let (clock, ids) = sources();
        let serving = tokio::spawn(serve(listener, core.channel(), config, clock, ids, shutdown.clone()));
        (address, shutdown, serving)
    }

    async fn send(address: SocketAddr, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn read_until(stream: &mut TcpStream, end: &str) -> String {
        let mut text = Vec::new();
        while !String::from_utf8_lossy(&text).contains(end) {
            assert!(stream.read_buf(&mut text).await.unwrap() > 0, "{}", String::from_utf8_lossy(&text));
        }
        String::from_utf8(text).unwrap()
    }

    #[tokio::test]
    async fn stopping_ends_streams_and_idle_connections() {
        let (address, shutdown, serving) = start(10).await;
        let mut idle = send(address, "GET /v1 HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert!(read_until(&mut idle, "\"ok\"}").await.starts_with("HTTP/1.1 200 OK\r\n"));
        let mut open = send(address, "GET /v1/events/stream HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert!(read_until(&mut open, "\r\n\r\n").await.contains("text/event-stream"));
        shutdown.cancel();
        read_until(&mut open, "retry: 1000\n\n").await;
        serving.await.unwrap().unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn what_is_no_request_gets_the_envelope_too() {
        let (address, _shutdown, _serving) = start(10).await;
        let large = format!("GET /v1 HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "x".repeat(20_000));
        let many = format!("GET /v1 HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(200));
        let long = format!("GET /v1/{} HTTP/1.1\r\nhost: a\r\n\r\n", "x".repeat(70_000));
        for request in [
            "nonsense\r\n\r\n",
            "GET /v1/\u{7f} HTTP/1.1\r\nhost: a\r\n\r\n",
            "GET /v1/a b HTTP/1.1\r\nhost: a\r\n\r\n",
            "GET /v1 HTTP/1.1\r\nhost a\r\n\r\n",
            "GET /v1 HTTP/9.9\r\nhost: a\r\n\r\n",
            "POST /v1/test/theses HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
            &large,
            &many,
            &long,
        ] {
            let mut stream = send(address, request).await;
            let told = read_until(&mut stream, "}}").await;
            let start = &request[..request.len().min(40)];
            assert!(told.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{start}: {told}");
            assert!(told.contains("x-service-request-id: req_") && told.contains("INVALID_REQUEST"), "{told}");
            assert!(told.contains("\r\nconnection: close\r\n"), "{told}");
        }
    }

    #[tokio::test]
    async fn a_bad_request_after_good_ones_gets_its_own_answer() {
        let (address, _shutdown, _serving) = start(10).await;
        let good = "GET /v1 HTTP/1.1\r\nhost: a\r\n\r\n";
        let mut stream = send(address, good).await;
        read_until(&mut stream, "\"ok\"}").await;
        stream.write_all(b"HEAD /v1 HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let head = read_until(&mut stream, "\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("content-length: ") && head.ends_with("\r\n\r\n"));
        stream
            .write_all(b"OPTIONS /v1 HTTP/1.1\r\nhost: a\r\n\r\nHEAD /v1/x HTTP/1.1\r\nhost: a\r\n\r\n")
            .await
            .unwrap();
        assert!(read_until(&mut stream, "404 Not Found").await.starts_with("HTTP/1.1 204 No Content"));
        stream.write_all(b"nonsense\r\n\r\n").await.unwrap();
        assert!(read_until(&mut stream, "}}").await.contains("INVALID_REQUEST"));
    }

    #[tokio::test]
    async fn connections_beyond_the_limit_are_turned_away() {
        let (address, _shutdown, _serving) = start(1).await;
        let mut first = send(address, "GET /v1 HTTP/1.1\r\nhost: a\r\n\r\n").await;
        read_until(&mut first, "\"ok\"}").await;
        let mut second = TcpStream::connect(address).await.unwrap();
        let told = read_until(&mut second, "}}").await;
        assert!(told.starts_with("HTTP/1.1 503") && told.contains("SERVICE_UNAVAILABLE"), "{told}");
        assert!(told.contains("x-service-request-id: req_") && told.contains("retry-after: 1"), "{told}");
    }
}
