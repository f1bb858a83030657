//! Deliveries that were pending when no core ran for hours.

use super::{
    takeover::{pass, unstored},
    *,
};
use crate::{
    domain::window::HOUR_MS,
    tables::queue::{MARKED_MINUTES, POSTPONED_MINUTES, minute_of},
};

#[tokio::test(start_paused = true)]
async fn what_was_pending_before_an_outage_is_sent_after_it() {
    // The marks of due rows may have expired after the first time, and the postponed ones too after the second.
    const { assert!(MARKED_MINUTES < 7 * 60 && POSTPONED_MINUTES > 7 * 60 && POSTPONED_MINUTES < 20 * 60) };
    for hours in [7, 20] {
        be_away(hours).await;
    }
}

/// Stops a core that has a backlog of one webhook, and rows of a disabled one. Another core starts hours later.
async fn be_away(hours: i64) {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let former = Bench::on(Arc::clone(&backend), Arc::clone(&clock)).await;
    let created_at = clock_now(&former.core);
    let waiting = former.disabled_webhook("wh_disabled", created_at).await;
    former.webhook("wh_slow").await;
    let backlog = [unstored("wh_slow", created_at), unstored("wh_slow", created_at + 1)];
    let (deliveries, all) = (&former.core.shared.deliveries, [&waiting, &backlog[0], &backlog[1]]);
    deliveries.create(&all, created_at).await.unwrap();
    // Its worker never reports.
    let (place, claims) = former.core.dispatcher.join(1);
    pass(&former, 6 * 60).await;
    for delivery in all {
        let done = deliveries.queue.done(shard_of(&delivery.webhook_id)).await.unwrap();
        assert!(done.is_some_and(|done| done > minute_of(created_at)), "{done:?}");
    }
    former.core.stop.cancel();
    // Its tasks end before hours pass at once: a last heartbeat would say that it ran until then.
    former.core.tasks.close();
    former.core.tasks.wait().await;
    drop((place, claims));
    clock.advance(hours * HOUR_MS);
    backend.sweep(clock_now(&former.core)).await.unwrap();

    let next = Bench { core: core(backend, &clock, 2).await, clock, posted: 0 };
    let (_place, mut claims) = next.core.dispatcher.join(8);
    let sent = [next.next_claim(&mut claims).await, next.next_claim(&mut claims).await];
    let mut sent = sent.map(|claimed| claimed.delivery.id.clone());
    sent.sort_unstable();
    let mut expected = backlog.map(|delivery| delivery.id);
    expected.sort_unstable();
    assert_eq!(sent, expected, "after {hours} hours");
    assert!(next.stays_away(&mut claims).await, "sent while it is disabled");
    next.set_status("wh_disabled", WebhookStatus::Enabled).await;
    assert_eq!(next.next_claim(&mut claims).await.delivery.id, waiting.id, "after {hours} hours");
}
