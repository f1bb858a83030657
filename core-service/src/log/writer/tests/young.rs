//! A writer that has just started.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_young_writer_knows_from_the_log_when_a_token_last_got_derived_events() {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 1).await;
    let dataset = Dataset::of_project("young");
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

#[tokio::test(start_paused = true)]
async fn entries_of_a_fast_clock_delay_the_events_of_no_other_token() {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 1).await;
    let (dataset, ahead) = (Dataset::of_project("ahead"), 3_600_000);
    let name = dataset.to_string();
    // More entries than a young writer reads.
    let created_at = clock_now(&core) + ahead;
    let head = 4_500_u64;
    for first in (1..=head).step_by(100) {
        let bodies: Vec<bytes::Bytes> =
            (first..first + 100).map(|seq| Entry::filler(seq, created_at).encode_to_vec().into()).collect();
        let batch = u128::from(first).to_be_bytes();
        let appended = core.shared.log.append(&name, first - 1, batch, &bodies).await.unwrap();
        assert_eq!(appended, AppendOutcome::Done);
    }
    core.shared.backend.apply(vec![checkpoint_change(&name, DERIVED, head)]).await.unwrap();
    let mut pending = PendingDerivations::new(Arc::clone(&core.shared), name);
    pending.load(head).await.unwrap();
    let entry = entry(&core, "next".to_owned(), created(&new_thesis(&dataset, 1)));
    pending.apply_entries(&[SequencedEntry { seq: head + 1, entry }], 0);
    assert_eq!(pending.time_until_due(), Some(Duration::from_millis(DERIVE_EVERY_MS.unsigned_abs())));
}
