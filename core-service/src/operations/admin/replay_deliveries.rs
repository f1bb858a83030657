//! Replays the deliveries of a webhook for an operator.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::{Stream, stream::try_unfold};
use thesis_proto::{error::ErrorCode, v1};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep};

use super::{invalid, time};
use crate::{
    delivery::rule::DeliveryRule,
    domain::{
        account::Actor,
        delivery::{Delivery, Status},
        id,
        id_kind::unknown_to_operator,
    },
    error::{Error, Result},
    operations::replay_delivery,
    service::Core,
    tables::deliveries::LogPosition,
};

/// Interval between two replays: 50 per second.
const PACE: Duration = Duration::from_millis(20);
/// Interval between two progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// Deliveries of one read.
const PAGE: usize = 100;
/// Attempts of one replay while the store does not answer.
const TRIES: u32 = 3;
/// Interval between two attempts of one replay.
const PAUSE: Duration = Duration::from_secs(1);

/// Replays the finished deliveries of a webhook, newest first, while the caller reads the progress.
pub async fn replay_webhook_deliveries(
    core: &Arc<Core>,
    _: &Actor,
    message: &v1::ReplayWebhookDeliveriesRequest,
) -> Result<impl Stream<Item = Result<v1::ReplayWebhookDeliveriesResponse>> + Send + use<>> {
    let replay = DeliveryReplay::begin(core, message).await?;
    Ok(try_unfold(
        replay,
        |mut replay| async move { Ok::<_, Error>(replay.next().await?.map(|report| (report, replay))) },
    ))
}

struct DeliveryReplay {
    core: Arc<Core>,
    webhook_id: String,
    /// Only deliveries created since then, in unix milliseconds.
    since: i64,
    /// Only deliveries with this final status.
    status: Option<i32>,
    /// The id of this run: the ids of its replays derive from it.
    run: String,
    /// Start of the next page of the log.
    after: Option<LogPosition>,
    /// Deliveries that were read and not yet examined.
    rows: VecDeque<Delivery>,
    pace: Interval,
    progress: v1::ReplayWebhookDeliveriesResponse,
}

impl DeliveryReplay {
    async fn begin(core: &Arc<Core>, request: &v1::ReplayWebhookDeliveriesRequest) -> Result<Self> {
        let since = time("since", request.since.as_ref())?;
        let status = match v1::DeliveryStatus::try_from(request.status) {
            Ok(v1::DeliveryStatus::Unspecified) => None,
            Ok(v1::DeliveryStatus::Delivered) => Some(i32::from(Status::Delivered)),
            Ok(v1::DeliveryStatus::Failed) => Some(i32::from(Status::Failed)),
            _ => return Err(invalid("status", "must be delivered or failed")),
        };
        core.shared.control.refresh().await?;
        serving(core, &request.webhook_id, core.shared.clock.now_ms())?;
        let mut pace = interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            core: Arc::clone(core),
            webhook_id: request.webhook_id.clone(),
            since,
            status,
            run: id::random("run_", core.shared.ids.as_ref()),
            after: None,
            rows: VecDeque::new(),
            pace,
            progress: v1::ReplayWebhookDeliveriesResponse::default(),
        })
    }

    /// Works for about a second and returns the progress; none after the last report.
    async fn next(&mut self) -> Result<Option<v1::ReplayWebhookDeliveriesResponse>> {
        if self.progress.done {
            return Ok(None);
        }
        let report_at = Instant::now() + PROGRESS_INTERVAL;
        while Instant::now() < report_at {
            let Some(delivery) = self.row().await? else {
                self.progress.done = true;
                break;
            };
            self.progress.looked_at += 1;
            if self.is_wanted(&delivery) {
                self.pace.tick().await;
                self.core.run_to_end(replay(Arc::clone(&self.core), delivery, self.run.clone())).await?;
                self.progress.replayed += 1;
            }
        }
        Ok(Some(self.progress))
    }

    /// Reads the next delivery of the log, with its effective status; none after the oldest requested one.
    async fn row(&mut self) -> Result<Option<Delivery>> {
        // Rows of a page may all be damaged.
        while self.rows.is_empty() {
            let (deliveries, now_ms) = (&self.core.shared.deliveries, self.core.shared.clock.now_ms());
            let page = deliveries.page(&self.webhook_id, self.after.as_ref(), now_ms, PAGE).await?;
            let serving = serving(&self.core, &self.webhook_id, now_ms)?;
            if page.is_empty() {
                break;
            }
            for (position, delivery) in page {
                self.after = Some(position);
                self.rows.extend(delivery.map(|delivery| serving.counted(delivery)));
            }
        }
        Ok(self.rows.pop_front().filter(|delivery| delivery.created_at >= self.since))
    }

    fn is_wanted(&self, delivery: &Delivery) -> bool {
        delivery.is_over() && delivery.replay_of.is_none() && self.status.is_none_or(|status| status == delivery.status)
    }
}

/// Reads how the deliveries of a webhook of any project are served.
fn serving(core: &Core, webhook_id: &str, now_ms: i64) -> Result<DeliveryRule> {
    let state = core.shared.control.state();
    let webhook =
        state.webhook(webhook_id).ok_or_else(|| unknown_to_operator(ErrorCode::WebhookNotFound, webhook_id))?;
    Ok(DeliveryRule::of(&state, webhook, now_ms))
}

/// Replays a delivery. Its seed and its time make it idempotent, so that retries create it once.
async fn replay(core: Arc<Core>, original: Delivery, run: String) -> Result<()> {
    let (seed, now_ms) = (format!("{run} {}", original.id), core.shared.clock.now_ms());
    let mut tries = 1;
    loop {
        match replay_delivery::replay(&core, &original, now_ms, &seed).await {
            Err(error) if tries < TRIES && error.api.code.http_status() >= 500 => {
                tries += 1;
                sleep(PAUSE).await;
            }
            replayed => return replayed.map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt as _;
    use thesis_proto::time::from_millis;

    use super::*;
    use crate::{
        domain::{
            control::{ControlChange, Webhook},
            delivery::{Attempt, EventRef, delivery_id},
        },
        tables::deliveries::DeliveryChange,
        tests::harness::{ManualClock, NOON, core, damage_delivery, shared_memory},
    };

    const WEBHOOK: &str = "wh_1";

    #[tokio::test(start_paused = true)]
    async fn a_page_of_damaged_deliveries_does_not_end_a_replay() {
        let clock = ManualClock::new();
        let core = core(shared_memory(&clock), &clock, 1).await;
        let project_id = core.shared.control.state().projects().next().unwrap().id.clone();
        let webhook = Webhook { id: WEBHOOK.to_owned(), project_id, status: Webhook::ENABLED, ..Webhook::default() };
        let change = || vec![ControlChange::Webhook(webhook.clone())];
        core.shared.control.change(Actor::service().does("test"), |_| Ok((change(), ()))).await.unwrap();
        let oldest = NOON - i64::try_from(PAGE).unwrap();
        for created_at in oldest..=NOON {
            let id = delivery_id(WEBHOOK, created_at, &["original"]);
            let before = Delivery::pending(id, WEBHOOK.to_owned(), created_at, EventRef::default());
            core.shared.deliveries.create(&[&before], NOON).await.unwrap();
            if created_at > oldest {
                damage_delivery(&core.shared.backend, &before.id).await;
                continue;
            }
            let after = before.after(Attempt { number: 1, response_status: Some(410), ..Attempt::default() }, NOON);
            let change = DeliveryChange { before, after, epoch: 1 };
            core.shared.deliveries.advance(&[change], NOON).await.unwrap().remove(0).unwrap();
        }
        let since = Some(from_millis(oldest));
        let request = v1::ReplayWebhookDeliveriesRequest { webhook_id: WEBHOOK.to_owned(), since, status: 0 };
        let reports = replay_webhook_deliveries(&core, &Actor::operator(None), &request).await.unwrap();
        let reports: Vec<_> = reports.try_collect().await.unwrap();
        let last = reports.last().unwrap();
        assert_eq!((last.looked_at, last.replayed, last.done), (1, 1, true));
    }
}
