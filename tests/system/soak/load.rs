//! A steady load: requests are sent at their times whatever happens to earlier ones, so that a pause of the service
//! shows as waiting and not as fewer requests. A failed request is tried once more.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, interval, sleep},
};
use tokio_util::sync::CancellationToken;

use super::tally::Tally;
use crate::harness::{Client, Ledger, iso, now_ms};

/// Longest wait for an answer: longer than the service takes to give up a request.
const PATIENCE: Duration = Duration::from_secs(12);
/// Longest pause before a failed request is tried again; its answer may ask for less.
const PAUSE: Duration = Duration::from_secs(1);

/// Requests of one customer.
pub(super) struct Load {
    client: Client,
    pub(super) ledger: Ledger,
    pub(super) tally: Tally,
    /// One in this number of writes has no idempotency key and is not tried again.
    bare_every: u64,
    numbers: AtomicU64,
}

impl Load {
    /// A load that sends nothing yet.
    pub(super) fn new(client: Client, bare_every: u64) -> Arc<Self> {
        let (ledger, tally, numbers) = (Ledger::default(), Tally::default(), AtomicU64::new(0));
        Arc::new(Self { client, ledger, tally, bare_every, numbers })
    }

    /// Sends this number of writes and reads a second until told to end, then waits for their answers.
    pub(super) async fn run(self: Arc<Self>, writes: u32, reads: u32, end: CancellationToken) {
        let (mut write, mut read) =
            (interval(Duration::from_secs(1) / writes), interval(Duration::from_secs(1) / reads));
        let mut sent = JoinSet::new();
        loop {
            tokio::select! {
                () = end.cancelled() => break,
                _ = write.tick() => sent.spawn(Arc::clone(&self).write()),
                _ = read.tick() => sent.spawn(Arc::clone(&self).read()),
            };
            while let Some(ended) = sent.try_join_next() {
                ended.unwrap();
            }
        }
        while let Some(ended) = sent.join_next().await {
            ended.unwrap();
        }
    }

    async fn write(self: Arc<Self>) {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let said = format!("number {number}");
        let bare = number % self.bare_every == self.bare_every - 1;
        let request = || {
            let request = self.client.request(Method::POST, "/v1/test/theses").json(&Ledger::request(&said));
            if bare { request } else { request.header("idempotency-key", &said) }
        };
        match self.twice(true, request, !bare).await {
            Some(made) => self.ledger.acknowledge(&said, &made),
            None if bare => {}
            None => self.ledger.doubt(&said),
        }
    }

    async fn read(self: Arc<Self>) {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let get = |path: &str| self.client.request(Method::GET, path);
        let known = self.ledger.thesis(usize::try_from(number % 100).unwrap());
        let answer = match (number % 8, &known) {
            (0..=3, Some(id)) => self.twice(false, || get(&format!("/v1/theses/{id}")), true).await,
            (4, _) => self.twice(false, || get("/v1/theses?token=CRASH&limit=10"), true).await,
            (5, _) => self.twice(false, || get("/v1/tokens/CRASH/activity"), true).await,
            (6, _) => self.twice(false, || get("/v1/events?types=thesis.created&limit=10"), true).await,
            _ => {
                let (from, to) = (iso(now_ms() - 3_600_000), iso(now_ms() + 60_000));
                let claim =
                    json!({"handle": "survivor", "token": "CRASH", "created_after": from, "created_before": to});
                let ask = || self.client.request(Method::POST, "/v1/verify/thesis").json(&claim);
                let verdict = self.twice(false, ask, true).await;
                if let (Some(_), Some(verdict)) = (&known, &verdict) {
                    assert_eq!(verdict["verified"], true, "{verdict}");
                }
                verdict
            }
        };
        if let (0..=3, Some(id), Some(answer)) = (number % 8, known, answer) {
            assert_eq!(answer["id"], id.as_str());
        }
    }

    /// Sends a request, once more if it fails; gives the answer of a success.
    async fn twice(&self, write: bool, request: impl Fn() -> RequestBuilder, again: bool) -> Option<Value> {
        let since = Instant::now();
        let (first, pause) = match once(request()).await {
            Ok(answer) => {
                self.tally.add(write, since, None, None);
                return Some(answer);
            }
            Err(failed) => failed,
        };
        if !again {
            self.tally.add(write, since, Some(&first), None);
            return None;
        }
        sleep(pause).await;
        let last = once(request()).await;
        let why = last.as_ref().err().map(|(why, _)| why.as_str());
        self.tally.add(write, since, Some(&first), why);
        last.ok()
    }
}

/// Sends a request; gives its answer, or why it failed and when it may be tried again.
async fn once(request: RequestBuilder) -> Result<Value, (String, Duration)> {
    let lost = |error: &reqwest::Error| {
        let why = if error.is_timeout() { "no answer" } else { "no connection" };
        (why.to_owned(), PAUSE)
    };
    let answer = request.timeout(PATIENCE).send().await.map_err(|error| lost(&error))?;
    let status = answer.status();
    let asked = answer.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
    let text = answer.text().await.map_err(|error| lost(&error))?;
    if status.is_success() {
        return Ok(serde_json::from_str(&text).unwrap());
    }
    // An earlier try may still be running.
    let expected = status.is_server_error() || text.contains("IDEMPOTENCY_IN_PROGRESS");
    assert!(expected, "{status} {text}");
    Err((status.as_u16().to_string(), asked.map_or(PAUSE, Duration::from_secs).min(PAUSE)))
}
