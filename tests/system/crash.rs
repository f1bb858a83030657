//! `kill -9` at random moments under writes: acknowledged writes are there once, and were delivered. Alerts over them
//! fire once.

use std::{sync::Arc, time::Duration};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::{Client, Dice, Ledger, Receiver, SOON, Service, eventually, text};

const KILLS: usize = 22;
const WRITERS: usize = 4;
/// Number of alerts, and the number of theses between their thresholds. The writers cross all of them.
const ALERTS: u32 = 20;
const ALERT_STEP: u32 = 4;

/// Writes until the service is gone; each second write can be repeated safely.
async fn write(client: Client, name: String, ledger: Arc<Ledger>) {
    for number in 0.. {
        let said = format!("{name} {number}");
        let mut sending = client.request(Method::POST, "/v1/test/theses").json(&Ledger::request(&said));
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
            Ok(made) => ledger.acknowledge(&said, &made),
            Err(_) => {
                if repeatable {
                    ledger.doubt(&said);
                }
                return;
            }
        }
    }
}

/// The numbers of theses above which alerts fire.
fn thresholds() -> impl Iterator<Item = u32> {
    (1..=ALERTS).map(|number| number * ALERT_STEP)
}

/// Creates the alerts, after the thesis that creates their token.
async fn create_alerts(client: &Client, ledger: &Ledger) {
    let said = "the first";
    let made = client.post("/v1/test/theses", &Ledger::request(said)).await.ok(201);
    ledger.acknowledge(said, &made);
    for above in thresholds() {
        let body = json!({"name": "crash", "token": "CRASH", "metric": "thesis_count_24h", "above": above});
        client.post("/v1/alerts", &body).await.ok(201);
    }
}

/// Each alert has fired once, at the first thesis above its threshold.
async fn judge_alerts(client: &Client) {
    let fired = eventually("events of alerts", SOON, async || {
        let found = client.all("/v1/events?types=alert.firing,alert.resolved&limit=100").await;
        (found.len() >= ALERTS as usize).then_some(found)
    });
    let number = |event: &Value, field: &str| event["data"][field].as_f64().unwrap();
    let mut fired: Vec<(f64, f64)> =
        fired.await.iter().map(|event| (number(event, "threshold"), number(event, "value"))).collect();
    fired.sort_by(|one, other| one.0.total_cmp(&other.0));
    let expected = thresholds().map(|above| (f64::from(above), f64::from(above + 1)));
    assert_eq!(fired, expected.collect::<Vec<_>>());
}

#[tokio::test]
async fn what_was_acknowledged_survives() {
    let mut dice = Dice::new();
    let mut service = Service::embedded(|setup| setup);
    let receiver = Receiver::start().await;
    let project = service.project_on("huge").await;
    let client = project.test().await;
    let webhook = client.webhook(&receiver.url, &["thesis.created"]).await;
    let ledger = Arc::<Ledger>::default();
    create_alerts(&client, &ledger).await;
    for kill in 0..KILLS {
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            writers.spawn(write(client.clone(), format!("{kill}.{writer}"), Arc::clone(&ledger)));
        }
        let wanted = (kill + 1) * WRITERS;
        eventually("acknowledgements", SOON, async || (ledger.len() > wanted).then_some(())).await;
        tokio::time::sleep(Duration::from_millis(20 + dice.roll(400))).await;
        service.processes[0].signal("KILL");
        writers.join_all().await;
        service.kill_and_start(0).await;
    }
    ledger.complete(&client).await;
    assert!(ledger.len() > KILLS * WRITERS);
    let events = ledger.judge(&service, &project, &client).await;
    let again = ledger.delivered(&receiver, &events, Duration::from_secs(40)).await;
    // Deliveries under way when the process died; `tests/soak` says their share.
    assert!(again <= KILLS * WRITERS);
    judge_alerts(&client).await;
    for received in receiver.received() {
        received.verify(text(&webhook, "secret"));
    }
}
