//! Serves connections with the edge.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Version, header::HOST, uri::Authority};
use hyper::body::Incoming;
use rest_edge_console::loggable_path;
use thesis_net::{
    clock::{SharedClock, SharedIdSource},
    server::{Limits, Listen, RequestHandler, Socket},
    services::Services,
};
use thesis_proto::error::{ApiError, ErrorCode};
use tokio_util::sync::CancellationToken;

use crate::{
    EdgeConfig,
    answer::{Body, REQUEST_ID},
    cors,
    edge::Edge,
    refusal::EnvelopedConnection,
    request_metrics,
};

/// Limit for a request's head in bytes.
pub(crate) const MAX_HEAD: u32 = 16 * 1024;
/// Limit for concurrent requests of one connection.
const MAX_REQUESTS: u32 = 128;
/// Limit for the requests that a connection cancels beyond those that it lets finish.
const MAX_GIVEN_UP: u32 = 200;
/// Limit for response bytes that clients have not read yet, of all connections together.
const MAX_UNTAKEN: usize = 256 * 1024 * 1024;
/// Limit for the delay until the runtime polls a task. If the delay stays above it, the edge refuses new requests.
const MAX_LAG: Duration = Duration::from_millis(300);
/// Open requests have this long to finish after the edge stops.
const DRAIN: Duration = Duration::from_secs(8);

/// Serves the REST API until `shutdown`. Then it ends streams, finishes requests and returns.
pub async fn serve(
    listener: impl Listen,
    core: Services,
    config: EdgeConfig,
    clock: SharedClock,
    ids: SharedIdSource,
    shutdown: CancellationToken,
) {
    let limits = Limits {
        server: request_metrics::SERVER,
        connections: config.max_connections,
        requests: MAX_REQUESTS,
        head: MAX_HEAD,
        given_up: MAX_GIVEN_UP,
        untaken: MAX_UNTAKEN,
        lag: MAX_LAG,
        drain: DRAIN,
    };
    let tls = config.tls.clone();
    let edge = Edge::new(core, config, clock, ids, shutdown.clone());
    thesis_net::server::serve(listener, tls, Arc::new(edge), limits, shutdown).await;
}

impl RequestHandler for Edge {
    type Peer = IpAddr;
    type Body = Body;
    type Io = EnvelopedConnection<Socket>;

    fn peer(&self, address: SocketAddr) -> IpAddr {
        address.ip()
    }

    fn wrap(self: &Arc<Self>, stream: Socket) -> Self::Io {
        EnvelopedConnection::new(stream, Arc::clone(self))
    }

    async fn handle(&self, peer: &IpAddr, request: Request<Incoming>) -> Response<Body> {
        if !names_one_host(&request) {
            tracing::info!(path = loggable_path(request.uri().path()), "request refused: it names no host, or several");
            return self.refusal_response(&ApiError::new(
                ErrorCode::InvalidRequest,
                "a request must name one host; send one Host header",
            ));
        }
        self.respond(*peer, request).await
    }

    fn refusal(&self) -> Response<Body> {
        self.refusal_response(&ApiError::unavailable())
    }

    fn turned_away(&self) -> Bytes {
        let id = self.context.request_id();
        self.context.errors.raw(&ApiError::unavailable(), id.to_str().unwrap_or_default())
    }
}

impl Edge {
    /// The envelope for a request that the edge refuses without reading it.
    fn refusal_response(&self, error: &ApiError) -> Response<Body> {
        let id = self.context.request_id();
        let mut response = self.context.errors.answer(error, &Default::default(), id.to_str().unwrap_or_default());
        response.headers_mut().insert(REQUEST_ID, id);
        cors::open(response.headers_mut());
        response
    }
}

/// True if a request names exactly one host. A request that passes the proxy of one host must not name another host.
fn names_one_host<B>(request: &Request<B>) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (host, another) = (hosts.next(), hosts.next());
    let authority = request.uri().authority().map(Authority::as_str);
    if [host.map(HeaderValue::as_bytes), authority.map(str::as_bytes)].into_iter().flatten().any(|host| !is_host(host))
    {
        return false;
    }
    match (request.version(), host, another) {
        (_, _, Some(_)) => false,
        (Version::HTTP_2, Some(host), None) => {
            authority.is_none_or(|authority| host.as_bytes().eq_ignore_ascii_case(authority.as_bytes()))
        }
        (Version::HTTP_2, None, None) => authority.is_some(),
        (Version::HTTP_11, None, None) => false,
        _ => true,
    }
}

/// True for a host with or without a port, and for the empty text, as in a target without a host.
fn is_host(text: &[u8]) -> bool {
    text.is_empty() || (!text.contains(&b'@') && Authority::try_from(text).is_ok())
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };

    use super::*;
    use crate::tests::fake::{FakeCore, sources};

    type Started = (SocketAddr, CancellationToken, tokio::task::JoinHandle<()>);

    /// Starts an edge whose streams stay open.
    async fn start(max_connections: usize) -> Started {
        let core = FakeCore::plain();
        start_with(core, EdgeConfig { max_connections, ..EdgeConfig::new("http://edge.test") }).await
    }

    /// Starts an edge in front of a core.
    async fn start_with(core: Arc<FakeCore>, config: EdgeConfig) -> Started {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let (clock, ids) = sources();
        let serving = tokio::spawn(serve(listener, core.services(), config, clock, ids, shutdown.clone()));
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
        let rest = read_until(&mut open, "0\r\n\r\n").await;
        assert!(rest.contains("retry: "), "{rest}");
        serving.await.unwrap();
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
            let response = read_until(&mut stream, "}}").await;
            let start = &request[..request.len().min(40)];
            assert!(response.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{start}: {response}");
            assert!(
                response.contains("x-service-request-id: req_") && response.contains("INVALID_REQUEST"),
                "{response}"
            );
            assert!(response.contains("\r\nconnection: close\r\n"), "{response}");
            assert!(
                response.contains("\r\ncache-control: no-store\r\nx-content-type-options: nosniff\r\n"),
                "{response}"
            );
        }
    }

    #[tokio::test]
    async fn a_request_names_one_host() {
        let (address, _shutdown, _serving) = start(10).await;
        for wrong in
            ["", "host: a\r\nhost: a\r\n", "host: a\r\nHost: b\r\n", "host: a, b\r\n", "host: a/b\r\n", "host: a@b\r\n"]
        {
            let mut stream = send(address, &format!("GET /v1 HTTP/1.1\r\n{wrong}\r\n")).await;
            let response = read_until(&mut stream, "}}").await;
            assert!(response.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{wrong}: {response}");
            assert!(
                response.contains("x-service-request-id: req_") && response.contains("INVALID_REQUEST"),
                "{response}"
            );
            stream.write_all(b"GET /v1 HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
            assert!(read_until(&mut stream, "\"ok\"}").await.starts_with("HTTP/1.1 200 OK\r\n"));
        }
        let mut old = send(address, "GET /v1 HTTP/1.0\r\n\r\n").await;
        assert!(read_until(&mut old, "\"ok\"}").await.starts_with("HTTP/1.0 200 OK\r\n"));
    }

    #[test]
    fn over_http2_the_host_is_the_authority() {
        for (authority, hosts, is_right) in [
            ("http://a", &[][..], true),
            ("http://a:80", &["A:80"], true),
            ("", &["a"], true),
            ("", &[], false),
            ("http://a", &["b"], false),
            ("http://u@a", &[], false),
            ("http://a", &["a", "a"], false),
        ] {
            let mut request = Request::builder().version(Version::HTTP_2).uri(format!("{authority}/v1"));
            for host in hosts {
                request = request.header(HOST, *host);
            }
            assert_eq!(names_one_host(&request.body(()).unwrap()), is_right, "{authority} {hosts:?}");
        }
    }

    #[tokio::test]
    async fn a_panic_is_one_answer_and_the_connection_lives_on() {
        let core = FakeCore::new(|operation, _| panic!("{operation} is broken"));
        let config = EdgeConfig::new("http://edge.test");
        let (address, _shutdown, _serving) = start_with(core, config).await;
        let mut stream = send(address, "GET /v1/me HTTP/1.1\r\nhost: a\r\n\r\n").await;
        let response = read_until(&mut stream, "}}").await;
        assert!(response.starts_with("HTTP/1.1 500 ") && response.contains("INTERNAL_ERROR"), "{response}");
        let id = response.split("x-service-request-id: ").nth(1).unwrap().lines().next().unwrap();
        assert!(response.contains(&format!("\"request_id\":\"{id}\"")) && !response.contains("broken"), "{response}");
        stream.write_all(b"GET /v1 HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        assert!(read_until(&mut stream, "\"ok\"}").await.starts_with("HTTP/1.1 200 OK\r\n"));
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
        let mut first = send(address, "GET /v1/events/stream HTTP/1.1\r\nhost: a\r\n\r\n").await;
        read_until(&mut first, "\r\n\r\n").await;
        let mut second = TcpStream::connect(address).await.unwrap();
        let response = read_until(&mut second, "}}").await;
        assert!(response.starts_with("HTTP/1.1 503") && response.contains("SERVICE_UNAVAILABLE"), "{response}");
        assert!(response.contains("x-service-request-id: req_") && response.contains("retry-after: 1"), "{response}");
    }
}
