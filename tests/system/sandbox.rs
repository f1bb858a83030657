//! The data that the sandbox makes by itself.

use serde_json::json;

use crate::harness::{Receiver, Service, ids, text};

#[tokio::test]
async fn the_ticker_posts_in_the_sandbox() {
    let service = Service::embedded(|setup| setup.set("SVC_SANDBOX_TICK_SECONDS", "1"));
    let (one, other) = (service.test_client().await, service.test_client().await);
    let mut streams = [one.stream("").await, other.stream("").await];
    let receiver = Receiver::start().await;
    one.webhook(&receiver.url, &["thesis.created", "token.activity", "token.thesis_velocity"]).await;
    let mut first = Vec::new();
    for stream in &mut streams {
        let created = stream.next_of("thesis.created").await;
        assert_eq!((&created.data["source"], created.data.get("test")), (&json!("sandbox"), None));
        let handle = text(&created.data["data"]["profile"], "handle");
        assert!(handle.starts_with("@sbx_"), "{handle}");
        for derived in ["token.activity", "token.thesis_velocity"] {
            assert_eq!(stream.next_of(derived).await.data["source"], "sandbox");
        }
        first.push(created);
    }
    let id = text(&first[0].data["data"], "thesis_id");
    let thesis = one.get(&format!("/v1/theses/{id}")).await.ok(200);
    assert!(thesis["likes"].is_u64());
    assert!(ids(&other.all("/v1/theses?since=1h&limit=100").await).contains(&id));
    let next = streams[0].next_of("thesis.created").await;
    receiver.delivery_of(&next.data).await;
    // Live keys do not get these events.
    let live = service.project().await.live().await;
    assert!(live.all("/v1/events").await.is_empty());
}
