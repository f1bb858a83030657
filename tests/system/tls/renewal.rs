//! A certificate is renewed under load, and nobody is dropped.

use std::{
    fs,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Message, client::IntoClientRequest as _},
};

use super::authority::{Authority, with_certificate};
use crate::harness::{Client, SOON, Service, TEST_KEY, eventually, fetch};

/// A WebSocket by TLS that is subscribed to new theses.
pub(super) struct Listener(WebSocketStream<TlsStream<TcpStream>>);

impl Listener {
    pub(super) async fn open(authority: &Authority, edge: &str) -> Self {
        let url = format!("{}/v1/stream", edge.replacen("https", "wss", 1));
        let mut request = url.into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {TEST_KEY}").parse().unwrap());
        let (socket, _) = client_async(request, authority.connect(edge).await).await.unwrap();
        let mut listener = Self(socket);
        let subscribe = json!({"op": "subscribe", "rid": "r", "sub": "a", "types": ["thesis.created"]});
        listener.0.send(Message::text(subscribe.to_string())).await.unwrap();
        listener.next("subscribed").await;
        listener
    }

    /// The next event.
    pub(super) async fn next_event(&mut self) -> Value {
        self.next("event").await
    }

    async fn next(&mut self, op: &str) -> Value {
        loop {
            let heard = timeout(SOON, self.0.next()).await.expect("a message in time");
            let Message::Text(heard) = heard.expect("it is open").unwrap() else { continue };
            let heard: Value = serde_json::from_str(&heard).unwrap();
            if heard["op"] == op {
                return heard;
            }
        }
    }
}

/// Asks over a connection that stays open.
async fn ask(connection: &mut TlsStream<TcpStream>) {
    connection.write_all(b"GET /v1 HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\"ok\"}") {
        assert!(connection.read_buf(&mut answer).await.unwrap() > 0, "{}", String::from_utf8_lossy(&answer));
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_drops_nobody() {
    let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let first = authority.renew(dir.path());
    let service = Service::embedded(|setup| with_certificate(setup, dir.path()));
    assert!(service.http.starts_with("https://"), "{}", service.http);
    let client = Client::trusting(&service.http, TEST_KEY, &authority.root);
    let mut stream = client.stream("?types=thesis.created").await;
    let mut socket = Listener::open(&authority, &service.http).await;
    let mut kept = authority.connect(&service.http).await;
    ask(&mut kept).await;
    assert_eq!(authority.shown(&service.http).await, first);
    let told = async || {
        let metrics = fetch(format!("{}/metrics", service.processes[0].address("ops"))).await.unwrap();
        let metrics = metrics.text().await.unwrap();
        let told = metrics.lines().find_map(|line| line.strip_prefix("tls_certificate_expiry_timestamp_seconds "));
        told.map(|at| at.parse::<f64>().unwrap())
    };
    let expires_at = eventually("the time of its expiry is told", SOON, told).await;
    assert!(expires_at > 1_767_225_600.0, "{expires_at}");

    let (done, asked) = (AtomicBool::new(false), AtomicU32::new(0));
    // Every request is answered, over connections that are kept and over new ones.
    let load = async || {
        let mut connection = authority.connect(&service.http).await;
        while !done.load(Ordering::Relaxed) {
            ask(&mut connection).await;
            ask(&mut authority.connect(&service.http).await).await;
            asked.fetch_add(2, Ordering::Relaxed);
        }
    };
    let renew = async {
        let second = authority.renew(dir.path());
        for url in [&service.http, &service.grpc] {
            let is_new = async || (authority.shown(url).await == second).then_some(());
            eventually("the new certificate is shown", SOON, is_new).await;
        }
        done.store(true, Ordering::Relaxed);
        second
    };
    let (second, (), ()) = tokio::join!(renew, load(), load());
    assert!(second != first && asked.load(Ordering::Relaxed) > 0);
    ask(&mut kept).await;
    let event = client.thesis("writer", "RENEWED", "still open").await.1;
    assert_eq!(stream.next().await.data, event);
    assert_eq!(socket.next_event().await["event"], event);

    // One that cannot be used is told once, and the one before is kept.
    for (certificate, reason) in
        [("nonsense".to_owned(), "it holds no certificate in PEM"), (authority.pair(true).0, "the certificate expired")]
    {
        fs::write(dir.path().join("cert.pem"), certificate).unwrap();
        let told = async || service.processes[0].log().contains(reason).then_some(());
        eventually("the error is told", SOON, told).await;
        assert_eq!(authority.shown(&service.http).await, second);
    }
    let third = authority.renew(dir.path());
    let is_new = async || (authority.shown(&service.http).await == third).then_some(());
    eventually("it recovers", SOON, is_new).await;
    assert_eq!(service.processes[0].log().matches("cannot be used").count(), 2, "{}", service.processes[0].log());
    ask(&mut kept).await;
    let event = client.thesis("writer", "RENEWED", "and on").await.1;
    assert_eq!(stream.next().await.data, event);
    assert_eq!(socket.next_event().await["event"], event);
}
