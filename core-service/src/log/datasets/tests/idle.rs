//! The requests of a core that nobody uses, and of one that follows logs.

use super::*;

fn project(number: usize) -> Dataset {
    Dataset::of_project(&format!("p{number}"))
}

/// Lets seconds pass.
async fn pass(clock: &ManualClock, seconds: usize) {
    for _ in 0..seconds {
        clock.advance(1_000);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_core_sends_few_requests_however_many_logs_it_follows() {
    const LOGS: usize = 2_000;
    const SECONDS: usize = 120;
    let clock = ManualClock::new();
    let backend = SharedMemory::new(&clock);
    let core = core(backend.clone(), &clock, 1).await;
    let mut followed = Vec::with_capacity(LOGS);
    for number in 0..LOGS {
        followed.push(core.datasets.position(&project(number)).await.unwrap());
    }
    // The writer of the sandbox rests first.
    pass(&clock, 90).await;
    let before = backend.total_partition_requests();
    pass(&clock, SECONDS).await;
    let sent = backend.total_partition_requests() - before;
    println!("{sent} requests in {SECONDS} idle seconds");
    // A core that hands out attempts reads and notes its shards beside this (`delivery/dispatch/tests/shares.rs`).
    assert!(sent <= 5 * SECONDS, "{sent} requests in {SECONDS} seconds");
    core.close().await;
}

#[tokio::test(start_paused = true)]
async fn of_the_followed_logs_only_those_that_others_write_are_read() {
    const LOGS: usize = 500;
    let clock = ManualClock::new();
    let backend = SharedMemory::new(&clock);
    // A connection of its own, which counts the requests of this core alone. The cores do not reach each other.
    let own = backend.beside();
    let (reader, writer) = (core(own.clone(), &clock, 1).await, core(backend, &clock, 2).await);
    let mut followed = Vec::with_capacity(LOGS);
    for number in 0..LOGS {
        followed.push(reader.datasets.position(&project(number)).await.unwrap());
    }
    pass(&clock, 5).await;
    let before = own.partition_requests(&schema::LOG_CHECKPOINT);
    for number in [7, 400] {
        let dataset = project(number);
        let written = writer.datasets.create_here(&dataset, new_thesis(&dataset, 1)).await.unwrap();
        until(&clock, async || *followed[number].borrow() >= written.seq).await;
    }
    pass(&clock, 20).await;
    let reads = own.partition_requests(&schema::LOG_CHECKPOINT) - before;
    println!("{reads} reads of checkpoints of {LOGS} logs");
    assert!(reads < LOGS, "{reads} reads of {LOGS} logs, of which two are written");
    reader.close().await;
    writer.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_position_whose_read_fails_is_read_again() {
    let clock = ManualClock::new();
    let backend = SharedMemory::new(&clock);
    let own = backend.beside();
    let (reader, writer) = (core(own.clone(), &clock, 1).await, core(backend, &clock, 2).await);
    let dataset = project(0);
    let position = reader.datasets.position(&dataset).await.unwrap();
    own.refuse_reads(Some(&dataset.to_string()));
    let written = writer.datasets.create_here(&dataset, new_thesis(&dataset, 1)).await.unwrap();
    // Long enough for the writer to rest and to remove its row.
    until(&clock, async || rows(&writer).await.iter().all(|row| row.dataset != dataset.to_string())).await;
    assert_eq!(*position.borrow(), 0);
    own.refuse_reads(None);
    until(&clock, async || *position.borrow() >= written.seq).await;
    reader.close().await;
    writer.close().await;
}
