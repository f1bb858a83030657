//! A customer with a steady load, streams and a webhook.

use std::{sync::Arc, time::Duration};

use tokio::{task::JoinHandle, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{load::Load, watch::Watch};
use crate::harness::{Client, Ledger, Project, Receiver, Service};

/// Least share of requests that are answered other than by 5xx once one retry was allowed.
const ANSWERED: f64 = 0.999;
/// Longest wait for the owed events at the end.
const REST: Duration = Duration::from_secs(120);

/// A customer who has begun.
pub(super) struct Customer {
    project: Project,
    client: Client,
    receiver: Receiver,
    watches: Vec<Watch>,
    pub(super) load: Arc<Load>,
    running: JoinHandle<()>,
    end: CancellationToken,
}

impl Customer {
    /// Begins this number of writes and reads a second, after a warm-up with a tenth of them. One in `bare_every`
    /// writes has no idempotency key.
    pub(super) async fn start(
        service: &Service,
        (writes, reads): (u32, u32),
        warm_up: Duration,
        streams: usize,
        bare_every: u64,
    ) -> Self {
        let receiver = Receiver::start().await;
        let project = service.project_on("huge").await;
        let client = project.test().await;
        client.webhook(&receiver.url, &["thesis.created"]).await;
        let mut watches = Vec::new();
        for _ in 0..streams {
            watches.push(Watch::start(&client).await);
        }
        let load = Load::new(client.clone(), bare_every);
        let first = client.post_once("/v1/test/theses", &Ledger::request("first"), "first").await.ok(201);
        load.ledger.acknowledge("first", &first);
        for watch in &watches {
            watch.first().await;
        }
        let warm = CancellationToken::new();
        let warming = tokio::spawn(Arc::clone(&load).run(writes.div_ceil(10), reads.div_ceil(10), warm.clone()));
        sleep(warm_up).await;
        warm.cancel();
        warming.await.unwrap();
        load.tally.begin("warming up");
        let end = CancellationToken::new();
        let running = tokio::spawn(Arc::clone(&load).run(writes, reads, end.clone()));
        Self { project, client, receiver, watches, load, running, end }
    }

    /// Ends the load, and demands all that the service promised; gives how many requests were sent, and failed twice.
    pub(super) async fn judge(self, service: &Service) -> (usize, usize) {
        self.end.cancel();
        self.running.await.unwrap();
        let total = self.load.tally.total();
        service.say_troubles();
        service.is_ready().await;
        let ledger = &self.load.ledger;
        ledger.complete(&self.client).await;
        let events = ledger.judge(service, &self.project, &self.client).await;
        for watch in self.watches {
            watch.saw(&events, REST).await;
        }
        let again = ledger.delivered(&self.receiver, &events, REST).await;
        assert!(again * 100 < events.len(), "a hundredth or more was delivered twice");
        total
    }

    /// The same; demands too that nearly all requests were answered.
    pub(super) async fn judge_answers(self, service: &Service) {
        let (sent, failed) = self.judge(service).await;
        #[expect(clippy::cast_precision_loss, reason = "a share")]
        let answered = 1.0 - failed as f64 / sent as f64;
        println!("{:.3} % were answered other than by 5xx once one retry was allowed", 100.0 * answered);
        assert!(answered >= ANSWERED);
    }
}
