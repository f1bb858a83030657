//! Owes each event to the webhooks that match it: a projection of the log with its own checkpoint, so that it neither
//! delays an answer nor misses an event.

use std::{collections::HashMap, sync::Arc, time::Duration};

use thesis_proto::{filter::CompiledFilter, v1};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{core::Shared, error::Result, writer::decode};
use crate::{
    convert,
    domain::{
        control::Webhook,
        dataset::Dataset,
        delivery::{Delivery, Status},
        entry::Entry,
        id,
    },
    store::log::checkpoint_change,
};

/// Name of this projection.
pub const FAN_OUT: &str = "fan_out";
/// Entries looked at before the checkpoint moves.
const PAGE: usize = 500;
/// Deliveries written at once.
const CHUNK: usize = 500;
/// How far the clocks of replicas may lie apart: an event so little older than a webhook still reaches it.
const CLOCK_SKEW_MS: i64 = 2_000;

type Filters = HashMap<(String, i64), Option<Arc<CompiledFilter>>>;

/// Follows a dataset's projected position and owes what comes, until stopped.
pub async fn run(shared: Arc<Shared>, dataset: Dataset, mut position: watch::Receiver<u64>, stop: CancellationToken) {
    let mut fan_out = FanOut { shared, name: dataset.to_string(), dataset, done: None, filters: Filters::new() };
    loop {
        let upto = *position.borrow_and_update();
        if let Err(error) = fan_out.advance(upto).await {
            tracing::warn!(dataset = fan_out.name, %error, "owing events to webhooks failed, trying again");
            fan_out.done = None;
            if stop.run_until_cancelled(tokio::time::sleep(Duration::from_millis(200))).await.is_none() {
                return;
            }
            continue;
        }
        match stop.run_until_cancelled(position.changed()).await {
            Some(Ok(())) => {}
            Some(Err(_)) | None => return,
        }
    }
}

struct FanOut {
    shared: Arc<Shared>,
    dataset: Dataset,
    name: String,
    /// The checkpoint, once read.
    done: Option<u64>,
    filters: Filters,
}

impl FanOut {
    async fn advance(&mut self, upto: u64) -> Result<()> {
        let mut done = match self.done {
            Some(done) => done,
            None => self.shared.log.checkpoint(&self.name, FAN_OUT).await?,
        };
        while done < upto {
            // A webhook whose creation was answered before an event was appended is known here before that event is.
            self.shared.control.catch_up().await?;
            let webhooks = self.webhooks();
            let last = if webhooks.is_empty() { upto } else { self.owe(&webhooks, done, upto).await? };
            if last == done {
                break;
            }
            done = last;
            self.shared.backend.apply(vec![checkpoint_change(&self.name, FAN_OUT, done)]).await?;
        }
        self.done = Some(done);
        Ok(())
    }

    /// The enabled webhooks that see this dataset, each with the time up to which its deliveries are cancelled.
    fn webhooks(&self) -> Vec<(Arc<Webhook>, i64)> {
        let state = self.shared.control.state();
        let enabled = |webhook: &&Arc<Webhook>| webhook.status == i32::from(v1::WebhookStatus::Enabled);
        let usable = |webhook: &Arc<Webhook>| {
            let project = state.project(&webhook.project_id).filter(|project| !project.archived)?;
            let cancelled = if webhook.live { project.live_cancelled_until } else { 0 };
            (!webhook.live || project.live_approved).then(|| (Arc::clone(webhook), cancelled))
        };
        match &self.dataset {
            Dataset::Live => state.webhooks_of(true).filter(enabled).filter_map(usable).collect(),
            Dataset::Sandbox => state.webhooks_of(false).filter(enabled).filter_map(usable).collect(),
            Dataset::Project(id) => state.webhooks(id, false).filter(enabled).filter_map(usable).collect(),
        }
    }

    async fn owe(&mut self, webhooks: &[(Arc<Webhook>, i64)], after: u64, upto: u64) -> Result<u64> {
        let mut last = after;
        let mut owed = Vec::new();
        for (seq, body) in self.shared.log.read(&self.name, after, upto, PAGE).await? {
            last = seq;
            let entry = decode(body)?;
            let Some(event) = convert::entry::event(&self.dataset, &entry) else { continue };
            for (webhook, cancelled_until) in webhooks {
                let is_old = self.is_old(&entry, webhook) || entry.created_at <= *cancelled_until;
                if is_old || !self.filter(webhook).is_some_and(|filter| filter.matches(&event)) {
                    continue;
                }
                owed.push(Delivery {
                    id: id::derive("del_", &[&event.id, &webhook.id]),
                    webhook_id: webhook.id.clone(),
                    event_id: event.id.clone(),
                    event_type: event.r#type,
                    dataset: self.name.clone(),
                    seq,
                    status: Status::Pending.into(),
                    attempts: Vec::new(),
                    // The event's time, so that doing this again makes the same delivery.
                    next_attempt_at: Some(entry.created_at),
                    created_at: entry.created_at,
                    delivered_at: None,
                });
            }
            if owed.len() >= CHUNK {
                self.write(&mut owed).await?;
            }
        }
        self.write(&mut owed).await?;
        Ok(last)
    }

    async fn write(&self, owed: &mut Vec<Delivery>) -> Result<()> {
        if owed.is_empty() {
            return Ok(());
        }
        self.shared.deliveries.create(owed, self.shared.clock.now_ms()).await?;
        self.shared.hints.add(owed.drain(..).map(|delivery| delivery.webhook_id));
        Ok(())
    }

    fn is_old(&self, entry: &Entry, webhook: &Webhook) -> bool {
        let skew = if self.shared.backend.is_exclusive() { 0 } else { CLOCK_SKEW_MS };
        entry.created_at + skew < webhook.created_at
    }

    fn filter(&mut self, webhook: &Webhook) -> Option<Arc<CompiledFilter>> {
        let version = (webhook.id.clone(), webhook.updated_at);
        self.filters
            .entry(version)
            .or_insert_with(|| {
                let types = convert::control::event_types(webhook);
                CompiledFilter::new(&types, Some(&convert::control::filters(webhook))).ok().map(Arc::new)
            })
            .clone()
    }
}
