//! `cargo bench --bench service -- streams`: open streams beside Nchan in nginx, on the same machine in the same run.
//!
//! A process of its own listens on every stream. Each event carries the microsecond at which it was posted. Nchan is left
//! out, with a word, where nginx or its module is not installed.

mod listener;
mod nchan;
mod replays;

use std::{net::SocketAddr, path::Path, time::Duration};

use clap::Args;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{MissedTickBehavior, interval, sleep},
};

pub(crate) use self::listener::{Listen, listen};
use self::{
    listener::{Heard, Listener, Protocol},
    nchan::{NCHAN, Nchan},
    replays::replays,
};
use crate::{
    Failure, Options, StoreKind,
    connection::{Connection, find, post},
    data::Random,
    mark::text,
    process::{Service, test_key},
    report::{aim_below, cpu_seconds, row},
    store::Setup,
};

/// Events that a stream which resumes has missed.
const MISSED: usize = 1_000;

/// What to measure.
#[derive(Args)]
pub(crate) struct Streams {
    /// Deliveries a second, to 1,000 streams and then to 5,000
    #[arg(long, default_value_t = 50_000)]
    deliveries: u32,
    /// Seconds of each run
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Idle streams whose memory is measured; each waits for a token of its own
    #[arg(long, default_value_t = 10_000)]
    idle: usize,
}

/// A server of streams that is measured.
struct Side<'a> {
    name: &'a str,
    id: Vec<u32>,
    subscribers: SocketAddr,
    path: String,
    protocol: Protocol,
}

impl Side<'_> {
    fn cpu_seconds(&self) -> f64 {
        self.id.iter().filter_map(|id| cpu_seconds(*id)).sum()
    }

    /// Posts at a rate while all streams listen; gives what they heard and the processor time of it all, in seconds.
    async fn measure(
        &self,
        streams: usize,
        (rate, seconds): (u32, u32),
        request: impl Fn(&str) -> Vec<u8>,
    ) -> Result<(Heard, f64), Failure> {
        let sizes = (streams, seconds + 2);
        let listener = Listener::start(self.subscribers, &self.path, self.protocol, sizes, &[]).await?;
        let before = self.cpu_seconds();
        let mut connection = Connection::open(self.subscribers).await?;
        let mut turns = interval(Duration::from_secs(1) / rate);
        turns.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for _ in 0..rate * seconds {
            turns.tick().await;
            connection.ask_ok(&request(&text())).await?;
        }
        let heard = listener.heard().await?;
        Ok((heard, self.cpu_seconds() - before))
    }
}

/// The request that creates a thesis on a token.
fn thesis(token: &str, text: &str) -> Vec<u8> {
    let json = format!(r#"{{"handle":"streamer","token":"{token}","text":"{text}"}}"#);
    post("/v1/test/theses", &test_key(), &json)
}

/// Measures and prints.
pub(crate) async fn run(options: &Options, task: &Streams) -> Result<(), Failure> {
    println!("{}", crate::report::machine());
    let temporary = tempfile::tempdir()?;
    idle(options, task, temporary.path()).await?;
    let setup = Setup::new(options, StoreKind::Embedded, 0, temporary.path())?;
    let service = Service::start(&setup).await?;
    let nchan = Nchan::start(temporary.path()).await?;
    if nchan.is_none() {
        println!("Nchan: left out, for {NCHAN} is not there");
    }
    for streams in [1_000, 5_000] {
        let rate = task.deliveries / u32::try_from(streams)?;
        println!("\n{streams} streams, {rate} events a second, {} s", task.seconds);
        row(&["", "deliveries", "µs of CPU each", "p50 ms", "p99 ms", "aim"]);
        deliveries(&service, nchan.as_ref(), streams, (rate, task.seconds)).await?;
    }
    drop(nchan);
    near(&service, task).await?;
    resumes(&service).await?;
    replays(&service).await?;
    service.stop().await?;
    Ok(())
}

/// Measures deliveries, of Nchan first.
async fn deliveries(service: &Service, nchan: Option<&Nchan>, streams: usize, pace: (u32, u32)) -> Result<(), Failure> {
    let mut beside = None;
    if let Some(nchan) = nchan {
        let (id, path) = (nchan.workers().await?, "/sub".to_owned());
        let side = Side { name: "Nchan", id, subscribers: nchan.address, path, protocol: Protocol::Sse };
        let body = |text: &str| {
            // As long as one of our events.
            let json = format!("{{\"text\":\"{text}\",\"filler\":\"{}\"}}", "x".repeat(600));
            post("/pub", "none", &json)
        };
        let (heard, cpu) = side.measure(streams, pace, body).await?;
        beside = Some((print(&side, &heard, cpu, None), heard.p99_ms));
    }
    let subscribe = r#"/v1/stream#{"op":"subscribe","sub":"a","types":["thesis.created"]}"#;
    for (name, path, protocol) in [
        ("SSE", "/v1/events/stream?types=thesis.created", Protocol::Sse),
        ("WebSocket", subscribe, Protocol::Websocket),
    ] {
        let (id, path) = (service.ids(), path.to_owned());
        let side = Side { name, id, subscribers: service.address("http")?, path, protocol };
        let token = format!("STREAM{}", Random::new(3).below(1_000));
        let (heard, cpu) = side.measure(streams, pace, |text| thesis(&token, text)).await?;
        print(&side, &heard, cpu, beside);
    }
    Ok(())
}

/// Measures from the append to the frame, for 100 streams at 100 events a second.
async fn near(service: &Service, task: &Streams) -> Result<(), Failure> {
    let (id, path) = (service.ids(), "/v1/events/stream?types=thesis.created".to_owned());
    let side = Side { name: "SSE", id, subscribers: service.address("http")?, path, protocol: Protocol::Sse };
    let (heard, _) = side.measure(100, (100, task.seconds), |text| thesis("NEAR", text)).await?;
    let aim = aim_below(heard.p99_ms, 10.0, " ms");
    println!(
        "\n100 streams, 100 events a second: append to frame p50 {:.1} ms, p99 {:.1} ms, {aim}",
        heard.p50_ms, heard.p99_ms
    );
    Ok(())
}

/// Measures streams that resume after a cursor with 1,000 missed events, and streams that open at once.
async fn resumes(service: &Service) -> Result<(), Failure> {
    let address = service.address("http")?;
    let path = "/v1/events/stream?token=MISSED&types=thesis.created";
    let (id, protocol) = (service.ids(), Protocol::Sse);
    let side = Side { name: "SSE", id, subscribers: address, path: path.to_owned(), protocol };
    let head = format!("GET {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {}\r\n\r\n", test_key());
    let mut first = TcpStream::connect(address).await?;
    first.write_all(head.as_bytes()).await?;
    let (mut answer, id) = (Vec::new(), b"\nid: ");
    let cursor = loop {
        first.read_buf(&mut answer).await?;
        if let Some(at) = find(&answer, id)
            && let Some(end) = find(&answer[at + id.len()..], b"\n")
        {
            break String::from_utf8_lossy(&answer[at + id.len()..][..end]).into_owned();
        }
    };
    let mut connection = Connection::open(address).await?;
    for _ in 0..MISSED {
        connection.ask_ok(&thesis("MISSED", &text())).await?;
    }
    println!();
    for streams in [1, 1_000] {
        let more = ["--cursor", &cursor, "--enough", &MISSED.to_string(), "--at-once"];
        let before = side.cpu_seconds();
        let listener = Listener::start(address, path, protocol, (streams, 120), &more).await?;
        let heard = listener.heard().await?;
        let cpu = side.cpu_seconds() - before;
        if heard.deliveries < (MISSED * streams) as u64 {
            return Err(format!("only {} of the missed events came", heard.deliveries).into());
        }
        let (took, us) = (heard.took_ms, cpu * 1e6 / heard.deliveries as f64);
        println!("{streams} resume after {MISSED} missed events: live after {took:.0} ms, {us:.1} µs of CPU an event");
    }
    let all = Listener::start(address, path, protocol, (3_000, 0), &["--at-once"]).await?;
    println!("3000 streams that open at once: all served after {} ms", all.open_ms);
    Ok(())
}

/// Prints a row; gives the processor time of a delivery in microseconds.
fn print(side: &Side<'_>, heard: &Heard, cpu: f64, beside: Option<(f64, f64)>) -> f64 {
    let us = cpu * 1e6 / heard.deliveries.max(1) as f64;
    let aim = beside.map(|(nchan, p99)| {
        format!("{}; p99 {}", aim_below(us, 0.85 * nchan, " µs"), aim_below(heard.p99_ms, p99, " ms"))
    });
    row(&[
        side.name,
        &heard.deliveries.to_string(),
        &format!("{us:.1}"),
        &format!("{:.1}", heard.p50_ms),
        &format!("{:.1}", heard.p99_ms),
        &aim.unwrap_or_default(),
    ]);
    us
}

/// Measures the memory of idle streams, and what events that only ten streams want cost beside them; each kind on a
/// service of its own.
async fn idle(options: &Options, task: &Streams, base: &Path) -> Result<(), Failure> {
    let subscribe = r#"/v1/stream#{"op":"subscribe","sub":"a","filters":{"token":["$IDLE{}"]}}"#;
    println!(
        "\nAn idle stream, one of {}: memory, as growth of the process; CPU of an event for ten streams",
        task.idle
    );
    for (name, path, protocol) in
        [("SSE", "/v1/events/stream?token=IDLE{}", Protocol::Sse), ("WebSocket", subscribe, Protocol::Websocket)]
    {
        let setup = Setup::new(options, StoreKind::Embedded, 0, &base.join(name))?;
        let service = Service::start(&setup).await?;
        let address = service.address("http")?;
        let ten = path.replace("IDLE{}", "TEN");
        let ten = Side { name, id: service.ids(), subscribers: address, path: ten, protocol };
        // Signs of life go on meanwhile, each stream's every 15 seconds.
        let cost = async || {
            let before = ten.cpu_seconds();
            sleep(Duration::from_secs(15)).await;
            let idle = ten.cpu_seconds() - before;
            let (_, cpu) = ten.measure(10, (20, 13), |text| thesis("TEN", text)).await?;
            Ok::<_, Failure>((cpu - idle) * 1e6 / f64::from(20 * 13))
        };
        let few = Listener::start(address, path, protocol, (90, 120), &[]).await?;
        let beside_few = cost().await?;
        let before = service.memory().resident;
        let many = Listener::start(address, path, protocol, (task.idle, 120), &[]).await?;
        sleep(Duration::from_secs(2)).await;
        let each = (service.memory().resident - before) * 1024.0 / task.idle as f64;
        let beside_many = cost().await?;
        println!(
            "{name:>12}: {each:.1} KiB, {}; {beside_few:.0} µs an event beside 90, {beside_many:.0} µs beside these, {}",
            aim_below(each, 8.0, " KiB"),
            aim_below(beside_many / beside_few, 1.1, " times")
        );
        drop((few, many));
        service.stop().await?;
    }
    Ok(())
}
