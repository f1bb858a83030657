//! Deliveries of an event whose text is erased before they are sent.

use super::*;
use crate::{
    domain::observation::{Observation, ObservedProfile, ObservedThesis, ObservedThing, ObservedToken},
    operations::{admin::erase_thesis::erase_thesis, replay_delivery::replay},
};

const SECRET: &str = "my name and address";

impl Bench {
    /// Observes a thing of live data. Returns the id of its thesis.
    async fn observe(&self, revision: i64, seen: ObservedThing) -> String {
        let observation = Observation { observed_at: revision, revision: Some(revision), seen };
        self.core.datasets.observe_here(&Dataset::Live, observation).await.unwrap().id
    }

    /// Posts a thesis with the text that is to be erased. Returns its id.
    async fn post_secret(&self) -> String {
        let (upstream_id, handle) = ("u".to_owned(), "ann".to_owned());
        let profile = ObservedProfile { upstream_id, handle, ..ObservedProfile::default() };
        let (chain, address, symbol) = ("base".to_owned(), "0xa".to_owned(), "RUN".to_owned());
        let token = ObservedToken { chain, address, symbol, ..ObservedToken::default() };
        let (upstream_id, text) = ("post".to_owned(), SECRET.to_owned());
        let (created_at, updated_at) = (1_000, 1_000);
        let thesis =
            ObservedThesis { upstream_id, profile, token, text, created_at, updated_at, ..ObservedThesis::default() };
        self.observe(1, ObservedThing::Thesis(Box::new(thesis))).await
    }

    /// Deletes that thesis, and erases its text.
    async fn erase(&self, id: &str) {
        self.observe(2, ObservedThing::Deletion("post".to_owned())).await;
        let (dataset, reason) = ("live".to_owned(), "the author asked".to_owned());
        let message = thesis_proto::v1::EraseThesisRequest { dataset, id: id.to_owned(), reason };
        assert_eq!(erase_thesis(&self.core, &Actor::operator(None), &message).await.unwrap().entries, 2);
    }
}

fn text(body: &[u8]) -> String {
    let event: serde_json::Value = serde_json::from_slice(body).unwrap();
    event["data"]["text"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_retry_and_a_replay_are_sent_without_an_erased_text() {
    let bench = Bench::new().await;
    bench.live_webhook("wh_1").await;
    bench.clock.advance(10);
    let dispatcher = &bench.core.dispatcher;
    let (_place, mut claims) = dispatcher.join(8);
    let thesis_id = bench.post_secret().await;
    let first = bench.next_claim(&mut claims).await;
    assert_eq!(text(&first.body), SECRET);
    bench.report(&first, 500).await;
    // It is sent again before the erasure, and its body is kept for what follows.
    let replayed = replay(&bench.core, &first.delivery, bench.core.shared.clock.now_ms(), "before").await.unwrap();
    assert_eq!((replayed.body.len(), replayed.seq), (0, first.delivery.seq));
    let second = bench.next_claim(&mut claims).await;
    assert_eq!((second.delivery.id.as_str(), text(&second.body).as_str()), (replayed.id.as_str(), SECRET));
    bench.report(&second, 500).await;

    bench.erase(&thesis_id).await;
    for delivery in [&*first.delivery, &replayed] {
        assert_eq!(text(&dispatcher.body_of(delivery).await.unwrap()), "", "in the delivery log");
    }
    replay(&bench.core, &first.delivery, bench.core.shared.clock.now_ms(), "after").await.unwrap();
    assert_eq!(text(&bench.next_claim(&mut claims).await.body), "", "the new replay");
    bench.clock.advance(60_000);
    for _ in 0..2 {
        assert_eq!(text(&bench.next_claim(&mut claims).await.body), "", "the retries");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delivery_in_memory_is_sent_without_an_erased_text() {
    let mut bench = Bench::new().await;
    bench.live_webhook("wh_1").await;
    bench.clock.advance(10);
    let (_place, mut claims) = bench.core.dispatcher.join(1);
    bench.post_in(Dataset::Live).await;
    let other = bench.next_claim(&mut claims).await;
    // The worker has no room for a second one.
    let thesis_id = bench.post_secret().await;
    bench.until(async || bench.core.dispatcher.queue_metrics().normal.ready == 1).await;
    bench.erase(&thesis_id).await;
    bench.report(&other, 200).await;
    let claimed = bench.next_claim(&mut claims).await;
    let delivered: serde_json::Value = serde_json::from_slice(&claimed.body).unwrap();
    assert_eq!((&delivered["data"]["thesis_id"], text(&claimed.body)), (&thesis_id.into(), String::new()));
}
