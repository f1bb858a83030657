mod bodies;
mod crowd;
mod encrypted;

use std::{convert::Infallible, time::Duration};

use futures::StreamExt as _;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::BoxBody};
use hyper::body::Frame;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::Notify,
    time::Instant,
};

use super::*;

/// More bytes than sockets take in unread.
const LARGE: usize = 32 * 1024 * 1024;
const LIMITS: Limits = Limits {
    server: "tests",
    connections: 10,
    requests: 100,
    head: 16 * 1024,
    given_up: 50,
    untaken: LARGE * 3 / 2,
    lag: Duration::from_secs(5),
    drain: Duration::from_secs(1),
};

/// Tells when a request waits, and lets it go on.
#[derive(Default)]
struct Gate {
    waits: Notify,
    go: Notify,
    /// A stream has ended.
    gone: Notify,
}

/// Tells when the stream that owns it ends.
struct Gone(Arc<Gate>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.gone.notify_one();
    }
}

fn text(bytes: impl Into<Bytes>) -> BoxBody<Bytes, Infallible> {
    Full::new(bytes.into()).boxed()
}

/// A server that answers `/wait` when told, `/large` with many bytes, `/stream` with as many and no end, and
/// `/unattended` with nothing and no end.
async fn start(limits: Limits) -> (SocketAddr, Arc<Gate>) {
    start_with(limits, None).await
}

/// The same, by TLS or not.
async fn start_with(limits: Limits, tls: Option<Acceptor>) -> (SocketAddr, Arc<Gate>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let gate = Arc::<Gate>::default();
    let waiting = Arc::clone(&gate);
    let service = tower::service_fn(move |request: Request<Incoming>| {
        let gate = Arc::clone(&waiting);
        async move {
            match request.uri().path() {
                "/wait" => {
                    let go = gate.go.notified();
                    gate.waits.notify_one();
                    go.await;
                }
                "/large" => return Ok(Response::new(text(vec![b'x'; LARGE]))),
                "/refused" => {
                    let mut response = Response::new(text("hello"));
                    response.extensions_mut().insert(RefusedRequest);
                    return Ok(response);
                }
                "/ready" => {
                    let frame = Ok(Frame::data(Bytes::from_static(b"hello")));
                    let mut response = Response::new(BoxBody::new(StreamBody::new(futures::stream::iter([frame]))));
                    response.extensions_mut().insert(ReadyResponse);
                    return Ok(response);
                }
                "/unattended" => {
                    let frames = futures::stream::pending::<Result<Frame<Bytes>, Infallible>>();
                    let mut response = Response::new(BoxBody::new(StreamBody::new(frames)));
                    response.extensions_mut().insert(UnattendedResponse);
                    return Ok(response);
                }
                "/stream" => {
                    let frame = Ok(Frame::data(Bytes::from(vec![b'x'; LARGE])));
                    let gone = Gone(gate);
                    let frames = futures::stream::iter([frame]).chain(futures::stream::pending());
                    let frames = frames.inspect(move |_| {
                        let _lives = &gone;
                    });
                    return Ok(Response::new(BoxBody::new(StreamBody::new(frames))));
                }
                _ => {}
            }
            Ok::<_, Infallible>(Response::new(text("hello")))
        }
    });
    let refusal = || {
        let mut refusal = Response::new(text(""));
        *refusal.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
        refusal
    };
    tokio::spawn(serve(
        listener,
        tls,
        Arc::new(ServiceHandler { service, refusal, calls: 0 }),
        limits,
        CancellationToken::new(),
    ));
    (address, gate)
}

async fn send(address: SocketAddr, bytes: impl AsRef<[u8]>) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // Paused time does not wait for an acknowledgement.
    stream.set_nodelay(true).unwrap();
    stream.write_all(bytes.as_ref()).await.unwrap();
    stream
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n")
}

/// The text up to this, or up to the end.
async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = Vec::new();
    while !text.ends_with(end.as_bytes()) && stream.read_buf(&mut text).await.unwrap_or(0) > 0 {}
    String::from_utf8_lossy(&text).into_owned()
}

async fn is_served(address: SocketAddr) -> bool {
    let mut stream = send(address, get("/")).await;
    read_until(&mut stream, "hello").await.ends_with("hello")
}

/// An answer's status; the rest is not read.
async fn status(stream: &mut TcpStream) -> Option<String> {
    let mut line = [0; 12];
    stream.read_exact(&mut line).await.ok()?;
    String::from_utf8(line[9..].to_vec()).ok()
}

/// Whether the server closes the connection.
async fn ends(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    let _ = timeout(Duration::from_secs(20), stream.read_to_end(&mut rest)).await.expect("it ends");
    true
}

/// An HTTP/2 frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The preface, with empty settings.
fn preface() -> Vec<u8> {
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &frame(4, 0, 0, &[])].concat()
}

/// `GET /wait` of `a`: three indexed headers and two literal ones.
const HEADERS: &[u8] = b"\x82\x86\x04\x05/wait\x41\x01a";

#[tokio::test]
async fn the_first_bytes_tell_the_protocol_however_they_come() {
    let (address, _) = start(LIMITS).await;
    for begin in ["P", "PR", "PU", "G"] {
        let mut stream = send(address, begin).await;
        // The server has most likely read what is there.
        assert!(is_served(address).await);
        let rest = match begin {
            "P" => "OST / HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
            "PR" => "OPFIND / HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
            "PU" => "T / HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
            _ => get("/").split_off(1),
        };
        stream.write_all(rest.as_bytes()).await.unwrap();
        assert!(read_until(&mut stream, "hello").await.ends_with("hello"), "{begin}");
    }
    let preface = preface();
    let (begin, rest) = preface.split_at(3);
    let mut http2 = send(address, begin).await;
    assert!(is_served(address).await);
    http2.write_all(rest).await.unwrap();
    // Its settings.
    let mut head = [0; 5];
    http2.read_exact(&mut head).await.unwrap();
    assert_eq!((head[3], head[4]), (4, 0));
    let mut gone = send(address, "P").await;
    gone.shutdown().await.unwrap();
    assert!(timeout(Duration::from_secs(5), gone.read_to_end(&mut Vec::new())).await.is_ok());
}

/// Writes again and again until the connection ends, but not for ever.
async fn flood(address: SocketAddr, mut next: impl FnMut(u32) -> Vec<u8> + Send + 'static) {
    let (mut reading, mut writing) = send(address, preface()).await.into_split();
    let reading = tokio::spawn(async move {
        let mut buffer = vec![0; 64 * 1024];
        while reading.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
    });
    let flooding = async {
        for number in 0..10_000_000 {
            if writing.write_all(&next(number)).await.is_err() {
                return;
            }
        }
        panic!("it was never ended");
    };
    timeout(Duration::from_secs(60), flooding).await.expect("it is ended in time");
    reading.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_end_their_connection_only() {
    let (address, gate) = start(LIMITS).await;
    let mut other = send(address, get("/wait")).await;
    gate.waits.notified().await;
    // Requests that are given up as soon as they are made, then requests that are given up later.
    flood(address, |number| {
        let stream = 2 * number + 1;
        [frame(1, 5, stream, HEADERS), frame(3, 0, stream, &8_u32.to_be_bytes())].concat()
    })
    .await;
    flood(address, |number| {
        let headers = frame(1, 5, 2 * number + 1, HEADERS);
        let earlier = (2 * number + 1).saturating_sub(20);
        if number < 10 { headers } else { [headers, frame(3, 0, earlier, &8_u32.to_be_bytes())].concat() }
    })
    .await;
    // Pings, settings, frames of an unknown type, headers without end.
    flood(address, |_| frame(6, 0, 0, &[0; 8]).repeat(1_000)).await;
    flood(address, |_| frame(4, 0, 0, &[0, 3, 0, 0, 0, 100]).repeat(1_000)).await;
    flood(address, |_| frame(0xfa, 0, 0, &[0; 16_384])).await;
    flood(address, |number| match number {
        0 => frame(1, 1, 1, HEADERS),
        _ => frame(9, 0, 1, &[0x82; 16_384]),
    })
    .await;
    assert!(is_served(address).await);
    gate.go.notify_waiters();
    assert!(read_until(&mut other, "hello").await.ends_with("hello"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_nobody_takes_leave_no_room_and_then_give_way() {
    for path in ["/large", "/stream"] {
        let (address, _) = start(LIMITS).await;
        let large = async || {
            let mut stream = send(address, "GET /large HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
            (status(&mut stream).await.as_deref() == Some("200")).then_some(stream)
        };
        let mut slow = send(address, get(path)).await;
        assert_eq!(status(&mut slow).await.as_deref(), Some("200"));
        assert!(large().await.is_none());
        assert!(is_served(address).await);
        let room = async {
            loop {
                if let Some(taking) = large().await {
                    return taking;
                }
            }
        };
        let mut taking = timeout(Duration::from_secs(20), room).await.expect("there is room");
        let mut rest = Vec::new();
        let _ = slow.read_to_end(&mut rest).await;
        assert!(rest.len() < LARGE);
        // An answer that is taken leaves room for more.
        for _ in 0..3 {
            let mut whole = Vec::new();
            taking.read_to_end(&mut whole).await.unwrap();
            assert!(whole.len() > LARGE);
            taking = large().await.expect("there is room");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_takes_what_it_gets_goes_on_where_there_is_no_room() {
    let (address, _) = start(Limits { untaken: LARGE / 2, ..LIMITS }).await;
    let mut stream = send(address, get("/stream")).await;
    stream.read_exact(&mut vec![0; LARGE]).await.unwrap();
}

#[tokio::test]
async fn requests_are_refused_while_they_wait_too_long() {
    let (address, _) = start(Limits { lag: Duration::from_millis(10), ..LIMITS }).await;
    let refused = async || status(&mut send(address, get("/")).await).await.as_deref() == Some("503");
    while refused().await {}
    // Every ready task waits while this thread is busy, again and again.
    let busy = tokio::spawn(async {
        loop {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(20) {}
            tokio::task::yield_now().await;
        }
    });
    while !refused().await {}
    busy.abort();
    while refused().await {}
}

#[tokio::test(start_paused = true)]
async fn what_does_not_ask_or_take_in_time_is_closed() {
    let (address, _) = start(LIMITS).await;
    for bytes in ["", "GET / HT", "PRI * HTTP/2.0\r\n", &get("/large")] {
        let mut stream = send(address, bytes).await;
        // Paused time moves on when nothing else does.
        sleep(Duration::from_secs(200)).await;
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        assert!(rest.len() < LARGE, "{bytes}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_which_nothing_is_taken_ends() {
    let (address, gate) = start(Limits { lag: Duration::MAX, ..LIMITS }).await;
    let began = Instant::now();
    let mut stream = send(address, get("/stream")).await;
    assert_eq!(status(&mut stream).await.as_deref(), Some("200"));
    gate.gone.notified().await;
    assert!(began.elapsed().as_secs() >= 60, "{:?}", began.elapsed());
}

/// Seconds until the server closes the connection.
async fn seconds_until_closed(mut stream: TcpStream) -> u64 {
    let began = Instant::now();
    let _ = stream.read_to_end(&mut Vec::new()).await;
    began.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_lives_longer_than_a_head_may_take() {
    // A jump of paused time is no lag.
    let (address, gate) = start(Limits { lag: Duration::MAX, ..LIMITS }).await;
    let open_request = async || {
        let mut stream = send(address, get("/")).await;
        assert!(read_until(&mut stream, "hello").await.ends_with("hello"));
        stream
    };
    // A proxy sends a request after a minute, and once more.
    let mut stream = open_request().await;
    for _ in 0..2 {
        sleep(Duration::from_secs(70)).await;
        stream.write_all(b"GET / HT").await.unwrap();
        sleep(Duration::from_secs(8)).await;
        stream.write_all(b"TP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        assert!(read_until(&mut stream, "hello").await.ends_with("hello"));
    }
    assert!((74..=76).contains(&seconds_until_closed(stream).await));
    // A head that has begun has less time, whatever came before.
    let mut begun = open_request().await;
    sleep(Duration::from_secs(60)).await;
    begun.write_all(b"GET / HT").await.unwrap();
    assert!((9..=11).contains(&seconds_until_closed(begun).await));
    assert!((9..=11).contains(&seconds_until_closed(TcpStream::connect(address).await.unwrap()).await));
    assert!((9..=11).contains(&seconds_until_closed(send(address, "G").await).await));
    // Over HTTP/2, pings that nobody answers end a connection.
    let http2 = send(address, [preface(), frame(1, 5, 1, HEADERS)].concat()).await;
    gate.waits.notified().await;
    gate.go.notify_waiters();
    assert!((21..=60).contains(&seconds_until_closed(http2).await));
}
