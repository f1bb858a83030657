//! The process that listens on every stream.

use std::{net::SocketAddr, process::Stdio, time::Duration};

use clap::{Args, ValueEnum};
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    net::TcpStream,
    process::{Child, ChildStdout, Command},
    time::{Instant, timeout_at},
};

use crate::{
    Failure,
    connection::find,
    mark::{DIGITS, MARK, micros},
    process::{allow_files, test_key},
    report::percentile,
};

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
    /// Open them all at once, not one after the other
    #[arg(long)]
    at_once: bool,
    /// Resume after this cursor
    #[arg(long)]
    cursor: Option<String>,
    /// Events after which a stream has heard enough
    #[arg(long, default_value_t = usize::MAX)]
    enough: usize,
    /// Take delays from the times at which a replay at this speed, from the first event on, must send its events
    #[arg(long)]
    speed: Option<f64>,
}

/// A stream, and the microsecond at which it was requested.
struct Opened {
    stream: TcpStream,
    requested_at: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Protocol {
    Sse,
    Websocket,
}

impl Protocol {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sse => "sse",
            Self::Websocket => "websocket",
        }
    }
}

#[derive(Default, Serialize, Deserialize)]
pub(super) struct Heard {
    pub(super) deliveries: u64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    /// From before the first opening until the last event.
    pub(super) took_ms: f64,
}

/// Opens the streams, says so on a line, listens, and prints what it heard.
pub(crate) async fn listen(task: Listen) -> Result<(), Failure> {
    allow_files()?;
    let (began, mut open) = (Instant::now(), Vec::with_capacity(task.streams));
    if task.at_once {
        open = try_join_all((0..task.streams).map(|number| connect(&task, number))).await?;
    } else {
        for number in 0..task.streams {
            open.push(connect(&task, number).await?);
        }
    }
    println!("{}", began.elapsed().as_millis());
    let until = Instant::now() + Duration::from_secs(task.seconds);
    let listening = open.into_iter().map(|stream| tokio::spawn(hear(stream, until, task.enough, task.speed)));
    let mut delays: Vec<Duration> = try_join_all(listening).await?.concat();
    let heard = Heard {
        deliveries: delays.len() as u64,
        p50_ms: percentile(&mut delays, 0.5),
        p99_ms: percentile(&mut delays, 0.99),
        took_ms: began.elapsed().as_secs_f64() * 1_000.0,
    };
    println!("{}", serde_json::to_string(&heard)?);
    Ok(())
}

async fn connect(task: &Listen, number: usize) -> Result<Opened, Failure> {
    let requested_at = micros();
    let mut stream = TcpStream::connect(task.address).await?;
    let more = match task.protocol {
        Protocol::Sse => match &task.cursor {
            Some(cursor) => format!("last-event-id: {cursor}"),
            None => "accept: text/event-stream".to_owned(),
        },
        Protocol::Websocket => "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                                sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="
            .to_owned(),
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
    Ok(Opened { stream, requested_at })
}

/// The delays of the events that come until then, or until they are enough.
async fn hear(opened: Opened, until: Instant, enough: usize, speed: Option<f64>) -> Vec<Duration> {
    let Opened { mut stream, requested_at } = opened;
    let (mut delays, mut first) = (Vec::new(), None);
    let mut bytes: Vec<u8> = Vec::with_capacity(8 * 1024);
    while delays.len() < enough
        && let Ok(Ok(1..)) = timeout_at(until, stream.read_buf(&mut bytes)).await
    {
        let now = micros();
        let mut read = 0;
        while let Some(at) = find(&bytes[read..], MARK) {
            let start = read + at + MARK.len();
            let Some(digits) = bytes.get(start..start + DIGITS) else { break };
            let posted: u64 = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()).unwrap_or(now);
            let due = speed.map_or(posted, |speed| {
                let after = posted.saturating_sub(*first.get_or_insert(posted));
                requested_at + (after as f64 / speed) as u64
            });
            delays.push(Duration::from_micros(now.saturating_sub(due)));
            read = start + DIGITS;
        }
        // A mark may be cut.
        let kept = bytes.len().saturating_sub(MARK.len() + DIGITS).max(read);
        bytes.drain(..kept);
    }
    delays
}

/// A listening process.
pub(super) struct Listener {
    child: Child,
    out: Lines<BufReader<ChildStdout>>,
    /// Time until all were open, in milliseconds.
    pub(super) open_ms: u64,
}

impl Listener {
    pub(super) async fn start(
        address: SocketAddr,
        path: &str,
        protocol: Protocol,
        (streams, seconds): (usize, u32),
        more: &[&str],
    ) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["listen", "--address", &address.to_string(), "--path", path, "--protocol", protocol.name()]);
        command.args(["--streams", &streams.to_string(), "--seconds", &seconds.to_string()]).args(more);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let out = child.stdout.take().ok_or("a process has no stdout")?;
        let mut out = BufReader::new(out).lines();
        let open_ms = out.next_line().await?.ok_or("the streams could not be opened")?.parse()?;
        Ok(Self { child, out, open_ms })
    }

    pub(super) async fn heard(mut self) -> Result<Heard, Failure> {
        let line = self.out.next_line().await?.ok_or("a listener said nothing")?;
        self.child.wait().await?;
        Ok(serde_json::from_str(&line)?)
    }
}
