//! Replays the deliveries of a webhook for an operator.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use thesis_proto::{
    error::ErrorCode,
    time::{is_time, to_millis},
    v1,
};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep};

use super::invalid;
use crate::{
    access::kinds::unknown_to_operator,
    delivery::rule::DeliveryRule,
    domain::{
        delivery::{Delivery, Status},
        id,
    },
    error::Result,
    operations::{Core, replay_delivery},
    tables::deliveries::LogPosition,
};

/// Shortest time between two replays: 50 a second.
const PACE: Duration = Duration::from_millis(20);
/// How often the progress is told.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// Most deliveries read at once.
const PAGE: usize = 100;
/// Most tries of one replay while the store does not answer.
const TRIES: u32 = 3;
/// How often one replay is tried again while the store does not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// A replay of a webhook's deliveries, under way.
pub struct Replaying {
    core: Arc<Core>,
    webhook_id: String,
    /// Only deliveries created from then on, in unix milliseconds.
    since: i64,
    /// Only deliveries that ended so.
    status: Option<i32>,
    /// The id of this run: the ids of its replays derive from it.
    run: String,
    /// Where the next page of the log starts.
    after: Option<LogPosition>,
    /// Deliveries that were read and not yet looked at.
    rows: VecDeque<Delivery>,
    pace: Interval,
    looked_at: i64,
    replayed: i64,
    done: bool,
}

impl Replaying {
    /// Begins a replay; the work is done by [`Self::next`].
    ///
    /// # Errors
    /// 422, `WEBHOOK_NOT_FOUND`, or when the store does not answer.
    pub async fn begin(core: &Arc<Core>, asked: v1::ReplayWebhookDeliveriesRequest) -> Result<Self> {
        let since = asked.since.as_ref().filter(|time| is_time(time)).map(to_millis);
        let since = since.ok_or_else(|| invalid("since", "must be a time of the years 1 to 9999"))?;
        let status = match v1::DeliveryStatus::try_from(asked.status) {
            Ok(v1::DeliveryStatus::Unspecified) => None,
            Ok(v1::DeliveryStatus::Delivered) => Some(i32::from(Status::Delivered)),
            Ok(v1::DeliveryStatus::Failed) => Some(i32::from(Status::Failed)),
            _ => return Err(invalid("status", "must be delivered or failed")),
        };
        core.shared.control.refresh().await?;
        serving(core, &asked.webhook_id, core.shared.clock.now_ms())?;
        let mut pace = interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            core: Arc::clone(core),
            webhook_id: asked.webhook_id,
            since,
            status,
            run: id::random("run_", core.shared.ids.as_ref()),
            after: None,
            rows: VecDeque::new(),
            pace,
            looked_at: 0,
            replayed: 0,
            done: false,
        })
    }

    /// Goes on for about a second and tells how far it got; none after the last delivery was told.
    ///
    /// # Errors
    /// `WEBHOOK_NOT_FOUND` when the webhook was deleted, those of a replay, or when the store does not answer.
    pub async fn next(&mut self) -> Result<Option<v1::ReplayWebhookDeliveriesResponse>> {
        if self.done {
            return Ok(None);
        }
        let tell_at = Instant::now() + TELL_EVERY;
        while Instant::now() < tell_at {
            let Some(delivery) = self.row().await? else {
                self.done = true;
                break;
            };
            self.looked_at += 1;
            if self.is_wanted(&delivery) {
                self.pace.tick().await;
                self.core.run_to_end(replay(Arc::clone(&self.core), delivery, self.run.clone())).await?;
                self.replayed += 1;
            }
        }
        let (looked_at, replayed, done) = (self.looked_at, self.replayed, self.done);
        Ok(Some(v1::ReplayWebhookDeliveriesResponse { looked_at, replayed, done }))
    }

    /// The next delivery of the log, as it counts; none after the oldest that is asked for.
    async fn row(&mut self) -> Result<Option<Delivery>> {
        if self.rows.is_empty() {
            let (deliveries, now_ms) = (&self.core.shared.deliveries, self.core.shared.clock.now_ms());
            let page = deliveries.page(&self.webhook_id, self.after.as_ref(), now_ms, PAGE).await?;
            let serving = serving(&self.core, &self.webhook_id, now_ms)?;
            for (position, delivery) in page {
                self.after = Some(position);
                self.rows.push_back(serving.counted(delivery));
            }
        }
        Ok(self.rows.pop_front().filter(|delivery| delivery.created_at >= self.since))
    }

    fn is_wanted(&self, delivery: &Delivery) -> bool {
        delivery.is_over() && delivery.replay_of.is_none() && self.status.is_none_or(|status| status == delivery.status)
    }
}

/// What becomes of the deliveries of a webhook of any project.
fn serving(core: &Core, webhook_id: &str, now_ms: i64) -> Result<DeliveryRule> {
    let state = core.shared.control.state();
    let webhook =
        state.webhook(webhook_id).ok_or_else(|| unknown_to_operator(ErrorCode::WebhookNotFound, webhook_id))?;
    Ok(DeliveryRule::of(&state, webhook, now_ms))
}

/// Replays a delivery. Its seed and its time make it once, however often it is tried.
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
