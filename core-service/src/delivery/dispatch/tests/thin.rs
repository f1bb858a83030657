//! Thin payloads.

use super::*;

#[tokio::test(start_paused = true)]
async fn one_that_cannot_be_made_is_not_sent_whole() {
    let bench = Bench::new().await;
    let thin = Webhook { payload: Webhook::THIN, ..bench.webhook("wh_1").await };
    bench.change(ControlChange::Webhook(thin)).await;
    let (_place, mut claims) = bench.core.dispatcher.join(8);
    let now_ms = bench.core.shared.clock.now_ms();
    let body = Bytes::from_static(b"{\"text\":\"secret\"}");
    let delivery = Delivery {
        id: delivery_id("wh_1", now_ms, &["no event"]),
        webhook_id: "wh_1".to_owned(),
        event_id: "evt_1".to_owned(),
        event_type: EventType::ThesisCreated.into(),
        body: body.to_vec(),
        status: Status::Pending.into(),
        next_attempt_at: Some(now_ms),
        created_at: now_ms,
        is_test: true,
        ..Delivery::default()
    };
    let pending = PendingDelivery { delivery, body, erasure: 0, epoch: 0 };
    bench.core.shared.create_deliveries(vec![pending], true, now_ms).await.unwrap();
    bench.becomes("evt_1", "wh_1", Status::Failed).await;
    assert!(claims.try_recv().is_err());
}
