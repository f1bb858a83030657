//! Attempts that cannot be sent. They fail here, since waiting would hold up the queue for ever.

use bytes::Bytes;
use thesis_proto::json::event_json;

use super::Dispatcher;
use crate::{
    convert,
    domain::{
        dataset::Dataset,
        delivery::{Attempt, Delivery},
    },
    error::{Error, Result},
    store::StoreError,
    tables::log::decode,
};

/// The reason why an attempt cannot be sent. The text inside is for the operator's log, not for the attempt's record.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unsendable {
    /// The event does not exist and never will.
    #[error("the event cannot be read")]
    Event(String),
    /// The secret is readable again once the service has its old secret key back.
    #[error("the signing secret cannot be read")]
    Secret(String),
    /// The same for the value of one of the webhook's own headers.
    #[error("the value of a header cannot be read; set or remove the webhook's headers")]
    Header(String),
}

impl Dispatcher {
    /// Reads the event of a delivery as JSON. The caller tries again when the store does not answer. An entry that is
    /// missing, damaged or no event stays so for ever.
    pub(super) async fn body(&self, delivery: &Delivery) -> Result<std::result::Result<Bytes, Unsendable>> {
        if !delivery.body.is_empty() {
            return Ok(Ok(delivery.body.clone().into()));
        }
        let place = (delivery.dataset.clone(), delivery.seq);
        let erasure = self.shared.log.newest_erasure(&delivery.dataset);
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

    /// Forgets the bodies of events: a text was erased.
    pub fn forget_bodies(&self) {
        self.bodies.clear();
    }

    pub async fn body_of(&self, delivery: &Delivery) -> Result<Bytes> {
        self.body(delivery).await?.map_err(Error::internal)
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
