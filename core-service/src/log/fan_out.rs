//! Owes each event to the webhooks that match it, as pending deliveries. A projection of the log with its own
//! checkpoint: it neither delays an answer nor misses an event.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use thesis_proto::{filter::EventKeys, json::event_json};
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{
    convert,
    delivery::serving::Serving,
    domain::{
        control::Webhook,
        dataset::Dataset,
        delivery::{Delivery, EventRef, delivery_id},
        entry::Entry,
    },
    error,
    shared::{Shared, queue_hints::Made},
    store::StoreError,
    tables::log::{checkpoint_change, decode},
};

/// Name of this projection.
pub const FAN_OUT: &str = "fan_out";
/// Most entries looked at before the checkpoint moves.
const PAGE: usize = 500;
/// Most deliveries collected before they are written.
const CHUNK: usize = 500;
/// Longest time that a moved checkpoint stays unstored.
const STORE_AFTER: Duration = Duration::from_millis(500);
/// Most entries that a checkpoint moves past before it is stored.
const MAX_UNSTORED: u64 = 1_000;
/// Most difference between replicas' clocks: an event older than a webhook by only this still reaches it.
const CLOCK_SKEW_MS: i64 = 2_000;

type Result<T, E = error::Error> = std::result::Result<T, E>;

/// Follows a dataset's projected position and owes the new events, until stopped. Tells how far it has come.
pub async fn run(
    shared: Arc<Shared>,
    dataset: Dataset,
    mut position: watch::Receiver<u64>,
    owed: watch::Sender<u64>,
    stop: CancellationToken,
) {
    let mut fan_out = FanOut::new(shared, dataset);
    loop {
        let upto = *position.borrow_and_update();
        if let Err(error) = fan_out.advance(upto).await {
            tracing::warn!(dataset = fan_out.name, %error, "owing events to webhooks failed, trying again");
            fan_out.current = false;
            if stop.run_until_cancelled(tokio::time::sleep(Duration::from_millis(200))).await.is_none() {
                return;
            }
            continue;
        }
        owed.send_replace(fan_out.done);
        match stop.run_until_cancelled(fan_out.rest(&mut position)).await {
            Some(Ok(())) => {}
            Some(Err(_)) | None => return fan_out.store_or_tell().await,
        }
    }
}

struct FanOut {
    shared: Arc<Shared>,
    dataset: Dataset,
    name: String,
    /// All events up to this sequence number are owed.
    done: u64,
    /// The stored checkpoint as last known.
    stored: u64,
    /// The latest time to store the checkpoint, if it moved.
    store_by: Option<Instant>,
    /// Whether `stored` is certainly the checkpoint in the store.
    current: bool,
    /// Whether it is known which entries were imported.
    knows_import: bool,
    /// The state of the webhooks that judged the last entries, as a number of changes.
    judged_by: u64,
}

impl FanOut {
    fn new(shared: Arc<Shared>, dataset: Dataset) -> Self {
        Self {
            shared,
            name: dataset.to_string(),
            dataset,
            done: 0,
            stored: 0,
            store_by: None,
            current: false,
            knows_import: false,
            judged_by: 0,
        }
    }

    async fn advance(&mut self, upto: u64) -> Result<()> {
        loop {
            // Another core may have moved the checkpoint.
            if !self.current || !self.shared.backend.is_exclusive() {
                self.stored = self.stored.max(self.shared.log.checkpoint(&self.name, FAN_OUT).await?);
                self.done = self.done.max(self.stored);
                self.current = true;
            }
            if !self.knows_import && upto > 0 {
                // Webhooks were told of imported events where these happened. A program that knows no imports must not
                // tell them either.
                let import = self.shared.log.import(&self.name).await?;
                self.done = self.done.max(import.map_or(0, |import| import.entries));
                self.store().await?;
                self.knows_import = true;
            }
            if self.done >= upto {
                return Ok(());
            }
            // So a webhook whose creation was answered before an event's append is known here before that event.
            self.shared.control.catch_up().await?;
            let (judgements, is_unseen) = {
                let state = self.shared.control.state();
                (state.judgements(), state.is_unseen(&self.dataset))
            };
            if self.judged_by != judgements {
                // Entries judged by the old settings are never judged again by the new ones, not even after a restart.
                self.store().await?;
                self.judged_by = judgements;
            }
            let before = self.done;
            if is_unseen {
                self.reach(upto, false).await?;
            } else {
                self.owe(upto).await?;
            }
            if self.done == before || self.done >= upto {
                return Ok(());
            }
        }
    }

    /// Notes that events up to `seq` are owed. Where no other core reads the checkpoint, a move past unwanted events
    /// alone is stored only now and then.
    async fn reach(&mut self, seq: u64, owed: bool) -> Result<()> {
        self.done = self.done.max(seq);
        let now = Instant::now();
        let is_due = *self.store_by.get_or_insert(now + STORE_AFTER) <= now;
        if owed || is_due || !self.shared.backend.is_exclusive() || self.done - self.stored >= MAX_UNSTORED {
            self.store().await?;
        }
        Ok(())
    }

    async fn store(&mut self) -> Result<()> {
        if self.done > self.stored {
            self.shared.backend.apply(vec![checkpoint_change(&self.name, FAN_OUT, self.done)]).await?;
            self.stored = self.done;
        }
        self.store_by = None;
        Ok(())
    }

    async fn store_or_tell(&mut self) {
        if let Err(error) = self.store().await {
            tracing::debug!(dataset = self.name, %error, "storing how far events are owed failed; it is stored later");
        }
    }

    /// Waits for the position to move; meanwhile stores the checkpoint.
    async fn rest(&mut self, position: &mut watch::Receiver<u64>) -> Result<(), watch::error::RecvError> {
        if let Some(store_by) = self.store_by {
            if let Ok(moved) = timeout_at(store_by, position.changed()).await {
                return moved;
            }
            self.store_or_tell().await;
        }
        position.changed().await
    }

    /// Owes the events of a page of entries.
    async fn owe(&mut self, upto: u64) -> Result<()> {
        let (mut last, mut owes) = (self.done, false);
        let (mut owed, mut outcome) = (Vec::new(), Ok(()));
        for (seq, body) in self.shared.log.read(&self.name, self.done, upto, PAGE).await? {
            match decode(body) {
                Ok(entry) => self.owe_entry(seq, &entry, &mut owed),
                // A newer core can tell it.
                Err(error @ StoreError::Unknown(_)) => {
                    outcome = Err(error.into());
                    break;
                }
                // Waiting for it would hold up all later entries for ever.
                Err(error) => tracing::error!(dataset = self.name, seq, %error, "an entry cannot be told to webhooks"),
            }
            last = seq;
            owes |= !owed.is_empty();
            if owed.len() >= CHUNK {
                self.write(&mut owed).await?;
                // So other replicas see progress.
                self.reach(last, owes).await?;
            }
        }
        self.write(&mut owed).await?;
        self.reach(last, owes).await?;
        outcome
    }

    fn owe_entry(&self, seq: u64, entry: &Entry, owed: &mut Vec<Made>) {
        let Some(event) = convert::entry::event(&self.dataset, entry) else { return };
        let now_ms = self.shared.clock.now_ms();
        let webhooks: Vec<Arc<Webhook>> = {
            let state = self.shared.control.state();
            let mut webhooks = state.matching(&self.dataset, &EventKeys::from(&event));
            webhooks.retain(|webhook| {
                let serving = Serving::of(&state, webhook, now_ms);
                serving.is_any() && !serving.cancels(entry.created_at) && !self.is_old(entry, webhook)
            });
            webhooks
        };
        if webhooks.is_empty() {
            return;
        }
        let body = Bytes::from(event_json(&event));
        owed.extend(webhooks.iter().map(|webhook| {
            // The event's time and id, so that a repeat makes the same delivery.
            let id = delivery_id(&webhook.id, entry.created_at, &[&event.id]);
            let (event_id, event_type) = (event.id.clone(), event.r#type);
            let told = EventRef { event_id, event_type, dataset: self.name.clone(), seq, trace: entry.trace.clone() };
            let delivery = Delivery::pending(id, webhook.id.clone(), entry.created_at, told);
            Made { delivery, body: body.clone() }
        }));
    }

    async fn write(&self, owed: &mut Vec<Made>) -> Result<()> {
        while !owed.is_empty() {
            let some = owed.drain(..owed.len().min(CHUNK)).collect();
            self.shared.make_deliveries(some, self.shared.clock.now_ms()).await?;
        }
        Ok(())
    }

    fn is_old(&self, entry: &Entry, webhook: &Webhook) -> bool {
        let skew = if self.shared.backend.is_exclusive() { 0 } else { CLOCK_SKEW_MS };
        entry.created_at + skew < webhook.created_at
    }
}

#[cfg(test)]
mod tests;
