//! How soon a posted thesis arrives on a stream and at a webhook.

use std::time::Duration;

use axum::{Router, body::Bytes, extract::State, routing::post as on_post};
use tokio::{
    net::TcpListener,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::{Instant, timeout},
};

use crate::{
    Failure, Options,
    connection::{Connection, find, get, post, request},
    data::Random,
    process::{Service, test_key},
    report::{aim_below, percentile, row},
};

/// Time limit for the arrival of a sample.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(10);
/// Beginning of a sample's name in its text.
const MARK: &[u8] = b"sample-";
const DIGITS: usize = 6;

/// A sample that was seen.
type Seen = (u32, Instant);

/// Measures and prints the arrivals.
pub(crate) async fn run(options: &Options, name: &str, service: &Service) -> Result<(), Failure> {
    let key = test_key();
    let address = service.address("http")?;
    let (frames, mut on_stream) = unbounded_channel();
    let mut stream = Connection::open(address).await?;
    stream.send(&get("/v1/events/stream?types=thesis.created", &key)).await?;
    while find(stream.more().await?, b"\r\n\r\n").is_none() {}
    tokio::spawn(follow(stream, frames));

    let mut connection = Connection::open(address).await?;
    let (hooks, mut at_webhook) = unbounded_channel();
    let url = receive(hooks).await?;
    let webhook = format!(r#"{{"url":"{url}","events":["thesis.created"]}}"#);
    let created = connection.ask_ok(&post("/v1/webhooks", &key, &webhook)).await?;
    let created: serde_json::Value = serde_json::from_slice(created.body)?;

    let (mut answers, mut streams, mut webhooks) = (Vec::new(), Vec::new(), Vec::new());
    let mut random = Random::new(2);
    for sample in 0..options.samples {
        let (profile, token) = (random.below(10_000), random.below(1_000));
        let body = format!(
            r#"{{"handle":"trader_{profile}","token":"BENCH{token}","text":"sample-{sample:06}: holding through the week."}}"#
        );
        let posted = post("/v1/test/theses", &key, &body);
        let started = Instant::now();
        connection.ask_ok(&posted).await?;
        answers.push(started.elapsed());
        streams.push(arrival(&mut on_stream, sample).await? - started);
        webhooks.push(arrival(&mut at_webhook, sample).await? - started);
    }
    let webhook = format!("/v1/webhooks/{}", created["id"].as_str().unwrap_or_default());
    connection.ask_ok(&request("DELETE", &webhook, &key)).await?;
    println!("\nFrom POST /v1/test/theses, {} samples one after the other; {name}", options.samples);
    row(&["", "p50 ms", "p99 ms", "p99 aim"]);
    print("to its answer", &mut answers, None);
    print("to the stream's frame", &mut streams, Some(20.0));
    print("to the webhook's arrival", &mut webhooks, Some(50.0));
    Ok(())
}

fn print(name: &str, times: &mut [Duration], below: Option<f64>) {
    let (p50, p99) = (percentile(times, 0.5), percentile(times, 0.99));
    let aim = below.map(|limit| aim_below(p99, limit, " ms")).unwrap_or_default();
    row(&[name, &format!("{p50:.2}"), &format!("{p99:.2}"), &aim]);
}

async fn arrival(seen: &mut UnboundedReceiver<Seen>, wanted: u32) -> Result<Instant, Failure> {
    loop {
        let (sample, at) = timeout(ARRIVAL_TIMEOUT, seen.recv()).await?.ok_or("nothing is followed any more")?;
        if sample == wanted {
            return Ok(at);
        }
    }
}

/// The sample that a text names.
fn sample(bytes: &[u8]) -> Option<u32> {
    let start = find(bytes, MARK)? + MARK.len();
    std::str::from_utf8(bytes.get(start..start + DIGITS)?).ok()?.parse().ok()
}

/// Reports each sample of a stream once its frame is there.
async fn follow(mut stream: Connection, seen: UnboundedSender<Seen>) {
    let mut read = 0;
    while let Ok(bytes) = stream.more().await {
        let at = Instant::now();
        while let Some(end) = find(&bytes[read..], b"\n\n") {
            if let Some(sample) = sample(&bytes[read..read + end])
                && seen.send((sample, at)).is_err()
            {
                return;
            }
            read += end + 2;
        }
    }
}

/// Starts the endpoint and gives its URL.
async fn receive(seen: UnboundedSender<Seen>) -> Result<String, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    let arrived = async |State(seen): State<UnboundedSender<Seen>>, body: Bytes| {
        if let Some(sample) = sample(&body) {
            // After the end of the run nobody waits any more.
            let _ = seen.send((sample, Instant::now()));
        }
    };
    let router = Router::new().route("/", on_post(arrived)).with_state(seen);
    tokio::spawn(axum::serve(listener, router).into_future());
    Ok(url)
}
