//! The simulator over sockets.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use thesis_net::clock::SystemClock;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::{Faults, Options, Simulator};

const TOKEN: &str = "a-token-of-the-upstream";

async fn start(faults: Faults) -> Simulator {
    let options = Options {
        listen: ([127, 0, 0, 1], 0).into(),
        token: TOKEN.into(),
        seed: 1,
        profiles: 20,
        tokens: 10,
        rate: 0.0,
        history: Duration::from_secs(3_600),
        history_theses: 50,
        faults,
    };
    Simulator::start(options, Arc::new(SystemClock)).await.unwrap()
}

async fn send(simulator: &Simulator, token: &str, method: &str, path: &str, body: &str) -> TcpStream {
    let mut socket = TcpStream::connect(simulator.address()).await.unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    socket
}

/// The status and the whole answer as text.
async fn call(simulator: &Simulator, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut socket = send(simulator, TOKEN, method, path, body).await;
    let mut response = Vec::new();
    socket.read_to_end(&mut response).await.unwrap();
    let response = String::from_utf8_lossy(&response);
    (status(&response), response.split_once("\r\n\r\n").unwrap().1.to_owned())
}

fn status(response: &str) -> u16 {
    response.split(' ').nth(1).unwrap().parse().unwrap()
}

async fn json(simulator: &Simulator, method: &str, path: &str, body: &str) -> Value {
    let (status, response) = call(simulator, method, path, body).await;
    assert_eq!(status, 200, "{path}: {response}");
    serde_json::from_str(&response).unwrap()
}

/// Reads a feed until it holds a text.
async fn read_until(feed: &mut TcpStream, text: &str) -> String {
    let mut read = String::new();
    let reading = async {
        while !read.contains(text) {
            let mut bytes = vec![0; 64 * 1024];
            let count = feed.read(&mut bytes).await.unwrap();
            assert!(count > 0, "the feed ended: {read}");
            read.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    };
    assert!(timeout(Duration::from_secs(10), reading).await.is_ok());
    read
}

/// The position of a feed's first frame.
fn first_position(read: &str) -> String {
    read.split_once("id: ").unwrap().1.split('\n').next().unwrap().to_owned()
}

#[tokio::test]
async fn the_feed_tells_what_is_posted_and_goes_on_from_a_position() {
    let simulator = start(Faults::default()).await;
    let mut feed = send(&simulator, TOKEN, "GET", "/feed", "").await;
    let open = read_until(&mut feed, "\n\n").await;
    assert!(open.contains("event: open\n") && open.contains("{\"now\":\""), "{open}");
    let created = json(&simulator, "POST", "/sim/theses", r#"{"text":"Hello there"}"#).await;
    let event = read_until(&mut feed, "Hello there").await;
    assert!(event.contains("event: thesis.created\n"), "{event}");
    drop(feed);

    let path = format!("/feed?after={}", first_position(&open));
    let mut again = send(&simulator, TOKEN, "GET", &path, "").await;
    assert_eq!(first_position(&read_until(&mut again, "Hello there").await), first_position(&open));
    let state = json(&simulator, "GET", "/sim/state", "").await;
    assert_eq!((&state["theses"], &state["frames"], &state["feed_opened"]), (&51.into(), &1.into(), &2.into()));

    let seen = json(&simulator, "GET", &format!("/theses/{}", created["id"].as_str().unwrap()), "").await;
    assert_eq!(seen["text"], "Hello there");
    assert!(seen["profile"]["email"].is_string() && created["profile"]["email"].is_null());
    simulator.stop().await;
}

#[tokio::test]
async fn unknown_positions_and_strangers_are_refused() {
    let simulator = start(Faults::default()).await;
    let (status, gone) = call(&simulator, "GET", "/feed?after=p000000000001-00000000", "").await;
    assert!(status == 410 && gone.contains("oldest_at"), "{status} {gone}");
    let mut socket = send(&simulator, "another-token", "GET", "/sim/state", "").await;
    let mut response = String::new();
    socket.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 401 "), "{response}");
    simulator.stop().await;
}

#[tokio::test]
async fn faults_are_switched_while_it_runs() {
    let simulator = start(Faults { refuse_feed: true, ..Faults::default() }).await;
    assert_eq!(call(&simulator, "GET", "/feed", "").await.0, 503);
    let fields = r#"{"error_share":1,"error_status":429,"retry_after_s":7,"refuse_feed":false}"#;
    assert_eq!(json(&simulator, "PUT", "/sim/faults", fields).await["refuse_feed"], false);
    assert_eq!(call(&simulator, "GET", "/theses", "").await.0, 429);
    assert_eq!(call(&simulator, "PUT", "/sim/faults", r#"{"noise":1}"#).await.0, 400);
    json(&simulator, "PUT", "/sim/faults", r#"{"error_share":0,"cut_share":1}"#).await;
    let (status, half) = call(&simulator, "GET", "/theses", "").await;
    assert!(status == 200 && serde_json::from_str::<Value>(&half).is_err());
    let state = json(&simulator, "GET", "/sim/state", "").await;
    assert_eq!((&state["look_ups"]["theses"], &state["refused_look_ups"]), (&2.into(), &2.into()));
    simulator.stop().await;
}

#[tokio::test]
async fn a_burst_is_in_the_feed() {
    let simulator = start(Faults::default()).await;
    let mut feed = send(&simulator, TOKEN, "GET", "/feed", "").await;
    read_until(&mut feed, "event: open").await;
    let position = json(&simulator, "POST", "/sim/burst", r#"{"theses":3000}"#).await;
    read_until(&mut feed, position["position"].as_str().unwrap()).await;
    let (mut after, mut count) = (String::new(), 0);
    loop {
        let page = json(&simulator, "GET", &format!("/sim/theses?limit=1000{after}"), "").await;
        count += page["data"].as_array().unwrap().len();
        match page["next"].as_u64() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(count, 3_050);
    simulator.stop().await;
}
