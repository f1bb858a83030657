//! Far more than can be served: a crowd of connections, half of them silent or dripping, and floods over HTTP/2.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use reqwest::{Method, header::RETRY_AFTER};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
    time::{Instant, interval, sleep, timeout},
};

use crate::harness::{Client, SOON, Service, eventually, text};

/// Connections of the crowd, if this machine lets one process have them.
const CROWD: u64 = 20_000;
/// Files that this process needs besides.
const OTHER_FILES: u64 = 500;
/// Longest wait for an answer, which may be a refusal.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);
/// Most memory that the process may take.
const MEMORY_MIB: u64 = 1_024;
/// The pause of a client after a refusal or a closed connection.
const AGAIN: Duration = Duration::from_secs(1);

/// Counts of requests by their result.
#[derive(Default)]
struct Counts {
    answered: AtomicU64,
    refused: AtomicU64,
    closed: AtomicU64,
    slowest_ms: AtomicU64,
}

impl Counts {
    fn say(&self, whose: &str) {
        let [answered, refused, closed, slowest_ms] =
            [&self.answered, &self.refused, &self.closed, &self.slowest_ms].map(|count| count.load(Relaxed));
        println!("  {whose}: {answered} answered, {refused} refused, {closed} closed; slowest {slowest_ms} ms");
    }

    /// Demands that this share was answered since the last call.
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    fn demand(&self, share: f64) {
        let [answered, refused, closed] =
            [&self.answered, &self.refused, &self.closed].map(|count| count.swap(0, Relaxed));
        let all = answered + refused + closed;
        assert!(answered as f64 >= share * all as f64, "{answered} of {all} were answered");
    }

    /// Sets all counts to zero.
    fn forget(&self) {
        self.demand(0.0);
        self.slowest_ms.store(0, Relaxed);
    }
}

/// Reads one answer of a kept connection; gives its status, if it may come.
async fn answer(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<u16> {
    buffer.clear();
    loop {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
        let head = String::from_utf8_lossy(buffer).into_owned();
        let Some((head, body)) = head.split_once("\r\n\r\n") else { continue };
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let length: usize = field("content-length:")?.parse().ok()?;
        if body.len() < length {
            continue;
        }
        let status = head.get(9..12)?.parse().ok()?;
        assert!(status == 200 || (status == 503 && field("retry-after:").is_some()), "{head}");
        return Some(status);
    }
}

/// One of the crowd: half of them ask without pause, others are silent, drip a head, or drip a body.
async fn member(number: u64, address: String, path: String, key: String, counts: Arc<Counts>) {
    let head = format!("GET {path} HTTP/1.1\r\nhost: crowd\r\nauthorization: Bearer {key}\r\n\r\n");
    let body = format!(
        "POST /v1/test/theses HTTP/1.1\r\nhost: crowd\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: 1000\r\n\r\n"
    );
    let mut buffer = Vec::new();
    // Not all at once: a full queue of new connections would be another test.
    sleep(Duration::from_micros(number * 500)).await;
    loop {
        if let Ok(mut stream) = TcpStream::connect(&address).await {
            match number % 6 {
                1 => while stream.read_buf(&mut buffer).await.is_ok_and(|read| read > 0) {},
                3 => drip(&mut stream, head.as_bytes()).await,
                5 if stream.write_all(body.as_bytes()).await.is_ok() => drip(&mut stream, &[b' '; 1_000]).await,
                _ => ask(&mut stream, &head, &mut buffer, &counts).await,
            }
        }
        counts.closed.fetch_add(1, Relaxed);
        sleep(AGAIN).await;
    }
}

async fn ask(stream: &mut TcpStream, head: &str, buffer: &mut Vec<u8>, counts: &Counts) {
    while stream.write_all(head.as_bytes()).await.is_ok() {
        match answer(stream, buffer).await {
            Some(200) => counts.answered.fetch_add(1, Relaxed),
            Some(_) => {
                sleep(AGAIN).await;
                counts.refused.fetch_add(1, Relaxed)
            }
            None => return,
        };
    }
}

/// Writes a byte a second until the connection is closed.
pub(super) async fn drip(stream: &mut TcpStream, bytes: &[u8]) {
    let mut every = interval(Duration::from_secs(1));
    for byte in bytes {
        every.tick().await;
        if stream.write_all(&[*byte]).await.is_err() {
            return;
        }
    }
}

/// Another customer: makes a new connection for each request, sometimes writes, and follows a stream.
async fn bystander(client: Client, path: String, counts: Arc<Counts>) {
    let mut stream = client.stream("?types=thesis.created").await;
    let mut every = interval(Duration::from_millis(100));
    for number in 0_u64.. {
        every.tick().await;
        let client = client.anew();
        let began = Instant::now();
        let writes = number % 10 == 0;
        let request = if writes {
            let body = serde_json::json!({"handle": "bystander", "token": "CROWD", "text": number.to_string()});
            client.request(Method::POST, "/v1/test/theses").json(&body)
        } else {
            client.request(Method::GET, &path)
        };
        // A connection may be turned away before its request is read, which a client sees as a broken one.
        let Ok(answer) = timeout(ANSWERED_WITHIN, request.send()).await.expect("an answer in time") else {
            counts.closed.fetch_add(1, Relaxed);
            continue;
        };
        let took = u64::try_from(began.elapsed().as_millis()).unwrap();
        counts.slowest_ms.fetch_max(took, Relaxed);
        match answer.status().as_u16() {
            200 => counts.answered.fetch_add(1, Relaxed),
            201 => {
                let made: serde_json::Value = answer.json().await.unwrap();
                let frame = timeout(ANSWERED_WITHIN, stream.next()).await.expect("the event in time");
                assert_eq!(frame.data, made["event"]);
                counts.answered.fetch_add(1, Relaxed)
            }
            503 if answer.headers().contains_key(RETRY_AFTER) => counts.refused.fetch_add(1, Relaxed),
            status => panic!("{status}: {}", answer.text().await.unwrap_or_default()),
        };
    }
}

/// An HTTP/2 frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The bytes that floods repeat: requests reset at once, pings, settings, headers without end.
fn flood(kind: usize, number: u32) -> Vec<u8> {
    const HEADERS: &[u8] = b"\x82\x86\x84\x41\x01a";
    match (kind, number) {
        (0, _) => {
            let stream = 2 * number + 1;
            [frame(1, 5, stream, HEADERS), frame(3, 0, stream, &8_u32.to_be_bytes())].concat()
        }
        (1, _) => frame(6, 0, 0, &[0; 8]).repeat(100),
        (2, _) => frame(4, 0, 0, &[0, 3, 0, 0, 0, 100]).repeat(100),
        (_, 0) => frame(1, 1, 1, HEADERS),
        _ => frame(9, 0, 1, &[0x82; 16_384]),
    }
}

/// Floods a port over one connection after another.
async fn flooder(kind: usize, address: String, ended: Arc<AtomicU64>) {
    loop {
        let stream = TcpStream::connect(&address).await.unwrap();
        let (mut reading, mut writing) = stream.into_split();
        let reading = tokio::spawn(async move {
            let mut buffer = vec![0; 64 * 1024];
            while reading.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
        });
        let mut next = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &frame(4, 0, 0, &[])].concat();
        let mut number = 0;
        while writing.write_all(&next).await.is_ok() {
            next = flood(kind, number);
            number += 1;
        }
        reading.abort();
        ended.fetch_add(1, Relaxed);
        sleep(Duration::from_millis(50)).await;
    }
}

/// The address of a base URL, as `host:port`.
pub(super) fn host(url: &str) -> String {
    url.strip_prefix("http://").unwrap().to_owned()
}

/// Raises this process's limit of open files; gives the connections that it may have, at most those that are wanted.
pub(super) fn allow_connections(wanted: u64) -> u64 {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let allowed = wanted.min(maximum.unwrap_or(wanted + OTHER_FILES) - OTHER_FILES);
    println!("{allowed} connections; a process may have {} files", maximum.unwrap_or(u64::MAX));
    allowed
}

/// Lets time pass, with a line of progress every ten seconds.
async fn pass(service: &Service, time: Duration, told: &[(&str, &Counts)]) {
    let began = Instant::now();
    while began.elapsed() < time {
        sleep(Duration::from_secs(10).min(time)).await;
        let memory = service.processes[0].resident_mib();
        println!("after {} s, {memory} MiB resident", began.elapsed().as_secs());
        told.iter().for_each(|(whose, counts)| counts.say(whose));
        assert!(memory < MEMORY_MIB, "{memory} MiB");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by tests/soak"]
async fn a_crowd_and_floods_stop_nobody() {
    let crowd = allow_connections(CROWD);
    let service = Service::embedded(|setup| setup.set("SVC_LOG", "error"));
    let project = service.project_on("huge").await;
    let client = project.test().await;
    let thesis = client.thesis("writer", "CROWD", "x").await.0;
    let path = format!("/v1/theses/{}", text(&thesis, "id"));
    let by = Arc::<Counts>::default();
    let other = service.project_on("huge").await.test().await;
    let other_path = format!("/v1/theses/{}", text(&other.thesis("writer", "OTHER", "x").await.0, "id"));
    let bystander = tokio::spawn(bystander(other.clone(), other_path.clone(), Arc::clone(&by)));
    pass(&service, super::time() / 6, &[("bystander alone", &by)]).await;

    let counts = Arc::<Counts>::default();
    let mut members = JoinSet::new();
    let mut come = |asking: bool| {
        for number in (0..crowd).filter(|number| number.is_multiple_of(2) == asking) {
            let (address, key) = (host(&service.http), client.key().to_owned());
            members.spawn(member(number, address, path.clone(), key, Arc::clone(&counts)));
        }
    };
    come(false);
    pass(&service, super::time() / 4, &[("idle or dripping", &counts), ("bystander", &by)]).await;
    by.demand(0.99);
    come(true);
    pass(&service, super::time() / 4, &[("crowd", &counts), ("bystander", &by)]).await;
    by.demand(0.1);
    assert!(counts.refused.load(Relaxed) > 0);
    // Panics if a member found an error.
    while let Some(ended) = members.try_join_next() {
        ended.unwrap();
    }
    members.shutdown().await;
    println!("the crowd has gone");
    eventually("others are served", SOON, async || (other.get(&other_path).await.status == 200).then_some(())).await;
    by.forget();

    let mut floods = JoinSet::new();
    let ended: Vec<_> = (0..8).map(|_| Arc::<AtomicU64>::default()).collect();
    for (number, ended) in ended.iter().enumerate() {
        let address = host(if number % 2 == 0 { &service.http } else { &service.grpc });
        floods.spawn(flooder(number / 2, address, Arc::clone(ended)));
    }
    pass(&service, super::time() / 3, &[("bystander", &by)]).await;
    println!("floods ended so often: {ended:?}");
    floods.shutdown().await;
    assert!(ended.iter().all(|ended| ended.load(Relaxed) > 0));
    assert!(!bystander.is_finished(), "{:?}", bystander.await);
    bystander.abort();
    by.demand(0.9);
}
