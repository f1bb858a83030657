//! Creates the pending deliveries of each event for the webhooks that match it. The fan-out is a projection of the log
//! with its own checkpoint, so it neither delays a response nor misses an event.
//!
//! The core that writes the log matches its events, and all cores create the deliveries, each those of its shards of
//! webhooks. The position moves only past events whose deliveries all of these cores have confirmed. So one row is the
//! checkpoint of all shards. Neither a dataset that nobody writes nor a shard without a webhook for an event costs
//! anything.

mod create;

use std::{mem::take, sync::Arc, time::Duration};

use thesis_proto::filter::EventKeys;
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use self::create::create_at_cores;
pub use self::create::{MatchedEvent, create_deliveries};
use crate::{
    convert,
    delivery::rule::DeliveryRule,
    domain::{
        control::Webhook,
        dataset::Dataset,
        entry::{Entry, SequencedEntry},
        window::CLOCK_SKEW_MS,
    },
    error,
    replicas::peers::Peers,
    shared::Shared,
    store::StoreError,
    tables::log::{checkpoint_change, decode},
};

/// Checkpoint: the deliveries of all events up to here are pending or done.
pub const FAN_OUT: &str = "fan_out";
/// Maximum number of entries read before the checkpoint moves.
const PAGE: usize = 500;
/// Number of deliveries from which the matched events are handed to the cores.
const ROUND: usize = 4_000;
/// A moved checkpoint is stored within this time. After a crash the events behind it are matched again, with the
/// filters of that time. Those of the last time in which a webhook was disabled stay out, but for [`CLOCK_SKEW_MS`].
const CHECKPOINT_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum number of entries that a checkpoint moves past before it is stored.
const MAX_UNSTORED: u64 = 1_000;

type Result<T, E = error::Error> = std::result::Result<T, E>;

/// Follows a dataset's projected position and creates the deliveries of new events, until stopped. Publishes its own
/// position in `fanned_out`.
pub async fn run(
    shared: Arc<Shared>,
    peers: Arc<Peers>,
    dataset: Dataset,
    mut position: watch::Receiver<u64>,
    fanned_out: watch::Sender<u64>,
    stop: CancellationToken,
) {
    let mut fan_out = FanOut::new(shared, peers, dataset);
    loop {
        let upto = *position.borrow_and_update();
        if let Err(error) = fan_out.advance(upto).await {
            tracing::warn!(dataset = fan_out.name, %error, "creating deliveries failed, trying again");
            fan_out.current = false;
            if stop.run_until_cancelled(tokio::time::sleep(Duration::from_millis(200))).await.is_none() {
                return;
            }
            continue;
        }
        fanned_out.send_replace(fan_out.done);
        match stop.run_until_cancelled(fan_out.wait_for_position(&mut position)).await {
            Some(Ok(())) => {}
            Some(Err(_)) | None => return fan_out.store_or_log().await,
        }
    }
}

struct FanOut {
    shared: Arc<Shared>,
    peers: Arc<Peers>,
    dataset: Dataset,
    name: String,
    /// The deliveries of all events up to this sequence number exist.
    done: u64,
    /// The stored checkpoint as last known.
    stored: u64,
    /// The checkpoint must be stored by this time; none when it has not moved.
    store_by: Option<Instant>,
    /// True when `stored` is certainly the checkpoint in the store.
    current: bool,
    /// True once the import of the log, if any, was read.
    knows_import: bool,
    /// Version of the webhook settings that the last entries were matched with, as a number of changes.
    judged_by: u64,
}

impl FanOut {
    fn new(shared: Arc<Shared>, peers: Arc<Peers>, dataset: Dataset) -> Self {
        Self {
            shared,
            peers,
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
            // Another core may have moved the checkpoint, if there are entries that it appended.
            if !self.current || !self.has_own_entries(upto) {
                self.stored = self.stored.max(self.shared.log.checkpoint(&self.name, FAN_OUT).await?);
                self.done = self.done.max(self.stored);
                self.current = true;
            }
            if !self.knows_import && upto > 0 {
                // Webhooks received the imported events at the log's origin. The checkpoint moves past them, so a
                // version of this program that knows no imports does not deliver them either.
                let import = self.shared.log.import(&self.name).await?;
                self.done = self.done.max(import.map_or(0, |import| import.entries));
                self.store().await?;
                self.knows_import = true;
            }
            if self.done >= upto {
                return Ok(());
            }
            let shared = Arc::clone(&self.shared);
            let _held = shared.control.hold_settings().await;
            // A webhook whose creation was acknowledged before an event's append must be known here before that event.
            self.shared.control.catch_up().await?;
            let (judgements, is_unseen) = {
                let state = self.shared.control.state();
                (state.judgements(), state.is_unseen(&self.dataset))
            };
            if self.judged_by != judgements {
                // Entries matched with the old settings are not matched with the new ones, unless this core ends before
                // their position is stored: then the last ones may be, if no webhook got them.
                self.store().await?;
                self.judged_by = judgements;
            }
            let before = self.done;
            if is_unseen {
                self.mark_done(upto, false).await?;
            } else {
                self.fan_out_page(upto).await?;
            }
            if self.done == before || self.done >= upto {
                return Ok(());
            }
        }
    }

    /// Returns whether this process has appended all entries that are not done, up to `upto`. The fan-out then does not
    /// read the checkpoint, although a second core that has a writer of this dataset may have moved it. That core may
    /// also have created and sent deliveries of these entries. Then an attempt may be sent twice.
    fn has_own_entries(&self, upto: u64) -> bool {
        self.shared.backend.is_exclusive() || self.shared.log.has_appended(&self.name, self.done, upto)
    }

    /// Moves the position to `seq`. A move past unwanted events alone is stored only now and then. If it is lost, these
    /// events are matched again, with the filters of then, as if this fan-out were late. Times cannot tell whether an
    /// event precedes a change of filters: two cores' clocks may differ by more than [`CHECKPOINT_INTERVAL`].
    async fn mark_done(&mut self, seq: u64, has_deliveries: bool) -> Result<()> {
        self.done = self.done.max(seq);
        let now = Instant::now();
        let is_due = *self.store_by.get_or_insert(now + CHECKPOINT_INTERVAL) <= now;
        if has_deliveries || is_due || self.done - self.stored >= MAX_UNSTORED {
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

    async fn store_or_log(&mut self) {
        if let Err(error) = self.store().await {
            tracing::debug!(dataset = self.name, %error, "storing the fan-out position failed; it is stored later");
            self.store_by = Some(Instant::now() + CHECKPOINT_INTERVAL);
        }
    }

    /// Waits for the position to move, and stores the checkpoint when it is due.
    async fn wait_for_position(&mut self, position: &mut watch::Receiver<u64>) -> Result<(), watch::error::RecvError> {
        while let Some(store_by) = self.store_by {
            if let Ok(moved) = timeout_at(store_by, position.changed()).await {
                return moved;
            }
            self.store_or_log().await;
        }
        position.changed().await
    }

    /// Creates the deliveries of a page of entries.
    async fn fan_out_page(&mut self, upto: u64) -> Result<()> {
        let (mut last, mut has_deliveries) = (self.done, false);
        let (mut matched, mut deliveries, mut outcome) = (Vec::new(), 0, Ok(()));
        for (seq, body) in self.shared.log.read(&self.name, self.done, upto, PAGE).await? {
            match decode(seq, body) {
                Ok(entry) => {
                    let webhooks = self.webhooks_of(&entry);
                    if !webhooks.is_empty() {
                        deliveries += webhooks.len();
                        matched.push(MatchedEvent { event: Arc::new(SequencedEntry { seq, entry }), webhooks });
                    }
                }
                // A newer core can deliver it.
                Err(error @ StoreError::Unknown(_)) => {
                    outcome = Err(error.into());
                    break;
                }
                // Waiting for it would block all later entries for ever.
                Err(error) => {
                    tracing::error!(dataset = self.name, seq, %error, "an entry cannot be delivered to webhooks")
                }
            }
            last = seq;
            has_deliveries |= deliveries > 0;
            if deliveries >= ROUND {
                self.create(take(&mut matched)).await?;
                deliveries = 0;
                // Other replicas see the progress.
                self.mark_done(last, has_deliveries).await?;
            }
        }
        self.create(matched).await?;
        self.mark_done(last, has_deliveries).await?;
        outcome
    }

    /// Creates the deliveries of events. Some of them may exist already: another core that appended an entry may have
    /// created them, or this one, before an error or in a fan-out that has ended. Those of own entries count as new at
    /// first, although a second core with a writer may have created and sent them. Then an attempt may be sent twice.
    async fn create(&self, matched: Vec<MatchedEvent>) -> Result<()> {
        let Some(last) = matched.last() else { return Ok(()) };
        let are_new = self.shared.log.begin_fan_out(&self.name, self.done, last.event.seq);
        create_at_cores(&self.shared, &self.peers, &self.dataset, matched, !are_new).await
    }

    /// The ids of the webhooks that get an entry's event.
    fn webhooks_of(&self, entry: &Entry) -> Vec<String> {
        let Some(event) = convert::entry::event(&self.dataset, entry) else { return Vec::new() };
        let now_ms = self.shared.clock.now_ms();
        let state = self.shared.control.state();
        let mut webhooks = state.matching(&self.dataset, &EventKeys::from(&event));
        webhooks.retain(|webhook| {
            let rule = DeliveryRule::of(&state, webhook, now_ms);
            rule.sends_any() && !rule.cancels(entry.created_at) && !self.is_excluded(entry, webhook)
        });
        webhooks.iter().map(|webhook| webhook.id.clone()).collect()
    }

    /// Returns whether an event is surely older than the webhook, or of the time in which it was disabled before. One
    /// that precedes the creation or the enabling by only the clock skew still reaches the webhook.
    fn is_excluded(&self, entry: &Entry, webhook: &Webhook) -> bool {
        let (at, skew) = (entry.created_at, if self.shared.backend.is_exclusive() { 0 } else { CLOCK_SKEW_MS });
        let was_disabled = webhook.last_disabled_from + skew < at && at + skew < webhook.last_disabled_until;
        at + skew < webhook.created_at || was_disabled
    }
}

#[cfg(test)]
mod tests;
