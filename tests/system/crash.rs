//! `kill -9` at random moments under writes: what was acknowledged is there, once, and was delivered.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use reqwest::Method;
use serde_json::{Value, json};
use thesis_proto::clock::{IdSource as _, SystemIdSource};
use tokio::task::JoinSet;

use crate::harness::{Client, Receiver, Service, eventually, ids, text};

const KILLS: usize = 22;
const WRITERS: usize = 4;

/// Repeatable random numbers.
struct Dice(u64);

impl Dice {
    /// One of `0..below`.
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }
}

/// What the writers know.
#[derive(Default)]
struct Written {
    /// Thesis and event of every acknowledged write, by its text.
    acknowledged: HashMap<String, (String, String)>,
    /// Idempotency keys, which are also texts, of writes whose answer did not come.
    in_doubt: Vec<String>,
}

fn request(said: &str) -> Value {
    json!({"handle": "survivor", "token": "CRASH", "text": said})
}

/// Writes until the service is gone; each second write can be repeated safely.
async fn write(client: Client, name: String, written: Arc<Mutex<Written>>) {
    for number in 0.. {
        let said = format!("{name} {number}");
        let mut sending = client.request(Method::POST, "/v1/test/theses").json(&request(&said));
        let repeatable = number % 2 == 0;
        if repeatable {
            sending = sending.header("idempotency-key", &said);
        }
        let answer = match sending.send().await {
            Ok(answer) if answer.status() == 201 => answer.json::<Value>().await,
            Ok(other) => panic!("{}", other.text().await.unwrap_or_default()),
            Err(error) => Err(error),
        };
        match answer {
            Ok(made) => note(&written, said, &made),
            Err(_) => {
                if repeatable {
                    written.lock().unwrap().in_doubt.push(said);
                }
                return;
            }
        }
    }
}

fn note(written: &Mutex<Written>, said: String, made: &Value) {
    let made = (text(&made["thesis"], "id").to_owned(), text(&made["event"], "id").to_owned());
    let before = written.lock().unwrap().acknowledged.insert(said, made);
    assert!(before.is_none());
}

#[tokio::test]
async fn what_was_acknowledged_survives() {
    let mut seed = [0; 8];
    SystemIdSource.fill(&mut seed);
    let seed = std::env::var("TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(u64::from_le_bytes(seed));
    println!("TEST_SEED={seed}");
    let mut dice = Dice(seed);

    let mut service = Service::embedded(|setup| setup);
    let receiver = Receiver::start().await;
    let project = service.project_on("huge").await;
    let mut client = project.test().await;
    let webhook = client.webhook(&receiver.url, &["thesis.created"]).await;
    let written = Arc::<Mutex<Written>>::default();
    for kill in 0..KILLS {
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            writers.spawn(write(client.clone(), format!("{kill}.{writer}"), Arc::clone(&written)));
        }
        tokio::time::sleep(Duration::from_millis(20 + dice.roll(400))).await;
        service.processes[0].signal("KILL");
        service.processes.clear();
        writers.join_all().await;
        service.processes.push(service.setup.start());
        client = client.moved_to(&service.processes[0].address("http"));
    }
    service.cores = vec![service.processes[0].address("grpc")];

    // A repetition completes what a crash cut off, or finds it; a server that died is waited for.
    let in_doubt = std::mem::take(&mut written.lock().unwrap().in_doubt);
    for said in &in_doubt {
        let made = eventually("an answer", Duration::from_secs(40), async || {
            let answer = client.post_once("/v1/test/theses", &request(said), said).await;
            (answer.status == 201).then(|| answer.json())
        })
        .await;
        note(&written, said.clone(), &made);
    }

    let acknowledged = std::mem::take(&mut written.lock().unwrap().acknowledged);
    println!("{} acknowledged, {} after a repetition", acknowledged.len(), in_doubt.len());
    assert!(acknowledged.len() > KILLS * WRITERS);
    let theses = client.all("/v1/theses?handle=survivor&limit=100").await;
    let events = client.all("/v1/events?types=thesis.created&handle=survivor&limit=100").await;
    let listed: HashMap<&str, &str> = theses.iter().map(|row| (text(row, "id"), text(row, "text"))).collect();
    let evented: HashMap<&str, &str> =
        events.iter().map(|row| (text(&row["data"], "thesis_id"), text(row, "id"))).collect();
    // No thesis twice, none without an event, no event twice or without its thesis.
    assert_eq!((listed.len(), evented.len()), (theses.len(), events.len()));
    assert_eq!(theses.len(), events.len());
    assert!(ids(&theses).iter().all(|id| evented.contains_key(id)));
    for (said, (thesis, event)) in &acknowledged {
        assert_eq!(listed.get(thesis.as_str()), Some(&said.as_str()));
        assert_eq!(evented.get(thesis.as_str()), Some(&event.as_str()));
    }
    // What could be repeated exists once, however often it was tried.
    let mut texts: Vec<&str> = listed.values().copied().collect();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), theses.len());
    assert_eq!(client.all("/v1/theses?token=CRASH&limit=100").await, theses);

    for dataset in ["sandbox".to_owned(), project.dataset(), "control".to_owned()] {
        let log = service.check_log(&dataset).await;
        assert_eq!((log.gaps, log.duplicates, log.entries), (0, 0, log.head), "{dataset}: {log:?}");
    }

    eventually("every delivery", Duration::from_secs(40), async || {
        let received = receiver.received();
        let arrived: std::collections::HashSet<&str> =
            received.iter().map(|received| received.header("service-event-id")).collect();
        evented.values().all(|event| arrived.contains(event)).then_some(())
    })
    .await;
    for received in receiver.received() {
        received.verify(text(&webhook, "secret"));
        assert!(evented.contains_key(text(&received.event()["data"], "thesis_id")));
    }
}
