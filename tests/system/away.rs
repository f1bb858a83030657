//! A store that is away entirely, its connections closed or silent: requests that need it are soon told so, and when it
//! is back everything continues by itself.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use reqwest::Method;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

use crate::harness::{Client, Ledger, Passage, Receiver, SOON, Service, Way, eventually, fetch};

/// Longest wait for an answer that needs the store: two seconds, and more on a machine busy with other tests. Waiting
/// for the store itself would take longer still: two seconds for each read, five for each write.
const TOLD_WITHIN: Duration = Duration::from_secs(2 + 1);
/// Number of clients that ask at once, each one request after another.
const ASKING: usize = 10;

/// The requests while the store was away.
#[derive(Default)]
struct Asked {
    slowest: Mutex<HashMap<&'static str, Duration>>,
    refused: Mutex<usize>,
}

/// Repeats requests that need the store; none may wait long, from its beginning or from the cut on.
async fn ask(client: Client, name: usize, ledger: Arc<Ledger>, asked: Arc<Asked>, end: CancellationToken) {
    let thesis = format!("/v1/theses/{}", ledger.thesis(0).unwrap());
    for number in 0.. {
        if end.is_cancelled() {
            return;
        }
        let said = format!("{name} {number}");
        let get = |path: &str| client.request(Method::GET, path);
        let (what, request) = match number % 6 {
            0 => ("a thesis", get(&thesis)),
            1 => ("a list", get("/v1/theses?token=CRASH&limit=5")),
            2 => ("events", get("/v1/events?limit=5")),
            3 => ("activity", get("/v1/tokens/CRASH/activity")),
            4 => ("a stream", get("/v1/events/stream")),
            _ => {
                let request = client.request(Method::POST, "/v1/test/theses").json(&Ledger::request(&said));
                ("a write", request.header("idempotency-key", &said))
            }
        };
        let sent = Instant::now();
        let answer = request.send().await.unwrap();
        let took = sent.elapsed();
        {
            let mut slowest = asked.slowest.lock().unwrap();
            let slowest = slowest.entry(what).or_default();
            *slowest = took.max(*slowest);
        }
        match answer.status().as_u16() {
            503 => {
                assert!(answer.headers().contains_key("retry-after"), "{what}: {answer:?}");
                let error: serde_json::Value = answer.json().await.unwrap();
                assert_eq!(error["error"]["code"], "SERVICE_UNAVAILABLE", "{what}: {error}");
                *asked.refused.lock().unwrap() += 1;
                if what == "a write" {
                    ledger.doubt(&said);
                }
            }
            201 => ledger.acknowledge(&said, &answer.json().await.unwrap()),
            status => assert_eq!(status, 200, "{what}"),
        }
    }
}

async fn health(service: &Service) -> ServingStatus {
    let mut client = HealthClient::new(service.first_core());
    client.check(HealthCheckRequest::default()).await.unwrap().get_ref().status()
}

// The way to the node must work while the test waits for a process.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_away_is_told_soon_and_nothing_is_lost() {
    let Some(node) = crate::harness::nodes() else { return };
    if node.contains(',') {
        println!("left out: the driver would find the way to the other nodes");
        return;
    }
    let way = Way::to(node).await;
    let mut service = Service::of_replicas(1, &way.address, true).await;
    let receiver = Receiver::start().await;
    let project = service.project_on("huge").await;
    let client = project.test().await;
    client.webhook(&receiver.url, &["thesis.created"]).await;
    let ledger = Arc::<Ledger>::default();
    let readyz = [0, 1].map(|process: usize| format!("{}/readyz", service.processes[process].address("ops")));
    let ready = async || {
        let mut statuses = Vec::new();
        for url in &readyz {
            statuses.push(fetch(url).await.unwrap().status().as_u16());
        }
        statuses
    };
    let mut cursor: Option<String> = None;
    let mut heard = Vec::new();
    for cut in [Passage::Closed, Passage::Silent] {
        let mut stream = match &cursor {
            Some(cursor) => client.resume("?types=thesis.created", cursor).await,
            None => client.stream("?types=thesis.created").await,
        };
        // A delivery that is owed when the store goes away.
        service.processes[2].signal("KILL");
        let said = format!("{cut:?}");
        let made = client.post_once("/v1/test/theses", &Ledger::request(&said), &said).await.ok(201);
        ledger.acknowledge(&said, &made);
        let seen = heard.len();
        while heard.len() == seen || heard.last() != Some(&made["event"]["id"]) {
            let frame = stream.next().await;
            heard.push(frame.data["id"].clone());
            cursor = frame.id;
        }
        assert_eq!(ready().await, [200, 200]);

        let (asked, end) = (Arc::<Asked>::default(), CancellationToken::new());
        let mut asking = JoinSet::new();
        for number in 0..ASKING {
            let name = ASKING * usize::from(cut == Passage::Silent) + number;
            asking.spawn(ask(client.clone(), name, Arc::clone(&ledger), Arc::clone(&asked), end.clone()));
        }
        // In the middle of work.
        let before = ledger.len();
        eventually("writes", SOON, async || (ledger.len() > before + ASKING).then_some(())).await;
        way.set(cut);
        let cut_at = Instant::now();
        eventually("health says so", TOLD_WITHIN, async || {
            (health(&service).await == ServingStatus::NotServing).then_some(())
        })
        .await;
        assert_eq!(timeout(Duration::from_secs(3), ready()).await.unwrap(), [503, 503]);
        service.kill_and_start(2).await;
        // Events from before the cut may still come, and are kept.
        loop {
            let Some(frame) = timeout(Duration::from_secs(8), stream.read()).await.unwrap() else { break };
            heard.push(frame.data["id"].clone());
            cursor = frame.id;
        }
        println!("{cut:?}: the stream ended after {:?}", cut_at.elapsed());
        assert!(cut_at.elapsed() > Duration::from_secs(4));
        // Every request, even one that needs no store.
        for client in [&client, &client.with_key(None)] {
            client.get("/v1/me").await.error(503, "SERVICE_UNAVAILABLE");
        }
        assert_eq!(ready().await, [503, 503]);
        end.cancel();
        while let Some(asked) = asking.join_next().await {
            asked.unwrap();
        }
        let slowest = asked.slowest.lock().unwrap().clone();
        println!("{cut:?}: {} requests refused, the slowest answers: {slowest:?}", asked.refused.lock().unwrap());
        assert!(slowest.values().all(|took| *took < TOLD_WITHIN), "{slowest:?}");
        assert!(*asked.refused.lock().unwrap() > ASKING);

        way.set(Passage::Open);
        let open_at = Instant::now();
        eventually("it serves again", SOON, async || (client.get("/v1/me").await.status == 200).then_some(())).await;
        eventually("it says so", SOON, async || (ready().await == [200, 200]).then_some(())).await;
        assert_eq!(health(&service).await, ServingStatus::Serving);
        println!("{cut:?}: it served again after {:?}", open_at.elapsed());
        ledger.complete(&client).await;
        receiver.delivery_of(&made["event"]).await;
    }
    let events = ledger.judge(&service, &project, &client).await;
    assert!(ledger.delivered(&receiver, &events, SOON).await <= ASKING);
    let mut stream = client.resume("?types=thesis.created", &cursor.unwrap()).await;
    while heard.len() < events.len() {
        heard.push(stream.next().await.data["id"].clone());
    }
    assert_eq!(heard, events);
}
