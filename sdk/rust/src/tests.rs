//! The client against a small server that gives prepared responses.

mod calls;
mod receipts;
mod streams;
mod webhooks;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::{Client, ClientBuilder};

/// A prepared response: its bytes. An empty one breaks the connection.
fn answer(status: u16, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} -\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}")
}

fn ok(body: &str) -> String {
    answer(200, "", body)
}

fn refused(status: u16, kind: &str, code: &str, headers: &str) -> String {
    let body = format!(
        r#"{{"error":{{"type":"{kind}","code":"{code}","message":"no","request_id":"req_1","param":"id",
            "details":{{"limit":3,"new":1}}}}}}"#
    );
    answer(status, headers, &body)
}

/// A stream that breaks at its end.
fn sent(frames: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n{frames}")
}

/// Sends the responses in order and then repeats the last one. Records the requests and the pauses of its client.
struct Service {
    address: String,
    client: Client,
    requests: Arc<Mutex<Vec<String>>>,
    pauses: Arc<Mutex<Vec<Duration>>>,
}

impl Service {
    async fn start(answers: &[String]) -> Self {
        Self::start_with(answers, |builder| builder).await
    }

    async fn start_with(answers: &[String], change: impl Fn(ClientBuilder) -> ClientBuilder) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/", listener.local_addr().unwrap());
        let (requests, pauses) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let (kept, slept) = (Arc::clone(&requests), Arc::clone(&pauses));
        let answers = answers.to_vec();
        tokio::spawn(async move {
            for number in 0.. {
                let (mut connection, _) = listener.accept().await.unwrap();
                let request = read_request(&mut connection).await;
                kept.lock().unwrap().push(request);
                let answer = answers.get(number).or(answers.last()).unwrap();
                connection.write_all(answer.as_bytes()).await.unwrap();
                // A stream stays open and silent after this mark.
                if answer.ends_with(": silent\n") {
                    tokio::spawn(async move {
                        connection.read_u8().await.unwrap_or_default();
                    });
                }
            }
        });
        let builder = Client::builder(&address, "svc_test_key").sleep(Box::new(move |pause| {
            slept.lock().unwrap().push(pause);
            Box::pin(async {})
        }));
        Self { client: change(builder).build().unwrap(), address, requests, pauses }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    fn pauses(&self) -> Vec<Duration> {
        self.pauses.lock().unwrap().clone()
    }
}

/// Reads one request with its body.
async fn read_request(connection: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = header(head, "content-length").map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return text;
            }
        }
        let mut piece = [0; 4096];
        let read = connection.read(&mut piece).await.unwrap();
        assert!(read > 0, "the request is cut off: {text}");
        bytes.extend_from_slice(&piece[..read]);
    }
}

/// The value of a request's header.
fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    let head = request.split("\r\n\r\n").next()?;
    let mut fields = head.split("\r\n").skip(1).filter_map(|line| line.split_once(": "));
    fields.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// The first line of a request.
fn first_line(request: &str) -> &str {
    request.lines().next().unwrap()
}
