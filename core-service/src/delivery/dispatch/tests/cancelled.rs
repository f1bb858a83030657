//! A core reads the control log before it cancels a delivery.

use std::collections::BTreeSet;

use thesis_proto::v1;

use super::*;
use crate::{
    control::CONTROL_LOG,
    operations::admin::change_project::{approve_project, withdraw_project},
};

impl Bench {
    /// Approves the project for live access.
    pub(super) async fn approve(&self) {
        let message = v1::ApproveProjectRequest { id: PROJECT.to_owned() };
        approve_project(&self.core, &Actor::operator(None), &message).await.unwrap();
    }

    /// Withdraws the live access of the project.
    pub(super) async fn withdraw(&self) {
        let message = v1::WithdrawProjectRequest { id: PROJECT.to_owned(), reason: None };
        withdraw_project(&self.core, &Actor::operator(None), &message).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_core_that_cannot_read_control_cancels_nothing() {
    let clock = ManualClock::new();
    let backend = SharedMemory::new(&clock);
    let beside = backend.beside();
    let mut bench = Bench::on(backend, Arc::clone(&clock)).await;
    let other = core(beside.clone(), &clock, 2).await;
    bench.live_webhook("wh_live").await;
    bench.withdraw().await;
    other.shared.control.refresh().await.unwrap();

    // The other core learns neither of the approval nor of the new webhook.
    beside.refuse_reads(Some(CONTROL_LOG));
    bench.approve().await;
    bench.webhook("wh_new").await;
    bench.clock.advance(10);
    let posted = [("wh_live", bench.post_in(Dataset::Live).await), ("wh_new", bench.post().await)];
    for (webhook, event) in &posted {
        bench.becomes(event, webhook, Status::Pending).await;
    }
    let (_place, mut claims) = other.dispatcher.join(8);
    for _ in 0..100 {
        for (webhook, event) in &posted {
            assert_eq!(bench.delivery(event, webhook).await.status(), Status::Pending, "{webhook}");
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }

    beside.refuse_reads(None);
    let sent = [claims.recv().await.unwrap(), claims.recv().await.unwrap()];
    let sent = BTreeSet::from(sent.map(|claimed| claimed.delivery.event_id.clone()));
    assert_eq!(sent, BTreeSet::from(posted.map(|(_, event)| event)));
}
