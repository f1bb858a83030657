//! Receivers that mean harm. Each attempt ends within its time, with one outcome, and sends its request once.

use std::time::Duration;

use delivery_worker::WorkerConfig;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    time::timeout,
};

use crate::{
    HOST, config,
    core::{Harness, claim},
    endpoint::Endpoint,
    receiver::{Receiver, Script, Then, certificate, request},
};

/// Longest time of an attempt.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Longest time of a test: of two attempts, on a busy machine.
const MAX_TIME: Duration = Duration::from_secs(10);
/// Most bytes that a receiver gets rid of: those that the worker reads, and what both systems keep.
const MAX_WRITTEN: usize = 4 * 1024 * 1024;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
/// Empty `SETTINGS`, then `GOAWAY`, as HTTP/2 sends them.
const GOAWAY: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0";

type Outcome = Result<i32, String>;

fn impatient() -> WorkerConfig {
    // With room for one attempt, the next begins when this one has ended.
    WorkerConfig { capacity: 1, timeout: TIMEOUT, ..config() }
}

/// Makes an attempt, and one at a good receiver after it, whose outcome must be the second that core hears of.
async fn attempt(receiver: &mut Receiver, scheme: &str, config: WorkerConfig) -> Outcome {
    let good = Endpoint::start().await;
    let mut harness = Harness::start(config);
    let attempts = async {
        let stream = harness.stream().await;
        let outcome = harness.outcome(&stream, claim(format!("{scheme}://{}/", receiver.address))).await;
        assert_eq!(harness.outcome(&stream, claim(good.url("/status/299"))).await, Ok(299));
        receiver.ended().await;
        outcome
    };
    let outcome = timeout(MAX_TIME, attempts).await.expect("an attempt or its connection has no end");
    assert_eq!(receiver.connections(), 1);
    outcome
}

/// The outcome of an attempt at a receiver with this script, which gets one request.
async fn outcome_of(script: Script) -> Outcome {
    let mut receiver = Receiver::start(script);
    let outcome = attempt(&mut receiver, "http", impatient()).await;
    assert_eq!(receiver.requests(), 1);
    assert!(receiver.written() < MAX_WRITTEN, "the receiver got rid of {} bytes", receiver.written());
    outcome
}

fn no_answer() -> Outcome {
    Err("no valid response".into())
}

fn too_late() -> Outcome {
    Err("timeout".into())
}

#[tokio::test]
async fn a_head_that_never_ends() {
    assert_eq!(outcome_of(Script::new("", Then::Wait)).await, too_late());
    assert_eq!(outcome_of(Script::new("HTTP/1.1 200 OK\r\nx: ", Then::Drip(b"x"))).await, too_late());
    assert_eq!(outcome_of(Script::new("", Then::Drip(b"HTTP/1.1 102 Processing\r\n\r\n"))).await, too_late());
    let long = [b"HTTP/1.1 200 OK\r\nx: ".to_vec(), vec![b'x'; 16 << 20]].concat();
    assert_eq!(outcome_of(Script::new(long, Then::Wait)).await, no_answer());
}

#[tokio::test]
async fn a_body_that_drips() {
    let with_length = "HTTP/1.1 200 OK\r\ncontent-length: 10000\r\n\r\n";
    assert_eq!(outcome_of(Script::new(with_length, Then::Drip(b"x"))).await, Ok(200));
    assert_eq!(outcome_of(Script::new(with_length, Then::Wait)).await, Ok(200));
    let chunked = "HTTP/1.1 503 Service Unavailable\r\ntransfer-encoding: chunked\r\n\r\n";
    assert_eq!(outcome_of(Script::new(chunked, Then::Drip(b"1\r\nx\r\n"))).await, Ok(503));
}

#[tokio::test]
async fn an_endless_body() {
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    assert_eq!(outcome_of(Script::new(chunked, Then::Flood(usize::MAX))).await, Ok(200));
    let until_the_end = "HTTP/1.1 500 Internal Server Error\r\n\r\n";
    assert_eq!(outcome_of(Script::new(until_the_end, Then::Flood(usize::MAX))).await, Ok(500));
}

#[tokio::test]
async fn a_body_of_400_mb() {
    let length: usize = 400 << 20;
    let head = format!("HTTP/1.1 202 Accepted\r\ncontent-length: {length}\r\n\r\n");
    assert_eq!(outcome_of(Script::new(head, Then::Flood(length))).await, Ok(202));
}

#[tokio::test]
async fn a_reset() {
    let in_body = "HTTP/1.1 200 OK\r\ncontent-length: 10000\r\n\r\nx";
    assert_eq!(outcome_of(Script::new(in_body, Then::Reset)).await, Ok(200));
    assert_eq!(outcome_of(Script::new("HTTP/1.1 200 OK\r\nx: ", Then::Reset)).await, no_answer());
    assert_eq!(outcome_of(Script::new("", Then::Reset)).await, no_answer());
}

/// Two attempts at a receiver, one after the other.
async fn two_outcomes(receiver: &Receiver) -> [Outcome; 2] {
    let url = format!("http://{}/", receiver.address);
    let mut harness = Harness::start(impatient());
    let stream = harness.stream().await;
    [harness.outcome(&stream, claim(&url)).await, harness.outcome(&stream, claim(&url)).await]
}

#[tokio::test]
async fn a_reset_of_a_connection_that_was_used_before() {
    let answers = vec![OK.to_vec(), Vec::new()];
    let receiver = Receiver::start(Script { answers, ..Script::new("", Then::Reset) });
    assert_eq!(two_outcomes(&receiver).await, [Ok(200), no_answer()]);
    assert_eq!((receiver.connections(), receiver.requests()), (1, 2));
}

#[tokio::test]
async fn an_answer_to_a_request_to_come() {
    let two = [OK, b"HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n"].concat();
    let receiver = Receiver::start(Script::new(two, Then::Wait));
    assert_eq!(two_outcomes(&receiver).await, [Ok(200), Ok(200)]);
    assert_eq!((receiver.connections(), receiver.requests()), (2, 2));
}

#[tokio::test]
async fn a_redirect_to_an_internal_address() {
    for status in [301, 302, 303, 307, 308] {
        let mut inside = Endpoint::start().await;
        let location = inside.url("/status/200");
        let head = format!("HTTP/1.1 {status} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n");
        let script = Script::new(format!("{head}connection: close\r\n\r\n"), Then::Wait);
        assert_eq!(outcome_of(script).await, Ok(status));
        assert!(inside.received.try_recv().is_err());
    }
}

#[tokio::test]
async fn what_is_no_http_1() {
    let answers: [&[u8]; 6] = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        GOAWAY,
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/3 200 OK\r\n\r\n",
        b"HTTP/1.1 99999 OK\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.9\r\n\r\n",
    ];
    for answer in answers {
        assert_eq!(outcome_of(Script::new(answer, Then::Wait)).await, no_answer(), "{}", answer.escape_ascii());
    }
}

#[tokio::test]
async fn other_protocols_that_nobody_asked_for() {
    let upgrade: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n";
    assert_eq!(outcome_of(Script::new([upgrade, GOAWAY].concat(), Then::Wait)).await, Ok(101));

    let (acceptor, root) = certificate("127.0.0.1");
    let trusting = WorkerConfig { root_certificate: Some(root), ..impatient() };
    let mut receiver = Receiver::start_tls(Script::new(GOAWAY, Then::Wait), acceptor);
    assert_eq!(attempt(&mut receiver, "https", trusting).await, no_answer());
    assert_eq!(receiver.requests(), 1);
}

#[tokio::test]
async fn a_tls_handshake_that_never_ends() {
    // The header of a record of 16 KiB.
    for (answer, then) in [("", Then::Wait), ("\x16\x03\x03\x40\0", Then::Drip(b"\0"))] {
        let script = Script { request_end: b"", ..Script::new(answer, then) };
        assert_eq!(attempt(&mut Receiver::start(script), "https", impatient()).await, too_late());
    }
}

#[tokio::test]
async fn no_tls_at_all() {
    let script = Script { request_end: b"", ..Script::new(OK, Then::Wait) };
    assert_eq!(attempt(&mut Receiver::start(script), "https", impatient()).await, Err("tls failed".into()));
}

#[tokio::test]
async fn a_certificate_for_another_name() {
    let (acceptor, root) = certificate(HOST);
    let trusting = WorkerConfig { root_certificate: Some(root), ..impatient() };
    let mut receiver = Receiver::start_tls(Script::new(OK, Then::Wait), acceptor);
    assert_eq!(attempt(&mut receiver, "https", trusting).await, Err("tls failed".into()));
    assert_eq!(receiver.requests(), 0);
}

/// An attempt takes a connection that becomes free while its own is being made. That one must end all the same.
#[tokio::test]
async fn a_connection_that_no_attempt_waits_for() {
    let (acceptor, root) = certificate("127.0.0.1");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let config = WorkerConfig { capacity: 2, root_certificate: Some(root), ..impatient() };
    let mut harness = Harness::start(config);
    let stream = harness.stream().await;
    let receiver = async {
        let (socket, _) = listener.accept().await?;
        let mut first = acceptor.accept(socket).await?;
        request(&mut first, b"}").await?;
        stream.hand_out(claim(&url)).await;
        // A handshake that this side never begins.
        let (mut second, _) = listener.accept().await?;
        first.write_all(OK).await?;
        first.flush().await?;
        request(&mut first, b"}").await?;
        first.write_all(OK).await?;
        first.flush().await?;
        second.read_to_end(&mut Vec::new()).await
    };
    let (outcome, ended) = tokio::join!(harness.outcome(&stream, claim(&url)), timeout(MAX_TIME, receiver));
    assert_eq!(outcome, Ok(200));
    ended.expect("the second connection has no end").unwrap();
}
