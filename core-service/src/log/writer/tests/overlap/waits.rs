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

#[tokio::test(start_paused = true)]
async fn repeats_of_a_thesis_under_way_wait_in_bounded_number() {
    for exclusive in [false, true] {
        let bench = Bench::new(exclusive).await;
        let mut created = bench.create_held(1).await;
        // Each is a batch without entries.
        for _ in 0..8 {
            created.push(bench.create(1));
            pass_time().await;
        }
        created.push(bench.create(2));
        pass_time().await;
        assert_eq!(bench.gate.appends(), 1);
        bench.gate.set(RowWrites::Pass);
        let seqs = join_all(created).await.into_iter().map(|created| created.unwrap().unwrap().seq);
        assert_eq!(seqs.collect::<Vec<_>>(), [1, 1, 1, 1, 1, 1, 1, 1, 1, 2]);
    }
}
