//! Connections by TLS.

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
    time_provider::TimeProvider,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::*;
use crate::tls::tests::identity;

/// 2030, when the certificates of these tests are valid.
#[derive(Debug)]
struct Then;

impl TimeProvider for Then {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(1_893_456_000)))
    }
}

/// A server by TLS, and how its clients connect.
struct Encrypted {
    address: SocketAddr,
    gate: Arc<Gate>,
    connector: TlsConnector,
    _dir: tempfile::TempDir,
}

impl Encrypted {
    async fn start(limits: Limits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (identity, root) = identity(dir.path());
        let (address, gate) = start_with(limits, Some(identity.acceptor(&["http/1.1", "h2"]))).await;
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(root.as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_details(Arc::new(ring::default_provider()), Arc::new(Then));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        Self { address, gate, connector: Arc::new(config).into(), _dir: dir }
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        self.connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap()
    }

    async fn is_served(&self) -> bool {
        let mut stream = self.connect().await;
        stream.write_all(get("/").as_bytes()).await.unwrap();
        let mut text = Vec::new();
        while !text.ends_with(b"hello") && stream.read_buf(&mut text).await.unwrap_or(0) > 0 {}
        text.ends_with(b"hello")
    }
}

#[tokio::test]
async fn who_never_shakes_hands_keeps_nobody_out() {
    let server = Encrypted::start(Limits { connections: 3, ..LIMITS }).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    // The head of a record whose rest never comes.
    let mut dripping = send(server.address, [22, 3, 1, 1, 0]).await;
    for _ in 0..10 {
        assert!(server.is_served().await);
    }
    assert!(ends(&mut silent).await && ends(&mut dripping).await);
}

#[tokio::test(start_paused = true)]
async fn a_handshake_has_the_first_ten_seconds() {
    let server = Encrypted::start(Limits { lag: Duration::MAX, ..LIMITS }).await;
    assert!((9..=11).contains(&seconds_until_closed(TcpStream::connect(server.address).await.unwrap()).await));
    assert!((9..=11).contains(&seconds_until_closed(send(server.address, [22, 3, 1, 1, 0]).await).await));
}

#[tokio::test]
async fn plain_requests_are_told_to_speak_tls() {
    let server = Encrypted::start(LIMITS).await;
    let mut plain = send(server.address, get("/")).await;
    let mut response = String::new();
    plain.read_to_string(&mut response).await.unwrap();
    assert!(
        response.starts_with("HTTP/1.1 400 Bad Request\r\n") && response.ends_with("https:// in the URL.\n"),
        "{response}"
    );
    assert!(server.is_served().await);
}

#[tokio::test]
async fn a_connection_that_cannot_speak_tls_is_not_served_plain() {
    let dir = tempfile::tempdir().unwrap();
    let (identity, _) = identity(dir.path());
    let acceptor = identity.acceptor(&["http/1.1"]);
    for (tls, is_served) in [(None, true), (Some(&acceptor), false)] {
        let (_client, stream) = tokio::io::duplex(64);
        assert_eq!(Wire::open(Accepted::Other(Box::new(stream)), tls).await.is_ok(), is_served);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_answers_come_whole_and_those_that_nobody_takes_give_way() {
    let server = Encrypted::start(LIMITS).await;
    let mut slow = server.connect().await;
    slow.write_all(get("/stream").as_bytes()).await.unwrap();
    slow.read_exact(&mut [0; 12]).await.unwrap();
    let large = async || {
        let mut stream = server.connect().await;
        stream.write_all(b"GET /large HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut whole = Vec::new();
        stream.read_to_end(&mut whole).await.unwrap();
        whole.len() > LARGE
    };
    let room = async { while !large().await {} };
    timeout(Duration::from_secs(30), room).await.expect("there is room");
    let mut rest = Vec::new();
    let _ = slow.read_to_end(&mut rest).await;
    assert!(rest.len() < LARGE);
    drop(slow);
    server.gate.gone.notified().await;
}
