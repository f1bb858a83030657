//! Attempts that cannot be sent. They fail here, since waiting would hold up the queue for ever.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use parking_lot::Mutex;
use thesis_proto::json::event_json;

use super::Dispatcher;
use crate::{
    convert,
    domain::{
        dataset::Dataset,
        delivery::{Attempt, Delivery},
    },
    error::{Error, Result},
    queue_hints::PendingDelivery,
    store::{StoreError, StoreResult},
    tables::log::{ROWS, decode},
};

/// Maximum age, in milliseconds, of the last read of a log's newest erasure when a delivery is sent.
pub(super) const MAX_ERASURE_AGE_MS: i64 = 1_000;
/// Maximum number of deliveries whose logs' erasures one request reads.
const MAX_ERASURE_READS: usize = 256;

/// The times at which the newest erasures were last read, by log. Only the recent ones are kept.
#[derive(Debug, Default)]
pub(super) struct ErasureReads(Mutex<HashMap<String, i64>>);

impl ErasureReads {
    fn is_recent(read_at: i64, now_ms: i64) -> bool {
        (0..MAX_ERASURE_AGE_MS).contains(&(now_ms - read_at))
    }

    fn has_recent(&self, log: &str, now_ms: i64) -> bool {
        self.0.lock().get(log).is_some_and(|read_at| Self::is_recent(*read_at, now_ms))
    }

    fn note(&self, logs: impl IntoIterator<Item = String>, now_ms: i64) {
        let mut reads = self.0.lock();
        reads.retain(|_, read_at| Self::is_recent(*read_at, now_ms));
        reads.extend(logs.into_iter().map(|log| (log, now_ms)));
    }
}

/// The reason why an attempt cannot be sent. The text inside is for the operator's log, not for the attempt's record.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unsendable {
    /// The event does not exist and never will.
    #[error("the event cannot be read")]
    Event(String),
    /// The secret is readable again once the service has its old secret key back.
    #[error("the signing secret cannot be read")]
    Secret(String),
    /// The value of one of the customer's headers cannot be decrypted.
    #[error("the value of a header cannot be read; set or remove the webhook's headers")]
    Header(String),
}

impl Dispatcher {
    /// Returns the newest erasure of the log of a delivery's event. If other cores write too, it reads the erasure from
    /// the store, at most once in [`MAX_ERASURE_AGE_MS`]. A delivery that stores its own body needs no erasure.
    pub(super) async fn recent_erasure(&self, delivery: &Delivery) -> Result<u64> {
        let now_ms = self.shared.clock.now_ms();
        if self.needs_erasure(delivery, now_ms) {
            self.read_erasure(delivery).await?;
            self.erasure_reads.note([delivery.dataset.clone()], now_ms);
        }
        Ok(self.shared.log.newest_erasure(&delivery.dataset))
    }

    /// Reads the newest erasures of the next deliveries' logs, and then hands out ready deliveries. If that read fails,
    /// it hands out none, since each would wait for the store again. The next call reads no erasures first, so that one
    /// log that cannot be read does not hold up the others. Returns the deliveries that cannot be sent.
    pub(super) async fn hand_out_ready(
        &self,
        is_tick: bool,
        read_failed: &mut bool,
        now_ms: i64,
    ) -> Vec<(PendingDelivery, Unsendable)> {
        *read_failed = !*read_failed && self.read_next_erasures(now_ms).await.is_err();
        if *read_failed { Vec::new() } else { self.hand_out(is_tick, now_ms).await }
    }

    /// Reads the newest erasures of the logs whose deliveries come next, in one request. Otherwise the
    /// first delivery of each log would read the erasure, and these reads would follow one another.
    pub(super) async fn read_next_erasures(&self, now_ms: i64) -> StoreResult<()> {
        if self.shared.backend.is_exclusive() {
            return Ok(());
        }
        let logs: BTreeSet<String> = {
            let state = self.state.lock();
            let next = state.next_ready().filter(|delivery| self.needs_erasure(delivery, now_ms));
            next.take(MAX_ERASURE_READS).map(|delivery| delivery.dataset.clone()).collect()
        };
        if logs.len() < 2 {
            return Ok(());
        }
        let names: Vec<&str> = logs.iter().map(String::as_str).collect();
        self.shared.log.checkpoints(&names, ROWS).await?;
        self.erasure_reads.note(logs, now_ms);
        Ok(())
    }

    fn needs_erasure(&self, delivery: &Delivery, now_ms: i64) -> bool {
        self.may_lag(delivery) && !self.erasure_reads.has_recent(&delivery.dataset, now_ms)
    }

    /// True if another core may have erased the text of a delivery's event, unknown to this core.
    fn may_lag(&self, delivery: &Delivery) -> bool {
        delivery.body.is_empty() && !self.shared.backend.is_exclusive()
    }

    /// Reads the checkpoint of the rows, which names the newest erasure.
    async fn read_erasure(&self, delivery: &Delivery) -> Result<()> {
        self.shared.log.checkpoint(&delivery.dataset, ROWS).await?;
        Ok(())
    }

    /// Reads the event of a delivery as JSON. `erasure` is the newest known erasure of its log. The caller retries if
    /// the store fails. An entry that is missing, damaged or not an event is never retried.
    pub(super) async fn body(
        &self,
        delivery: &Delivery,
        erasure: u64,
    ) -> Result<std::result::Result<Bytes, Unsendable>> {
        if !delivery.body.is_empty() {
            return Ok(Ok(delivery.body.clone().into()));
        }
        let place = (delivery.dataset.clone(), delivery.seq);
        if let Some((body, known)) = self.bodies.get(&place)
            && (erasure < delivery.seq || erasure <= known)
        {
            return Ok(Ok(body));
        }
        let unreadable = |why: String| Ok(Err(Unsendable::Event(why)));
        let seq = delivery.seq;
        let entry = match self.shared.log.read(&delivery.dataset, seq.saturating_sub(1), seq, 1).await {
            Ok(mut read) => read.pop().map(|(seq, body)| decode(seq, body)).transpose(),
            Err(error) => Err(error),
        };
        let entry = match entry {
            Ok(Some(entry)) => entry,
            Ok(None) => return unreadable(format!("the log has no entry {seq}")),
            Err(StoreError::Damaged(why)) => return unreadable(why),
            Err(error) => return Err(error.into()),
        };
        let event = Dataset::parse(&delivery.dataset).and_then(|dataset| convert::entry::event(&dataset, &entry));
        let Some(event) = event else { return unreadable(format!("entry {seq} is no event")) };
        let body = Bytes::from(event_json(&event));
        self.bodies.insert(place, (body.clone(), erasure));
        Ok(Ok(body))
    }

    /// Frees the bodies of all events in memory, because a text was erased. This only removes the text from memory
    /// sooner: a body that is older than a known erasure is never sent.
    pub fn forget_bodies(&self) {
        self.bodies.clear();
    }

    /// Reads the event of a delivery as JSON, without a text that any core has erased.
    pub async fn body_of(&self, delivery: &Delivery) -> Result<Bytes> {
        if self.may_lag(delivery) {
            self.read_erasure(delivery).await?;
        }
        let erasure = self.shared.log.newest_erasure(&delivery.dataset);
        self.body(delivery, erasure).await?.map_err(Error::internal)
    }
}

/// A delivery after an attempt that failed unsent. It has failed for good if its event is unreadable; otherwise it is
/// retried by the table of delays.
pub(super) fn failed(delivery: &Delivery, unsendable: &Unsendable, now_ms: i64) -> Delivery {
    let (Unsendable::Event(why) | Unsendable::Secret(why) | Unsendable::Header(why)) = unsendable;
    let (id, webhook) = (&delivery.id, &delivery.webhook_id);
    tracing::error!(delivery = id, webhook, why, "a webhook attempt fails: {unsendable}");
    let attempt = Attempt {
        number: delivery.attempt_count() + 1,
        started_at: now_ms,
        failure: Some(unsendable.to_string()),
        ..Attempt::default()
    };
    let after = delivery.after(attempt, now_ms);
    if matches!(unsendable, Unsendable::Event(_)) { after.cancelled() } else { after }
}
