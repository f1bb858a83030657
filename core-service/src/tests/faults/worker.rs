//! A worker beside the core.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use parking_lot::Mutex;

use crate::{delivery::dispatch::EndedAttempt, domain::delivery::Attempt, service::Core};

/// End of the URL of an endpoint that is gone for good.
pub(super) const GONE: &str = "/gone";

/// A worker: receives attempts, makes them, and reports each one until the report is accepted.
pub(super) async fn work(core: Arc<Core>, sent: Arc<Mutex<BTreeSet<(String, i32)>>>, first_fails: bool) {
    let (_place, mut claims) = core.dispatcher.join(8);
    let stop = core.stop.clone();
    while let Some(Some(claimed)) = stop.run_until_cancelled(claims.recv()).await {
        let number = claimed.delivery.attempt_count() + 1;
        sent.lock().insert((claimed.delivery.id.clone(), number));
        let status = if claimed.webhook.url.ends_with(GONE) {
            410
        } else if first_fails && number == 1 {
            500
        } else {
            200
        };
        let attempt = Attempt { number, response_status: Some(status), ..Attempt::default() };
        let report = EndedAttempt { delivery: claimed.delivery.id.clone(), attempt };
        while core.dispatcher.report(vec![report.clone()]).await.is_err() {
            if stop.run_until_cancelled(tokio::time::sleep(Duration::from_millis(500))).await.is_none() {
                return;
            }
        }
    }
}
