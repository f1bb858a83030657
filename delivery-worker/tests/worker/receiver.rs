//! A receiver that answers with whatever bytes a test gives it, and counts what it gets.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};
use tokio_rustls::TlsAcceptor;

/// How often a dripping receiver sends something.
const DRIP: Duration = Duration::from_millis(20);
/// A small buffer, since what the system keeps counts as written.
const SEND_BUFFER: u32 = 64 * 1024;
/// The end of a request with the body of a test's claim.
const REQUEST_END: &[u8] = br#""object":"event"}"#;

/// What follows the last answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// Silence, until the worker closes the connection.
    Wait,
    /// These bytes, now and again.
    Drip(&'static [u8]),
    /// At least this many bytes, as fast as they are taken, in pieces of a chunked body.
    Flood(usize),
    /// A reset.
    Reset,
}

/// What a receiver does on each connection.
pub(crate) struct Script {
    /// The answer to each request.
    pub(crate) answers: Vec<Vec<u8>>,
    pub(crate) then: Then,
    /// The end of what is awaited before an answer.
    pub(crate) request_end: &'static [u8],
}

impl Script {
    pub(crate) fn new(answer: impl Into<Vec<u8>>, then: Then) -> Self {
        Self { answers: vec![answer.into()], then, request_end: REQUEST_END }
    }
}

#[derive(Default)]
struct Counts {
    connections: AtomicUsize,
    requests: AtomicUsize,
    written: AtomicUsize,
}

pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    counts: Arc<Counts>,
    ended: mpsc::UnboundedReceiver<()>,
}

impl Receiver {
    pub(crate) fn start(script: Script) -> Self {
        Self::listen(script, None)
    }

    pub(crate) fn start_tls(script: Script, acceptor: TlsAcceptor) -> Self {
        Self::listen(script, Some(acceptor))
    }

    fn listen(script: Script, acceptor: Option<TlsAcceptor>) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_send_buffer_size(SEND_BUFFER).unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let listener = socket.listen(64).unwrap();
        let address = listener.local_addr().unwrap();
        let counts = Arc::new(Counts::default());
        let (ends, ended) = mpsc::unbounded_channel();
        let shared = Arc::new((script, acceptor, Arc::clone(&counts)));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (shared, ends) = (Arc::clone(&shared), ends.clone());
                shared.2.connections.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    let (script, acceptor, counts) = &*shared;
                    // The worker may hang up at any time.
                    let _ = serve(socket, script, acceptor.as_ref(), counts).await;
                    let _ = ends.send(());
                });
            }
        });
        Self { address, counts, ended }
    }

    /// Waits for the end of a connection, by whichever side.
    pub(crate) async fn ended(&mut self) {
        self.ended.recv().await.unwrap();
    }

    pub(crate) fn connections(&self) -> usize {
        self.counts.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn requests(&self) -> usize {
        self.counts.requests.load(Ordering::Relaxed)
    }

    /// The bytes that the system took, on all connections.
    pub(crate) fn written(&self) -> usize {
        self.counts.written.load(Ordering::Relaxed)
    }
}

async fn serve(
    mut socket: TcpStream,
    script: &Script,
    acceptor: Option<&TlsAcceptor>,
    counts: &Counts,
) -> io::Result<()> {
    if script.then == Then::Reset {
        socket.set_zero_linger()?;
    }
    match acceptor {
        Some(acceptor) => play(&mut acceptor.accept(socket).await?, script, counts).await,
        None => play(&mut socket, script, counts).await,
    }
}

async fn play<S: AsyncRead + AsyncWrite + Unpin>(socket: &mut S, script: &Script, counts: &Counts) -> io::Result<()> {
    for answer in &script.answers {
        request(socket, script.request_end).await?;
        counts.requests.fetch_add(1, Ordering::Relaxed);
        write(socket, answer, counts).await?;
    }
    match script.then {
        Then::Wait => {}
        Then::Reset => return Ok(()),
        Then::Drip(piece) => {
            let mut ticks = interval(DRIP);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                write(socket, piece, counts).await?;
            }
        }
        Then::Flood(mut left) => {
            let piece = [&b"400\r\n"[..], &[b'x'; 1024], b"\r\n"].concat();
            while left > 0 {
                write(socket, &piece, counts).await?;
                left = left.saturating_sub(piece.len());
            }
        }
    }
    let mut more = Vec::new();
    let end = socket.read_to_end(&mut more).await;
    // Nothing may come after the last answer, another request least of all.
    counts.requests.fetch_add(usize::from(!more.is_empty()), Ordering::Relaxed);
    end.map(|_| ())
}

/// Waits for a request.
pub(crate) async fn request<S: AsyncRead + Unpin>(socket: &mut S, end: &[u8]) -> io::Result<()> {
    let mut request = Vec::new();
    while request.is_empty() || !request.ends_with(end) {
        if socket.read_buf(&mut request).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

async fn write<S: AsyncWrite + Unpin>(socket: &mut S, mut bytes: &[u8], counts: &Counts) -> io::Result<()> {
    while !bytes.is_empty() {
        let taken = socket.write(bytes).await?;
        counts.written.fetch_add(taken, Ordering::Relaxed);
        bytes = &bytes[taken..];
    }
    socket.flush().await
}

/// A certificate for this name, and the root to trust for it.
pub(crate) fn certificate(host: &str) -> (TlsAcceptor, Vec<u8>) {
    let generated = rcgen::generate_simple_self_signed([host.to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(generated.signing_key.serialize_der()).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![generated.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    (TlsAcceptor::from(Arc::new(config)), generated.cert.pem().into_bytes())
}
