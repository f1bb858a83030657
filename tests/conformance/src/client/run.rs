//! One run of the program against a script.

use std::{io, process::Stdio, time::Duration};

use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    process::Command,
    sync::mpsc::{UnboundedSender, unbounded_channel},
    time::{Instant, sleep_until, timeout},
};

use super::script::{self, Connection, GAP_PATH, KEY, LAST, RETRY_AFTER, event_id};

/// Maximum time of a run in which the program does something.
const RUN_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time after the last connection of a script.
const END_TIMEOUT: Duration = Duration::from_secs(10);
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// One opening of the stream.
pub(super) struct Opening {
    pub(super) cursor: Option<String>,
    /// True if the key came in the header, and nowhere else.
    pub(super) is_authorized: bool,
    /// The time from the end of the connection before until the client connected.
    pub(super) waited: Duration,
}

/// The record of a run.
pub(super) struct Run {
    pub(super) openings: Vec<Opening>,
    /// The ids of events in the lines of standard output.
    pub(super) handled: Vec<String>,
    /// True if the program named the gap's path or read it.
    pub(super) knows_gap: bool,
    /// True if the program ended by itself.
    pub(super) has_ended: bool,
    ended_at: Instant,
    /// Connections that stay open.
    open: Vec<TcpStream>,
}

/// The head of a request.
struct Head {
    path: String,
    headers: Vec<(String, String)>,
}

impl Head {
    async fn read(socket: &mut TcpStream) -> io::Result<Self> {
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n\r\n") {
            if bytes.len() == MAX_HEAD_BYTES {
                return Err(io::ErrorKind::InvalidData.into());
            }
            bytes.push(socket.read_u8().await?);
        }
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.lines();
        let path = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
        Ok(Self { path, headers })
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// The cursor of an opening. An empty one counts as none.
    fn cursor(&self) -> Option<String> {
        let query = self.path.split_once('?').map_or("", |(_, query)| query);
        let in_query = query.split('&').find_map(|pair| pair.strip_prefix("from_cursor="));
        let in_header = self.header("last-event-id").filter(|cursor| !cursor.is_empty());
        in_header.or(in_query).filter(|cursor| !cursor.is_empty()).map(str::to_owned)
    }
}

impl Run {
    /// Runs the program until it has had the whole script.
    pub(super) async fn of(command: &[String], script: &[Connection]) -> io::Result<Self> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let url = url.as_str();
        let mut child = Command::new(program)
            .args(arguments)
            .envs([("API_URL", url), ("SVC_API_URL", url), ("API_KEY", KEY), ("SVC_KEY", KEY)])
            .envs([("NO_PROXY", "127.0.0.1"), ("no_proxy", "127.0.0.1")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (sender, mut lines) = unbounded_channel();
        if let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) {
            tokio::spawn(send_lines(stdout, true, sender.clone()));
            tokio::spawn(send_lines(stderr, false, sender));
        }
        let now = Instant::now();
        let mut run = Self {
            openings: Vec::new(),
            handled: Vec::new(),
            knows_gap: false,
            has_ended: false,
            ended_at: now,
            open: Vec::new(),
        };
        let mut deadline = now + RUN_TIMEOUT;
        while !run.has_ended && !run.handled.contains(&event_id(LAST)) {
            tokio::select! {
                Some((line, is_output)) = lines.recv() => run.read_line(&line, is_output),
                accepted = listener.accept() => {
                    // A client may break a connection off.
                    let _broken = run.serve(accepted?.0, script).await;
                    if run.openings.len() >= script.len() {
                        deadline = deadline.min(Instant::now() + END_TIMEOUT);
                    }
                }
                _status = child.wait() => run.has_ended = true,
                () = sleep_until(deadline) => break,
            }
        }
        if !run.has_ended {
            child.kill().await?;
        }
        // What the program has written is read to its end.
        while let Ok(Some((line, is_output))) = timeout(HEAD_TIMEOUT, lines.recv()).await {
            run.read_line(&line, is_output);
        }
        Ok(run)
    }

    fn read_line(&mut self, line: &str, is_output: bool) {
        self.knows_gap |= line.contains(GAP_PATH);
        if !is_output {
            return;
        }
        let words = line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let mut ids: Vec<&str> = words.filter(|word| word.starts_with("evt_")).collect();
        ids.dedup();
        self.handled.extend(ids.into_iter().map(str::to_owned));
    }

    /// Serves one request.
    async fn serve(&mut self, mut socket: TcpStream, script: &[Connection]) -> io::Result<()> {
        let accepted_at = Instant::now();
        socket.set_nodelay(true)?;
        let head = timeout(HEAD_TIMEOUT, Head::read(&mut socket)).await??;
        if head.path.starts_with("/v1/events?") {
            self.knows_gap = true;
            let data: Vec<_> = (7..10).rev().map(|number| script::event(number, "thesis.created")).collect();
            let list = json!({"object": "list", "data": data, "next_cursor": null, "has_more": false}).to_string();
            return respond(&mut socket, 200, "application/json", &[list.into_bytes()]).await;
        }
        if !head.path.starts_with("/v1/events/stream") {
            return respond(&mut socket, 404, "application/json", &[b"{}".to_vec()]).await;
        }
        let is_authorized = head.header("authorization").is_some_and(|value| value == format!("Bearer {KEY}"))
            && !head.path.contains(KEY);
        let waited = accepted_at.duration_since(self.ended_at);
        self.openings.push(Opening { cursor: head.cursor(), is_authorized, waited });
        // A client that opens more than the script has gets its last response again.
        let Some(connection) = script.get(self.openings.len() - 1).or(script.last()) else { return Ok(()) };
        let kind = if connection.status == 200 { "text/event-stream" } else { "application/json" };
        let sent = respond(&mut socket, connection.status, kind, &connection.pieces).await;
        if connection.stays {
            self.open.push(socket);
        }
        self.ended_at = Instant::now();
        sent
    }
}

async fn respond(socket: &mut TcpStream, status: u16, kind: &str, pieces: &[Vec<u8>]) -> io::Result<()> {
    let later = if status == 503 { format!("retry-after: {}\r\n", RETRY_AFTER.as_secs()) } else { String::new() };
    let head = format!("HTTP/1.1 {status} Script\r\ncontent-type: {kind}\r\n{later}connection: close\r\n\r\n");
    socket.write_all(head.as_bytes()).await?;
    for piece in pieces {
        socket.write_all(piece).await?;
    }
    Ok(())
}

/// Sends the lines of a program's output, each with true if it is standard output.
async fn send_lines(output: impl AsyncRead + Unpin, is_output: bool, sender: UnboundedSender<(String, bool)>) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        // Read to the end even if nobody listens, so that the program can write.
        let _ended = sender.send((line, is_output));
    }
}
