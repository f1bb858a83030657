//! Places of slow endpoints.

use super::*;

#[tokio::test(start_paused = true)]
async fn endpoints_that_fail_share_a_quarter_of_the_places() {
    let mut bench = Bench::new().await;
    for webhook in ["wh_dead_1", "wh_dead_2"] {
        bench.webhook(webhook).await;
    }
    let (place, mut claims) = bench.core.dispatcher.join(8);
    for _ in 0..3 {
        bench.post().await;
    }
    for _ in 0..6 {
        bench.report(&claims.recv().await.unwrap(), 500).await;
    }
    // Both are slow now, and have much to do: two of eight places are theirs.
    for _ in 0..10 {
        bench.post().await;
    }
    let held = [claims.recv().await.unwrap(), claims.recv().await.unwrap()];
    assert!(bench.stays_away(&mut claims).await, "a third place");
    bench.webhook("wh_well").await;
    bench.clock.advance(1);
    let event = bench.post().await;
    let claimed = claims.recv().await.unwrap();
    assert_eq!((claimed.webhook.id.as_str(), &claimed.delivery.event_id), ("wh_well", &event));
    // A success ends it.
    bench.report(&held[0], 200).await;
    let well = claims.recv().await.unwrap();
    assert_eq!(well.webhook.id, held[0].webhook.id);
    let next = claims.recv().await.unwrap();
    assert_eq!(next.webhook.id, held[0].webhook.id, "more than the lane has");
    drop(place);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_hangs_gets_nothing_more_from_the_healthy_lane() {
    let mut bench = Bench::new().await;
    bench.webhook("wh_hangs").await;
    let (_place, mut claims) = bench.core.dispatcher.join(16);
    bench.post().await;
    claims.recv().await.unwrap();
    bench.clock.advance(1_001);
    for _ in 0..10 {
        bench.post().await;
    }
    for _ in 0..4 {
        claims.recv().await.unwrap();
    }
    assert!(bench.stays_away(&mut claims).await, "more than the slow lane has");
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_gets_more_places_as_it_answers() {
    let mut bench = Bench::new().await;
    bench.webhook("wh_busy").await;
    let (_place, mut claims) = bench.core.dispatcher.join(2 * MAX_OUT_PER_WEBHOOK);
    for _ in 0..3 * MAX_OUT_PER_WEBHOOK {
        bench.post().await;
    }
    let mut places = MIN_OUT_PER_WEBHOOK;
    while places <= MAX_OUT_PER_WEBHOOK {
        let mut out = Vec::new();
        while out.len() < places {
            out.push(claims.recv().await.unwrap());
        }
        assert!(bench.stays_away(&mut claims).await, "more than {places}");
        for claimed in &out {
            bench.report(claimed, 200).await;
        }
        places *= 2;
    }
    let mut last = 0;
    while claims.try_recv().is_ok() {
        last += 1;
    }
    assert!(last <= MAX_OUT_PER_WEBHOOK, "{last}");
}

#[tokio::test(start_paused = true)]
async fn attempts_without_an_answer_leave_their_places_to_others() {
    let mut bench = Bench::new().await;
    for number in 0..4 {
        bench.webhook(&format!("wh_hangs_{number}")).await;
    }
    let (_place, mut claims) = bench.core.dispatcher.join(4);
    bench.post().await;
    for _ in 0..4 {
        claims.recv().await.unwrap();
    }
    bench.webhook("wh_well").await;
    bench.clock.advance(1);
    bench.post().await;
    assert!(bench.stays_away(&mut claims).await, "more than its capacity");
    bench.clock.advance(301);
    let next = [claims.recv().await.unwrap(), claims.recv().await.unwrap()];
    assert!(next.iter().any(|claimed| claimed.webhook.id == "wh_well"));
}

#[tokio::test(start_paused = true)]
async fn the_failures_of_a_deleted_webhook_are_forgotten() {
    let mut bench = Bench::new().await;
    for webhook in ["wh_deleted", "wh_kept"] {
        bench.webhook(webhook).await;
    }
    let (_place, mut claims) = bench.core.dispatcher.join(8);
    bench.post().await;
    for _ in 0..2 {
        bench.report(&claims.recv().await.unwrap(), 410).await;
    }
    bench.change(ControlChange::WebhookDeleted("wh_deleted".to_owned())).await;
    bench.clock.advance(60_000);
    for _ in 0..100 {
        if !bench.core.dispatcher.state.lock().remembers("wh_deleted") {
            break;
        }
        assert!(bench.stays_away(&mut claims).await);
    }
    let state = bench.core.dispatcher.state.lock();
    assert!(!state.remembers("wh_deleted") && state.remembers("wh_kept"));
}
