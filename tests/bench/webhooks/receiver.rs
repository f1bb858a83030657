//! The process that receives: plain HTTP/1.1 at many loopback addresses.

use std::{net::Ipv4Addr, process::Stdio, time::Duration};

use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    net::{TcpListener, TcpStream},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::mpsc::{UnboundedSender, unbounded_channel},
    time::{Instant, sleep},
};

use crate::{
    Failure,
    connection::find,
    mark::{micros, posted_at},
    process::allow_files,
    report::percentile,
};

const HEAD_END: &[u8] = b"\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
/// The path below an endpoint's URL that hangs.
pub(super) const HANGING: &str = "hang";
/// How long it hangs: longer than an attempt may take.
const HANGS: Duration = Duration::from_secs(6);
/// Time limit for the next arrival.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(20);
/// How often arrivals are counted while they are waited for.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// What the process is asked on a line: how many arrived, or all about them, from which on it counts anew.
const COUNT: &str = "count";
const TAKE: &str = "take";

/// What the receiving process does.
#[derive(Args)]
pub(crate) struct Receive {
    /// Endpoints, each at an address of its own
    #[arg(long)]
    endpoints: u32,
}

/// A request that arrived.
struct Arrival {
    at_us: u64,
    /// When its event was posted, if it says so.
    posted_us: Option<u64>,
}

/// What arrived at endpoints that answer.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Arrived {
    pub(super) count: u64,
    pub(super) first_us: u64,
    pub(super) last_us: u64,
    /// From post to arrival, of events that say when they were posted.
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// Prints its URLs, and answers questions on stdin until it ends.
pub(crate) async fn receive(task: Receive) -> Result<(), Failure> {
    allow_files()?;
    let (arrivals, mut arriving) = unbounded_channel();
    let mut urls = Vec::new();
    for number in 1..=task.endpoints {
        let [_, _, high, low] = number.to_be_bytes();
        let listener = TcpListener::bind((Ipv4Addr::new(127, 1, high, low), 0)).await?;
        urls.push(format!("http://{}/", listener.local_addr()?));
        tokio::spawn(accept(listener, arrivals.clone()));
    }
    println!("{}", serde_json::to_string(&urls)?);
    let mut questions = BufReader::new(tokio::io::stdin()).lines();
    let mut seen: Vec<Arrival> = Vec::new();
    while let Some(question) = questions.next_line().await? {
        while let Ok(arrival) = arriving.try_recv() {
            seen.push(arrival);
        }
        if question == COUNT {
            println!("{}", seen.len());
        } else {
            println!("{}", serde_json::to_string(&told(&std::mem::take(&mut seen)))?);
        }
    }
    Ok(())
}

fn told(seen: &[Arrival]) -> Arrived {
    let delay = |arrival: &Arrival| Some(Duration::from_micros(arrival.at_us.saturating_sub(arrival.posted_us?)));
    let mut delays: Vec<Duration> = seen.iter().filter_map(delay).collect();
    let (p50_ms, p99_ms) = if delays.is_empty() {
        // JSON has no word for a figure that there is not.
        (0.0, 0.0)
    } else {
        (percentile(&mut delays, 0.5), percentile(&mut delays, 0.99))
    };
    Arrived {
        count: seen.len() as u64,
        first_us: seen.iter().map(|arrival| arrival.at_us).min().unwrap_or_default(),
        last_us: seen.iter().map(|arrival| arrival.at_us).max().unwrap_or_default(),
        p50_ms,
        p99_ms,
    }
}

async fn accept(listener: TcpListener, arrivals: UnboundedSender<Arrival>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, arrivals.clone()));
    }
}

/// Answers the requests of a connection until it ends.
async fn serve(mut stream: TcpStream, arrivals: UnboundedSender<Arrival>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let hanging = format!("POST /{HANGING} ");
    let mut bytes: Vec<u8> = Vec::with_capacity(8 * 1024);
    loop {
        let head = loop {
            if let Some(head) = find(&bytes, HEAD_END) {
                break head;
            }
            more(&mut stream, &mut bytes).await?;
        };
        let end = head + HEAD_END.len() + length(&bytes[..head])?;
        while bytes.len() < end {
            more(&mut stream, &mut bytes).await?;
        }
        if bytes.starts_with(hanging.as_bytes()) {
            sleep(HANGS).await;
        } else {
            arrivals.send(Arrival { at_us: micros(), posted_us: posted_at(&bytes[head..end]) }).ok()?;
        }
        stream.write_all(ANSWER).await.ok()?;
        bytes.drain(..end);
    }
}

async fn more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    (stream.read_buf(bytes).await.ok()? > 0).then_some(())
}

/// The length of a body, as its head says.
fn length(head: &[u8]) -> Option<usize> {
    let head = std::str::from_utf8(head).ok()?;
    let is_length = |line: &str| {
        let (name, value) = line.split_once(':')?;
        if name.eq_ignore_ascii_case("content-length") { value.trim().parse().ok() } else { None }
    };
    head.lines().find_map(is_length)
}

/// The receiving process.
pub(super) struct Receiver {
    child: Child,
    questions: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    /// Its endpoints.
    pub(super) urls: Vec<String>,
}

impl Receiver {
    pub(super) async fn start(endpoints: usize) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["receive", "--endpoints", &endpoints.to_string()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let questions = child.stdin.take().ok_or("a process has no stdin")?;
        let out = child.stdout.take().ok_or("a process has no stdout")?;
        let mut answers = BufReader::new(out).lines();
        let urls = serde_json::from_str(&answers.next_line().await?.ok_or("the receiver could not listen")?)?;
        Ok(Self { child, questions, answers, urls })
    }

    async fn ask(&mut self, question: &str) -> Result<String, Failure> {
        self.questions.write_all(format!("{question}\n").as_bytes()).await?;
        Ok(self.answers.next_line().await?.ok_or("the receiver ended")?)
    }

    /// What arrived since this was asked last.
    pub(super) async fn take(&mut self) -> Result<Arrived, Failure> {
        Ok(serde_json::from_str(&self.ask(TAKE).await?)?)
    }

    /// Waits until the wanted number has arrived, or nothing comes any more. Gives what arrived since the last question.
    pub(super) async fn wait(&mut self, wanted: u64) -> Result<Arrived, Failure> {
        let (mut count, mut since) = (0, Instant::now());
        while count < wanted && since.elapsed() < ARRIVAL_TIMEOUT {
            sleep(POLL_INTERVAL).await;
            let now: u64 = self.ask(COUNT).await?.parse()?;
            if now > count {
                (count, since) = (now, Instant::now());
            }
        }
        self.take().await
    }

    pub(super) async fn stop(self) -> Result<(), Failure> {
        let Self { mut child, questions, .. } = self;
        drop(questions);
        child.wait().await?;
        Ok(())
    }
}
