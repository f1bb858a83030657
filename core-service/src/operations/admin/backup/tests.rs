//! A backup that its caller reads too slowly, and its audit rows.

use super::*;
use crate::{
    tables::audit,
    tests::harness::{ManualClock, core, memory, shared_memory},
};

const REQUEST: v1::BackupRequest = v1::BackupRequest {};

/// Counts the audit rows of backups.
async fn audited_backups(core: &Core) -> usize {
    let now_ms = core.shared.clock.now_ms();
    let rows = audit::list(&core.shared.backend, None, None, now_ms, 100).await.unwrap();
    rows.iter().filter(|row| row.act.action == "store.backup_begun" && row.act.subject == "store").count()
}

#[tokio::test]
async fn a_backup_ends_after_six_hours_and_the_next_one_begins() {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 0).await;
    let actor = Actor::operator(None);
    let mut pieces = Box::pin(backup(&core, &actor, &REQUEST).await.unwrap());
    clock.advance(6 * HOUR_MS);
    pieces.next().await.unwrap().unwrap();
    let busy = backup(&core, &actor, &REQUEST).await.err().unwrap();
    assert_eq!(busy.api.code, ErrorCode::BackupInProgress);
    assert_eq!(audited_backups(&core).await, 1);
    clock.advance(1);
    let ended = pieces.next().await.unwrap().unwrap_err();
    assert_eq!(ended.api.code, ErrorCode::ServiceUnavailable);
    assert!(ended.api.message.contains("not whole after 6 hours"), "{ended}");
    drop(pieces);
    let again = async {
        loop {
            match backup(&core, &actor, &REQUEST).await {
                Err(error) if error.api.code == ErrorCode::BackupInProgress => tokio::task::yield_now().await,
                begun => break begun.map(drop).unwrap(),
            }
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), again).await.expect("the place is free again");
    assert_eq!(audited_backups(&core).await, 2);
}

#[tokio::test]
async fn a_backup_that_cannot_begin_is_not_told() {
    let clock = ManualClock::new();
    let core = core(shared_memory(&clock), &clock, 0).await;
    let refused = backup(&core, &Actor::operator(None), &REQUEST).await.err().unwrap();
    assert_eq!((refused.api.code, audited_backups(&core).await), (ErrorCode::BackupUnsupported, 0));
}
