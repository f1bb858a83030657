//! A writer that has just started.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_young_writer_knows_from_the_log_when_a_token_last_got_derived_events() {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 1).await;
    let dataset = Dataset::Project("young".to_owned());
    let new = new_thesis(&dataset, 1);
    core.datasets.create_here(&dataset, new.clone()).await.unwrap();
    let head = until_derived(&core, &dataset, 1).await.len() as u64;
    let time_until_due = async || {
        let mut pending = PendingDerivations::new(Arc::clone(&core.shared), dataset.to_string());
        pending.load(head).await.unwrap();
        let entry = entry(&core, "next".to_owned(), created(&new));
        pending.apply_entries(&[SequencedEntry { seq: head + 1, entry }], 0);
        pending.time_until_due()
    };
    assert_eq!(time_until_due().await, Some(Duration::from_millis(DERIVE_EVERY_MS.unsigned_abs())));
    clock.advance(DERIVE_EVERY_MS);
    assert_eq!(time_until_due().await, Some(Duration::ZERO));
}
