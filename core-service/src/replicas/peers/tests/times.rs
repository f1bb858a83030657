//! Owners of logs close times for the other cores.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_closes_a_time() {
    let backend = backend();
    let (one, other) = (start(backend.clone(), 1).await, start(backend.clone(), 2).await);
    linked(&[&one, &other]).await;
    let dataset = owned_by(&other);
    let written = one.core.datasets.create_thesis(&dataset, new_thesis(&dataset, 1)).await.unwrap();
    let at = written.entry.created_at + HOUR_MS;
    let closed = one.core.datasets.close_time(&dataset, at).await.unwrap();
    let log = one.core.shared.log.entries(dataset.name(), 0, closed).await.unwrap();
    assert!(log.iter().any(|of| of.entry.kind.is_none() && of.entry.created_at > at));
    let progress = one.core.datasets.progress();
    let of_it = progress.iter().find(|progress| progress.dataset == dataset).unwrap();
    assert_eq!(of_it.fanned_out, None, "this core does not write the log");
    // Without the owner, each core closes the time itself.
    other.kill();
    let closed = one.core.datasets.close_time(&dataset, at + HOUR_MS).await.unwrap();
    let log = one.core.shared.log.entries(dataset.name(), 0, closed).await.unwrap();
    assert!(log.last().unwrap().entry.created_at > at + HOUR_MS);
    one.kill();
}
