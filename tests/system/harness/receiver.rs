//! A customer's webhook endpoint on loopback.

use std::{
    collections::{HashMap, VecDeque},
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{
        HeaderMap, StatusCode, Uri,
        header::{AUTHORIZATION, LOCATION},
    },
    response::IntoResponse,
    serve::Listener,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use ring::signature::{ED25519, UnparsedPublicKey};
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use serde_json::Value;
use sha2::Sha256;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{SOON, eventually, now_ms, text};

/// One request that arrived.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) at_ms: i64,
}

impl Received {
    /// A header that must be there.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no {name} in {self:?}")).to_str().unwrap()
    }

    /// The event.
    pub(crate) fn event(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Checks the headers of an event's first attempt that is no replay and no test.
    pub(crate) fn is_first_attempt_of(&self, event: &Value) {
        for (name, value) in [
            ("webhook-id", text(event, "id")),
            ("service-event-id", text(event, "id")),
            ("service-event-type", text(event, "type")),
            ("service-delivery-attempt", "1"),
            ("service-replay", "false"),
            ("user-agent", "Service-Webhooks/1.0"),
            ("content-type", "application/json"),
        ] {
            assert_eq!(self.header(name), value);
        }
        assert!(self.header("service-delivery-id").starts_with("del_"));
        for absent in ["service-replay-of", "service-test", "authorization", "x-service-token"] {
            assert!(!self.headers.contains_key(absent), "{absent}");
        }
    }

    /// Checks the signature over the bytes received, as the specification says.
    pub(crate) fn verify(&self, secret: &str) {
        let (mut signed_at, mut signatures) = (None, Vec::new());
        for part in self.header("service-signature").split(',') {
            match part.split_once('=').unwrap() {
                ("t", time) => signed_at = Some(time.parse::<i64>().unwrap()),
                ("v1", signature) => signatures.push(hex::decode(signature).unwrap()),
                other => panic!("{other:?}"),
            }
        }
        let signed_at = signed_at.unwrap();
        assert!((self.at_ms / 1_000 - signed_at).abs() <= 300);
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(format!("{signed_at}.").as_bytes());
        mac.update(&self.body);
        assert!(signatures.iter().any(|signature| mac.clone().verify_slice(signature).is_ok()));
        self.verify_standard(secret, signed_at);
    }

    /// The signed content of Standard Webhooks: id, timestamp and body.
    fn standard_text(&self) -> Vec<u8> {
        let prefix = format!("{}.{}.", self.header("webhook-id"), self.header("webhook-timestamp"));
        [prefix.as_bytes(), &self.body].concat()
    }

    /// The signatures of Standard Webhooks with this version.
    fn standard_signatures(&self, version: &str) -> Vec<Vec<u8>> {
        let parts = self.header("webhook-signature").split(' ').map(|part| part.split_once(',').unwrap());
        parts.filter(|(found, _)| *found == version).map(|(_, text)| BASE64_STANDARD.decode(text).unwrap()).collect()
    }

    /// Checks the `v1` signatures of Standard Webhooks, if the secret is one of its keys.
    fn verify_standard(&self, secret: &str, signed_at: i64) {
        assert_eq!(self.header("webhook-timestamp"), signed_at.to_string());
        let Ok(key) = BASE64_STANDARD.decode(secret.strip_prefix("whsec_").unwrap()) else { return };
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
        mac.update(&self.standard_text());
        let signatures = self.standard_signatures("v1");
        assert!(signatures.iter().any(|signature| mac.clone().verify_slice(signature).is_ok()));
    }

    /// Checks the `v1a` signature of Standard Webhooks with a webhook's public key.
    pub(crate) fn verify_key(&self, public_key: &str) {
        let key = BASE64_STANDARD.decode(public_key.strip_prefix("whpk_").unwrap()).unwrap();
        let [signature] = &self.standard_signatures("v1a")[..] else { panic!("{self:?}") };
        UnparsedPublicKey::new(&ED25519, key).verify(&self.standard_text(), signature).unwrap();
    }
}

#[derive(Default)]
struct Inbox {
    received: Mutex<Vec<Received>>,
    answers: Mutex<VecDeque<(u16, Duration)>>,
}

/// A running endpoint; answers 200 unless told otherwise.
pub(crate) struct Receiver {
    /// Where it receives.
    pub(crate) url: String,
    inbox: Arc<Inbox>,
    serving: JoinHandle<()>,
}

async fn receive(State(inbox): State<Arc<Inbox>>, uri: Uri, headers: HeaderMap, body: Bytes) -> impl IntoResponse {
    let received = Received { path: uri.path().to_owned(), headers, body, at_ms: now_ms() };
    inbox.received.lock().unwrap().push(received);
    let (status, delay) = inbox.answers.lock().unwrap().pop_front().unwrap_or((200, Duration::ZERO));
    tokio::time::sleep(delay).await;
    (StatusCode::from_u16(status).unwrap(), [(LOCATION, "/elsewhere")])
}

impl Receiver {
    /// Starts an endpoint.
    pub(crate) async fn start() -> Self {
        Self::serve("http", TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    /// Starts an endpoint that speaks TLS, as live webhooks do; gives it with the root certificate to trust, in PEM.
    pub(crate) async fn start_tls() -> (Self, String) {
        let generated = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(generated.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![generated.cert.der().clone()], key)
            .unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let listener = TlsListener { tcp, acceptor: TlsAcceptor::from(Arc::new(config)) };
        (Self::serve("https", listener), generated.cert.pem())
    }

    fn serve(scheme: &str, listener: impl Listener<Addr = SocketAddr>) -> Self {
        let url = format!("{scheme}://{}/hook", listener.local_addr().unwrap());
        let inbox = Arc::<Inbox>::default();
        let router = Router::new().fallback(receive).with_state(Arc::clone(&inbox));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, inbox, serving }
    }

    /// Answers the next request with a status.
    pub(crate) fn answer(&self, status: u16) {
        self.answer_after(status, Duration::ZERO);
    }

    /// Answers the next request with a status, late.
    pub(crate) fn answer_after(&self, status: u16, delay: Duration) {
        self.inbox.answers.lock().unwrap().push_back((status, delay));
    }

    /// The requests that arrived.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.inbox.received.lock().unwrap().clone()
    }

    /// How often each event has arrived.
    pub(crate) fn arrivals(&self) -> HashMap<String, usize> {
        let mut arrivals = HashMap::new();
        for received in self.inbox.received.lock().unwrap().iter() {
            *arrivals.entry(received.header("service-event-id").to_owned()).or_default() += 1;
        }
        arrivals
    }

    /// Waits for the delivery of an event.
    pub(crate) async fn delivery_of(&self, event: &Value) -> Received {
        let id = text(event, "id");
        eventually("the delivery arrives", SOON, async || {
            self.received().into_iter().find(|received| received.header("service-event-id") == id)
        })
        .await
    }
}

/// Accepts connections by TLS.
struct TlsListener {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = self.tcp.accept().await.unwrap();
            // A client may leave.
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// An endpoint that answers each request with 418 and a body, which names the credentials that were sent.
pub(crate) async fn teapot() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let answer = |headers: HeaderMap| async move {
        let credentials = headers.get(AUTHORIZATION).map(|value| value.to_str().unwrap()).unwrap_or_default();
        (StatusCode::IM_A_TEAPOT, format!("<b>short</b> and stout, and no tea for {credentials}"))
    };
    let routes = Router::new().route("/", axum::routing::post(answer));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    url
}
