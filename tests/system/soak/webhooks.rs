//! Cores and workers killed with -9 at random moments under load: every event of the history must arrive at every
//! endpoint that it matches, and nearly none twice.

use std::{collections::HashSet, time::Duration};

use reqwest::Method;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, interval, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::harness::{Client, Dice, Receiver, Service, eventually, nodes, text};

/// Events a second, of all writers together; events derived from them come on top.
const WRITES: u32 = 40;
const WRITERS: u32 = 4;
/// Tokens and handles that the events are about.
const TOKENS: u64 = 4;
const HANDLES: u64 = 3;
/// Each endpoint's types, tokens and handles, as a query has them.
const WANTED: [[&str; 3]; 4] = [
    ["thesis.created", "HOOK0,HOOK1,HOOK2,HOOK3", ""],
    ["thesis.created,token.activity", "HOOK0", ""],
    ["token.activity,token.thesis_velocity", "HOOK0,HOOK1,HOOK2,HOOK3", ""],
    ["thesis.created", "HOOK1,HOOK2", "striker1,striker2"],
];
/// Longest wait for the last deliveries at the end: a second attempt is due a minute after the first.
const REST: Duration = Duration::from_secs(180);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by tests/soak"]
async fn every_event_arrives_in_one_process_on_the_embedded_store() {
    every_event_arrives(Service::embedded(|setup| setup)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by tests/soak"]
async fn every_event_arrives_in_two_of_each_role_on_a_cluster() {
    every_event_arrives(Service::of_replicas(2, &nodes().expect("TEST_SCYLLA_NODES"), false).await).await;
}

/// A webhook's endpoint, and the history of its events.
struct Endpoint {
    receiver: Receiver,
    history: String,
}

impl Endpoint {
    async fn new(client: &Client, [types, tokens, handles]: [&str; 3]) -> Self {
        let receiver = Receiver::start().await;
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let mut filters = json!({"token": list(tokens)});
        let mut history = format!("/v1/events?limit=100&types={types}&token={tokens}");
        if !handles.is_empty() {
            filters["handle"] = json!(list(handles));
            history = format!("{history}&handle={handles}");
        }
        let body = json!({"url": receiver.url, "events": list(types), "filters": filters});
        client.post("/v1/webhooks", &body).await.ok(201);
        Self { receiver, history }
    }

    async fn history(&self, client: &Client) -> HashSet<String> {
        let events = client.all(&self.history).await;
        events.iter().map(|event| text(event, "id").to_owned()).collect()
    }

    /// Demands that every event arrived, and no other; gives how many, and how many requests came on top.
    async fn judge(&self, client: &Client) -> (usize, usize) {
        let mut events = self.history(client).await;
        loop {
            let all = async || {
                let arrived = self.receiver.arrivals();
                events.iter().all(|event| arrived.contains_key(event)).then_some(arrived)
            };
            let arrived = eventually("every delivery", REST, all).await;
            let now = self.history(client).await;
            assert!(arrived.keys().all(|event| now.contains(event)), "an event arrived that does not match");
            if now == events {
                return (arrived.len(), arrived.values().sum::<usize>() - arrived.len());
            }
            // Derived events may have come meanwhile.
            events = now;
        }
    }
}

/// Writes events until told to end. A failed write may have happened: the history is asked at the end.
async fn write(client: Client, mut dice: Dice, end: CancellationToken) {
    let mut every = interval(Duration::from_secs(1) * WRITERS / WRITES);
    let mut number = 0;
    while end.run_until_cancelled(every.tick()).await.is_some() {
        number += 1;
        let body = json!({
            "handle": format!("striker{}", dice.roll(HANDLES)),
            "token": format!("HOOK{}", dice.roll(TOKENS)),
            "text": format!("number {number}"),
        });
        let request = client.request(Method::POST, "/v1/test/theses").json(&body);
        let _may_fail = request.timeout(Duration::from_secs(5)).send().await;
    }
}

async fn every_event_arrives(mut service: Service) {
    let mut dice = Dice::new();
    let client = service.project_on("huge").await.test().await;
    let mut endpoints = Vec::new();
    for wanted in WANTED {
        endpoints.push(Endpoint::new(&client, wanted).await);
    }
    let (mut writers, end) = (JoinSet::new(), CancellationToken::new());
    for _ in 0..WRITERS {
        writers.spawn(write(client.clone(), dice.another(), end.clone()));
    }
    let roles: Vec<String> = service.processes.iter().map(|process| text(&process.ready, "role").to_owned()).collect();
    let killed: Vec<usize> = (0..roles.len()).filter(|index| roles[*index] != "edge").collect();
    let started = Instant::now();
    for kill in 1.. {
        sleep(Duration::from_millis(1_000 + dice.roll(4_000))).await;
        let index = killed[dice.below(killed.len())];
        service.kill_and_start(index).await;
        println!("{:>4} s: kill {kill}, {}", started.elapsed().as_secs(), roles[index]);
        if started.elapsed() > super::time() {
            break;
        }
    }
    end.cancel();
    writers.join_all().await;
    service.is_ready().await;
    service.say_troubles();
    let (mut arrived, mut again) = (0, 0);
    for (endpoint, wanted) in endpoints.iter().zip(WANTED) {
        let (events, more) = endpoint.judge(&client).await;
        assert!(events > 0, "nothing matched {wanted:?}");
        println!("{wanted:?}: {events} events delivered, {more} requests more than needed");
        (arrived, again) = (arrived + events, again + more);
    }
    assert!(again * 100 < arrived, "a hundredth or more was delivered twice: {again} of {arrived}");
}
