use std::sync::atomic::AtomicU32;

use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use thesis_proto::v1::{
    self,
    meta_service_client::MetaServiceClient,
    meta_service_server::{MetaService, MetaServiceServer},
    stream_service_client::StreamServiceClient,
    stream_service_server::{StreamService, StreamServiceServer},
    test_data_service_client::TestDataServiceClient,
    test_data_service_server::{TestDataService, TestDataServiceServer},
};
use tokio::{
    io::AsyncReadExt as _,
    net::{TcpListener, TcpStream},
};
use tonic::{
    Request, Response, Status,
    transport::{Server, server::TcpIncoming},
};

use super::*;
use crate::clock::SystemClock;

/// A core that counts its calls, and answers or says that it cannot serve.
#[derive(Clone, Default)]
struct Counting {
    calls: Arc<AtomicU32>,
    unavailable: bool,
}

impl Counting {
    fn respond<T: Default>(&self) -> Result<Response<T>, Status> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.unavailable { Err(Status::unavailable("no store")) } else { Ok(Response::new(T::default())) }
    }

    /// Starts to serve; gives its address.
    async fn serve(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let server = Server::builder()
            .add_service(MetaServiceServer::new(self.clone()))
            .add_service(StreamServiceServer::new(self.clone()))
            .add_service(TestDataServiceServer::new(self.clone()));
        tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
        address
    }

    fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }
}

#[tonic::async_trait]
impl MetaService for Counting {
    async fn get_me(&self, _: Request<v1::GetMeRequest>) -> Result<Response<v1::GetMeResponse>, Status> {
        self.respond()
    }

    async fn get_usage(&self, _: Request<v1::GetUsageRequest>) -> Result<Response<v1::GetUsageResponse>, Status> {
        self.respond()
    }
}

#[tonic::async_trait]
impl StreamService for Counting {
    type EndingsStream = BoxStream<'static, Result<v1::EndingsResponse, Status>>;
    type TailStream = BoxStream<'static, Result<v1::TailResponse, Status>>;

    async fn open(&self, _: Request<v1::OpenRequest>) -> Result<Response<v1::OpenResponse>, Status> {
        self.respond()
    }

    async fn endings(&self, _: Request<v1::EndingsRequest>) -> Result<Response<Self::EndingsStream>, Status> {
        self.respond::<()>().map(|_| Response::new(stream::pending().boxed()))
    }

    async fn close(&self, _: Request<v1::CloseRequest>) -> Result<Response<v1::CloseResponse>, Status> {
        self.respond()
    }

    async fn read(&self, _: Request<v1::ReadRequest>) -> Result<Response<v1::ReadResponse>, Status> {
        self.respond()
    }

    async fn read_sandbox(
        &self,
        _: Request<v1::ReadSandboxRequest>,
    ) -> Result<Response<v1::ReadSandboxResponse>, Status> {
        self.respond()
    }

    /// Sends as much as its reader takes.
    async fn tail(&self, _: Request<v1::TailRequest>) -> Result<Response<Self::TailStream>, Status> {
        let id = "x".repeat(64 * 1024);
        let event = v1::TailEvent { event: Some(v1::Event { id, ..v1::Event::default() }), ..v1::TailEvent::default() };
        let page = Ok(v1::TailResponse { events: vec![event], position: 1, ..v1::TailResponse::default() });
        self.respond::<()>().map(|_| Response::new(stream::repeat(page).boxed()))
    }
}

#[tonic::async_trait]
impl TestDataService for Counting {
    async fn create_test_thesis(
        &self,
        _: Request<v1::CreateTestThesisRequest>,
    ) -> Result<Response<v1::CreateTestThesisResponse>, Status> {
        self.respond()
    }
}

/// An address where nobody listens.
async fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// An address of `https` whose listener takes connections and stays silent.
async fn silent() -> (String, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    (format!("https://{}", listener.local_addr().unwrap()), listener)
}

/// Takes requests and breaks off like a killed process; gives its address and their count.
async fn dying() -> (String, Arc<AtomicU32>) {
    async fn take(mut stream: TcpStream, taken: Arc<AtomicU32>) {
        let mut bytes = Vec::new();
        // The preface and settings alone have fewer bytes than this; a whole request has more.
        while bytes.len() < 150 && stream.read_buf(&mut bytes).await.unwrap_or_default() > 0 {}
        taken.fetch_add(1, Ordering::Relaxed);
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let taken = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&taken);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(take(stream, Arc::clone(&counter)));
        }
    });
    (address, taken)
}

fn channel(addresses: &[String]) -> CoreChannel {
    CoreChannel::new(addresses, &Authorities::default(), Arc::new(SystemClock)).unwrap()
}

async fn read(channel: &CoreChannel) -> Result<(), Status> {
    MetaServiceClient::new(channel.clone()).get_me(v1::GetMeRequest {}).await.map(drop)
}

async fn write(channel: &CoreChannel, key: Option<&str>) -> Result<(), Status> {
    let mut request = Request::new(v1::CreateTestThesisRequest::default());
    if let Some(key) = key {
        request.metadata_mut().insert(IDEMPOTENCY_KEY, key.parse().unwrap());
    }
    TestDataServiceClient::new(channel.clone()).create_test_thesis(request).await.map(drop)
}

#[tokio::test]
async fn what_reached_nobody_is_sent_to_another() {
    let core = Counting::default();
    let channel = channel(&[nobody().await, core.serve().await]);
    for _ in 0..4 {
        write(&channel, None).await.unwrap();
    }
    assert_eq!(core.calls(), 4);
}

#[tokio::test]
async fn a_core_that_is_silent_in_its_handshake_is_given_up() {
    let ((one, _one), (other, _other), core) = (silent().await, silent().await, Counting::default());
    let (first, both) = (channel(&[one.clone(), core.serve().await]), channel(&[one, other]));
    let calling = async { tokio::join!(write(&first, None), write(&both, None)) };
    let (answered, failed) = tokio::time::timeout(Duration::from_secs(15), calling).await.expect("all are answered");
    answered.unwrap();
    assert_eq!(core.calls(), 1);
    assert_eq!(failed.unwrap_err().code(), Code::Unavailable);
}

#[tokio::test]
async fn tls_that_fails_is_told_whatever_failed_before() {
    let channel = channel(&[nobody().await]);
    let core = &channel.0.cores[0];
    let (refused, untrusted) = (std::io::Error::other("refused"), std::io::Error::other(rustls::Error::DecryptError));
    let (minute, now) = (TLS_ERROR_LOG_INTERVAL_MS, 1_764_000_000_000);
    assert!(!core.failed(&refused, now));
    assert!(core.failed(&untrusted, now + 1));
    assert!(!core.failed(&untrusted, now + 2));
    assert!(!core.failed(&refused, now + minute));
    assert!(core.failed(&untrusted, now + 2 + minute));
}

#[tokio::test]
async fn a_plain_call_that_breaks_off_was_perhaps_for_a_listener_of_tls() {
    let (address, _) = dying().await;
    let text = remedy(&read(&channel(&[address])).await.unwrap_err());
    assert!(text.is_some_and(|text| text.contains("by https://")), "{text:?}");
    assert_eq!(remedy(&read(&channel(&[nobody().await])).await.unwrap_err()), None);
}

#[tokio::test]
async fn only_what_may_be_repeated_is_after_a_core_died_with_it() {
    for _ in 0..2 {
        let core = Counting::default();
        let (address, taken) = dying().await;
        let channel = channel(&[address, core.serve().await]);
        read(&channel).await.unwrap();
        assert_eq!((core.calls(), taken.load(Ordering::Relaxed)), (1, 1), "a read");
    }
    let core = Counting::default();
    let (address, _) = dying().await;
    write(&channel(&[address, core.serve().await]), Some("k")).await.unwrap();
    assert_eq!(core.calls(), 1, "known again by its key");
    let core = Counting::default();
    let (address, _) = dying().await;
    write(&channel(&[address, core.serve().await]), None).await.unwrap_err();
    assert_eq!(core.calls(), 0, "perhaps it happened");
}

#[tokio::test]
async fn a_core_that_cannot_serve_leaves_reads_to_another() {
    let without_store = Counting { unavailable: true, ..Counting::default() };
    let core = Counting::default();
    let addresses = [without_store.serve().await, core.serve().await];
    read(&channel(&addresses)).await.unwrap();
    assert_eq!((without_store.calls(), core.calls()), (1, 1));
    write(&channel(&addresses), None).await.unwrap_err();
    assert_eq!((without_store.calls(), core.calls()), (2, 1));
    // With no other core to ask, its own error is the answer.
    let error = read(&channel(&addresses[..1])).await.unwrap_err();
    assert_eq!(error.message(), "no store");
}

#[test]
fn every_method_says_whether_it_may_be_repeated() {
    let none = HeaderMap::new();
    assert!(is_repeatable("/thesis.v1.ThesisService/ListTheses", &none));
    assert!(is_repeatable("/thesis.v1.DeliveryService/Report", &none));
    assert!(!is_repeatable("/thesis.v1.WebhookService/RotateWebhookSecret", &none));
    assert!(!is_repeatable("/thesis.v1.AdminService/CreateKey", &none));
    assert!(!is_repeatable("/thesis.v1.DeliveryService/Claim", &none));
}

#[tokio::test]
async fn streams_that_nobody_reads_keep_no_other_call_waiting() {
    let server = Counting::default();
    let channel = channel(&[server.serve().await]);
    let calling = async {
        let mut unread = Vec::new();
        for _ in 0..100 {
            let mut client = StreamServiceClient::new(channel.clone());
            unread.push(client.tail(v1::TailRequest::default()).await.unwrap().into_inner());
        }
        // When every stream has a page, the bytes that they may send ahead have arrived.
        for stream in &mut unread {
            stream.next().await.unwrap().unwrap();
        }
        for _ in 0..20 {
            read(&channel).await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(20), calling).await.expect("all are answered");
}
