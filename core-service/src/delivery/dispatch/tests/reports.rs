//! Reports that meet trouble, each beside a sound one.

use super::*;

/// A webhook, two attempts that are out, and a report of each.
async fn two_reported(bench: &mut Bench) -> ([String; 2], Vec<Reported>, WorkerPlace) {
    bench.webhook("wh_1").await;
    let (place, mut claims) = bench.core.dispatcher.join(8);
    let (mut events, mut reports) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        events.push(bench.post().await);
        let delivery = claims.recv().await.unwrap().delivery.id.clone();
        let attempt = Attempt { number: 1, response_status: Some(500), ..Attempt::default() };
        reports.push(Reported { delivery, attempt });
    }
    (events.try_into().unwrap(), reports, place)
}

#[tokio::test(start_paused = true)]
async fn a_write_that_fails_loses_no_other_report() {
    let clock = ManualClock::new();
    let backend = SharedMemory::new(&clock);
    let mut bench = Bench::on(Arc::<SharedMemory>::clone(&backend), clock).await;
    let ([refused, sound], reports, _place) = two_reported(&mut bench).await;
    backend.refuse(Some(reports[0].delivery.clone()));
    assert!(bench.core.dispatcher.report(reports.clone()).await.is_err());
    assert_eq!(bench.delivery(&refused, "wh_1").await.attempts_made(), 0);
    assert_eq!(bench.delivery(&sound, "wh_1").await.attempts_made(), 1);
    backend.refuse(None);
    bench.core.dispatcher.report(reports).await.unwrap();
    for event in [refused, sound] {
        assert_eq!(bench.delivery(&event, "wh_1").await.attempts_made(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_row_holds_up_no_other_report() {
    let (mut bench, other) = Bench::beside_another().await;
    let (_, reports, _place) = two_reported(&mut bench).await;
    let damaged = Change {
        table: &schema::DELIVERY,
        key: key![&reports[0].delivery],
        version: 1_000,
        body: Some(Bytes::from_static(b"\xff")),
        ttl: None,
    };
    bench.core.shared.backend.apply(vec![damaged]).await.unwrap();
    // A core that did not hand them out reads both rows.
    let sound = reports[1].delivery.clone();
    other.dispatcher.report(reports).await.unwrap();
    assert_eq!(other.shared.deliveries.get(&sound).await.unwrap().unwrap().attempts_made(), 1);
}
