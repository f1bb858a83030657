//! Commands and counts beside batches under way: which of them wait for the rows.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_count_in_memory_does_not_wait_for_rows_under_way() {
    let bench = Bench::new(false).await;
    let (token, at) = (bench.thesis(2).token.id, 100);
    let count = async || {
        let counts = bench.core.datasets.count_here(&bench.dataset, &token, at).await.unwrap();
        counts.expect("what is projected is in memory").last_24h
    };
    // All are on one token.
    for number in [2, 4] {
        bench.create(number).await.unwrap().unwrap();
    }
    bench.gate.set(RowWrites::Wait);
    let created = bench.create(6);
    until(|| bench.gate.appends() == 3).await;
    assert_eq!(count().await, 2);
    bench.gate.set(RowWrites::Pass);
    created.await.unwrap().unwrap();
    assert_eq!(count().await, 3);
}
