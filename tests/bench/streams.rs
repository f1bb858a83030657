//! `cargo bench --bench service -- streams`: open streams beside Nchan in nginx, on the same machine in the same run.
//!
//! A process of its own listens on every stream. Each event carries the microsecond at which it was posted. Nchan is left
//! out, with a word, where nginx or its module is not installed.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use clap::{Args, ValueEnum};
use futures::future::try_join_all;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    process::{Child, Command},
    time::{Instant, MissedTickBehavior, interval, sleep},
};

use crate::{
    Failure, Options, StoreKind,
    connection::{Connection, find, post},
    data::Random,
    process::{Service, test_key},
    report::{aim_below, cpu_seconds, percentile, row},
    store::Place,
};

/// Comes before the microsecond in an event's text.
const MARK: &[u8] = b"posted-at-";
const DIGITS: usize = 16;
const NCHAN: &str = "/usr/lib/nginx/modules/ngx_nchan_module.so";

/// What to measure.
#[derive(Args)]
pub(crate) struct Streams {
    /// Streams open at once
    #[arg(long, default_value_t = 1_000)]
    streams: usize,
    /// Events a second
    #[arg(long, default_value_t = 50)]
    rate: u32,
    /// Seconds of each run
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Idle streams whose memory is measured; each waits for a token of its own
    #[arg(long, default_value_t = 10_000)]
    idle: usize,
}

/// What a listening process does.
#[derive(Args)]
pub(crate) struct Listen {
    #[arg(long)]
    address: SocketAddr,
    /// `{}` stands for the stream's number
    #[arg(long)]
    path: String,
    #[arg(long)]
    streams: usize,
    #[arg(long)]
    seconds: u64,
    #[arg(long, value_enum)]
    protocol: Protocol,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Protocol {
    Sse,
    Websocket,
}

impl Protocol {
    fn name(self) -> &'static str {
        match self {
            Self::Sse => "sse",
            Self::Websocket => "websocket",
        }
    }
}

#[derive(Default, Serialize, Deserialize)]
struct Heard {
    deliveries: u64,
    p50_ms: f64,
    p99_ms: f64,
}

/// Microseconds that all processes of the machine count alike.
fn micros() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec * 1_000_000 + now.tv_nsec / 1_000).unwrap_or_default()
}

/// Opens the streams, says so on a line, listens, and prints what it heard.
pub(crate) async fn listen(task: Listen) -> Result<(), Failure> {
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files })?;
    let mut open = Vec::with_capacity(task.streams);
    for number in 0..task.streams {
        open.push(connect(&task, number).await?);
    }
    println!("open");
    let until = Instant::now() + Duration::from_secs(task.seconds);
    let listening = open.into_iter().map(|stream| tokio::spawn(hear(stream, until)));
    let mut delays: Vec<Duration> = try_join_all(listening).await?.concat();
    let heard = Heard {
        deliveries: delays.len() as u64,
        p50_ms: percentile(&mut delays, 0.5),
        p99_ms: percentile(&mut delays, 0.99),
    };
    println!("{}", serde_json::to_string(&heard)?);
    Ok(())
}

async fn connect(task: &Listen, number: usize) -> Result<TcpStream, Failure> {
    let mut stream = TcpStream::connect(task.address).await?;
    let more = match task.protocol {
        Protocol::Sse => "accept: text/event-stream",
        Protocol::Websocket => {
            "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="
        }
    };
    let (path, key) = (&task.path, test_key());
    let path = path.replace("{}", &number.to_string());
    let head = format!(
        "GET {} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {key}\r\n{more}\r\n\r\n",
        path.split('#').next().unwrap_or_default()
    );
    stream.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    while find(&answer, b"\r\n\r\n").is_none() {
        if stream.read_buf(&mut answer).await? == 0 {
            return Err(format!("refused: {}", String::from_utf8_lossy(&answer)).into());
        }
    }
    if !answer.starts_with(b"HTTP/1.1 200") && !answer.starts_with(b"HTTP/1.1 101") {
        return Err(format!("refused: {}", String::from_utf8_lossy(&answer)).into());
    }
    if let Some((_, subscribe)) = path.split_once('#') {
        // A text of at most 125 bytes, with a mask of zeros.
        let mut frame = vec![0x81, 0x80 | u8::try_from(subscribe.len())?];
        frame.extend([0; 4]);
        frame.extend(subscribe.as_bytes());
        stream.write_all(&frame).await?;
    }
    Ok(stream)
}

/// The delays of the events that come until then.
async fn hear(mut stream: TcpStream, until: Instant) -> Vec<Duration> {
    let mut delays = Vec::new();
    let mut bytes: Vec<u8> = Vec::with_capacity(8 * 1024);
    while let Ok(Ok(1..)) = tokio::time::timeout_at(until, stream.read_buf(&mut bytes)).await {
        let now = micros();
        let mut read = 0;
        while let Some(at) = find(&bytes[read..], MARK) {
            let start = read + at + MARK.len();
            let Some(digits) = bytes.get(start..start + DIGITS) else { break };
            let posted: u64 = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()).unwrap_or(now);
            delays.push(Duration::from_micros(now.saturating_sub(posted)));
            read = start + DIGITS;
        }
        // A mark may be cut.
        let kept = bytes.len().saturating_sub(MARK.len() + DIGITS).max(read);
        bytes.drain(..kept);
    }
    delays
}

/// A listening process.
struct Listener {
    child: Child,
    out: tokio::io::Lines<tokio::io::BufReader<tokio::process::ChildStdout>>,
}

impl Listener {
    async fn start(
        address: SocketAddr,
        path: &str,
        protocol: Protocol,
        streams: usize,
        seconds: u32,
    ) -> Result<Self, Failure> {
        use tokio::io::AsyncBufReadExt as _;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["listen", "--address", &address.to_string(), "--path", path, "--protocol", protocol.name()]);
        command.args(["--streams", &streams.to_string(), "--seconds", &seconds.to_string()]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let out = child.stdout.take().ok_or("a process has no stdout")?;
        let mut out = tokio::io::BufReader::new(out).lines();
        if out.next_line().await?.as_deref() != Some("open") {
            return Err("the streams could not be opened".into());
        }
        Ok(Self { child, out })
    }

    async fn heard(mut self) -> Result<Heard, Failure> {
        let line = self.out.next_line().await?.ok_or("a listener said nothing")?;
        self.child.wait().await?;
        Ok(serde_json::from_str(&line)?)
    }
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

    /// Posts at the rate while all streams listen; gives what they heard and the processor time of a delivery.
    async fn measure(&self, task: &Streams, request: impl Fn(&str) -> Vec<u8>) -> Result<(Heard, f64), Failure> {
        let listener =
            Listener::start(self.subscribers, &self.path, self.protocol, task.streams, task.seconds + 2).await?;
        let before = self.cpu_seconds();
        let mut connection = Connection::open(self.subscribers).await?;
        let mut turns = interval(Duration::from_secs(1) / task.rate);
        turns.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for _ in 0..task.rate * task.seconds {
            turns.tick().await;
            let text = format!("{}{:016}: holding through the week, as before", "posted-at-", micros());
            connection.ask_ok(&request(&text)).await?;
        }
        let heard = listener.heard().await?;
        let us = (self.cpu_seconds() - before) * 1e6 / heard.deliveries.max(1) as f64;
        Ok((heard, us))
    }
}

/// Measures and prints.
pub(crate) async fn run(options: &Options, task: &Streams) -> Result<(), Failure> {
    println!("{}", crate::report::machine());
    let temporary = tempfile::tempdir()?;
    idle(options, task, temporary.path()).await?;
    let place = Place::new(options, StoreKind::Embedded, 0, temporary.path())?;
    let service = Service::start(&place).await?;
    let address = service.address("http")?;
    println!("\n{} streams, {} events a second, {} s", task.streams, task.rate, task.seconds);
    row(&["", "deliveries", "µs of CPU each", "p50 ms", "p99 ms", "aim"]);
    let nchan = Nchan::start(temporary.path()).await?;
    let mut beside = None;
    if let Some(nchan) = &nchan {
        let side = Side {
            name: "Nchan",
            id: nchan.workers().await?,
            subscribers: nchan.address,
            path: "/sub".to_owned(),
            protocol: Protocol::Sse,
        };
        let body = |text: &str| {
            // As long as one of our events.
            let json = format!("{{\"text\":\"{text}\",\"filler\":\"{}\"}}", "x".repeat(600));
            post("/pub", "none", &json)
        };
        let (heard, us) = side.measure(task, body).await?;
        print(&side, &heard, us, None);
        beside = Some((us, heard.p99_ms));
    } else {
        println!("Nchan: left out, for {NCHAN} is not there");
    }
    let subscribe = r#"/v1/stream#{"op":"subscribe","sub":"a","types":["thesis.created"]}"#;
    for (name, path, protocol) in [
        ("SSE", "/v1/events/stream?types=thesis.created", Protocol::Sse),
        ("WebSocket", subscribe, Protocol::Websocket),
    ] {
        let (id, path) = (service.ids(), path.to_owned());
        let side = Side { name, id, subscribers: address, path, protocol };
        let mut random = Random::new(3);
        let token = random.below(1_000);
        let body = |text: &str| {
            let json = format!(r#"{{"handle":"streamer","token":"STREAM{token}","text":"{text}"}}"#);
            post("/v1/test/theses", &test_key(), &json)
        };
        let (heard, us) = side.measure(task, body).await?;
        print(&side, &heard, us, beside);
    }
    service.stop().await?;
    Ok(())
}

fn print(side: &Side<'_>, heard: &Heard, us: f64, beside: Option<(f64, f64)>) {
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
}

/// Measures the memory of idle streams, each kind on a service of its own.
async fn idle(options: &Options, task: &Streams, base: &Path) -> Result<(), Failure> {
    let subscribe = r#"/v1/stream#{"op":"subscribe","sub":"a","filters":{"token":["$IDLE{}"]}}"#;
    println!("\nMemory of an idle stream, as growth of the process with {} of them", task.idle);
    for (name, path, protocol) in
        [("SSE", "/v1/events/stream?token=IDLE{}", Protocol::Sse), ("WebSocket", subscribe, Protocol::Websocket)]
    {
        let place = Place::new(options, StoreKind::Embedded, 0, &base.join(name))?;
        let service = Service::start(&place).await?;
        let address = service.address("http")?;
        let warm = Listener::start(address, path, protocol, 200, 2).await?;
        let before = service.memory().resident;
        let listener = Listener::start(address, path, protocol, task.idle, 4).await?;
        sleep(Duration::from_secs(2)).await;
        let each = (service.memory().resident - before) * 1024.0 / task.idle as f64;
        println!("{name:>12}: {each:.1} KiB, {}", aim_below(each, 8.0, " KiB"));
        drop((warm, listener));
        service.stop().await?;
    }
    Ok(())
}

/// Nchan in nginx: one worker, no message buffer.
struct Nchan {
    child: Child,
    address: SocketAddr,
}

impl Nchan {
    async fn start(dir: &Path) -> Result<Option<Self>, Failure> {
        if !PathBuf::from(NCHAN).exists() {
            return Ok(None);
        }
        let free = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = free.local_addr()?;
        drop(free);
        let config = dir.join("nginx.conf");
        let text = format!(
            "load_module {NCHAN};\nworker_processes 1;\ndaemon off;\npid {0}/nginx.pid;\nerror_log {0}/error.log;\n\
             worker_rlimit_nofile 65536;\nevents {{ worker_connections 32768; }}\nhttp {{\n  access_log off;\n\
             client_body_temp_path {0}/b; proxy_temp_path {0}/p; fastcgi_temp_path {0}/f; uwsgi_temp_path {0}/u; \
             scgi_temp_path {0}/s;\n  nchan_message_buffer_length 0;\n  server {{\n    listen {address};\n\
             location = /pub {{ nchan_publisher; nchan_channel_id all; }}\n\
             location = /sub {{ nchan_subscriber eventsource; nchan_channel_id all; }}\n  }}\n}}\n",
            dir.display()
        );
        std::fs::write(&config, text)?;
        let child = Command::new("nginx").arg("-c").arg(&config).kill_on_drop(true).spawn()?;
        let nchan = Self { child, address };
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(address).await.is_err() {
            if Instant::now() > deadline {
                return Err("nginx does not answer".into());
            }
            sleep(Duration::from_millis(50)).await;
        }
        Ok(Some(nchan))
    }

    /// The processes that work: the master's children.
    async fn workers(&self) -> Result<Vec<u32>, Failure> {
        let master = self.child.id().unwrap_or_default();
        let children = tokio::fs::read_to_string(format!("/proc/{master}/task/{master}/children")).await?;
        Ok(children.split_whitespace().filter_map(|id| id.parse().ok()).collect())
    }
}
