//! Attempts that cannot be sent: they fail here, since waiting would hold up the queue for ever.

use thesis_proto::v1;

use super::Dispatcher;
use crate::{
    convert,
    domain::{
        control::Webhook,
        dataset::Dataset,
        delivery::{Attempt, Delivery},
    },
    error::Result,
    store::StoreError,
    tables::log::decode,
};

/// Why there is nothing to send. The text inside is for the operator's log, not for the attempt's record.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unsendable {
    /// There is no such event, and never will be.
    #[error("the event cannot be read")]
    Event(String),
    /// It is readable again once the service has its old secret key back.
    #[error("the signing secret cannot be read")]
    Secret(String),
}

impl Dispatcher {
    /// Reads the event that a delivery tells. A store that does not answer is an error and asked again; an entry that
    /// is missing, damaged or no event stays so for ever.
    pub(super) async fn event(&self, delivery: &Delivery) -> Result<std::result::Result<v1::Event, Unsendable>> {
        let unreadable = |why: String| Ok(Err(Unsendable::Event(why)));
        let seq = delivery.seq;
        let entry = match self.shared.log.read(&delivery.dataset, seq.saturating_sub(1), seq, 1).await {
            Ok(mut read) => read.pop().map(|(_, body)| decode(body)).transpose(),
            Err(error) => Err(error),
        };
        let entry = match entry {
            Ok(Some(entry)) => entry,
            Ok(None) => return unreadable(format!("the log has no entry {seq}")),
            Err(StoreError::Damaged(why)) => return unreadable(why),
            Err(error) => return Err(error.into()),
        };
        let event = Dataset::parse(&delivery.dataset).and_then(|dataset| convert::entry::event(&dataset, &entry));
        match event {
            Some(event) => Ok(Ok(event)),
            None => unreadable(format!("entry {seq} is no event")),
        }
    }

    /// Reads the secret that a webhook's deliveries are signed with.
    pub(super) fn secret(&self, webhook: &Webhook) -> std::result::Result<String, Unsendable> {
        let secret = self.shared.keys.open(&webhook.secret).and_then(|plain| String::from_utf8(plain).ok());
        secret.ok_or_else(|| Unsendable::Secret("it was encrypted with another secret key".to_owned()))
    }

    /// Lets an attempt fail unsent: for good if its event is unreadable, otherwise it is tried again by the table.
    pub(super) async fn fail(
        &self,
        delivery: &Delivery,
        queued_at: i64,
        unsendable: &Unsendable,
        now_ms: i64,
    ) -> Result<()> {
        let (Unsendable::Event(why) | Unsendable::Secret(why)) = unsendable;
        let (id, webhook) = (&delivery.id, &delivery.webhook_id);
        tracing::error!(delivery = id, webhook, why, "a webhook attempt fails: {unsendable}");
        let attempt = Attempt {
            number: delivery.attempts_made() + 1,
            started_at: now_ms,
            failure: Some(unsendable.to_string()),
            ..Attempt::default()
        };
        let mut after = delivery.after(attempt, now_ms);
        if matches!(unsendable, Unsendable::Event(_)) {
            after = after.cancelled();
        }
        self.shared.deliveries.advance(delivery, &after, Some(queued_at), now_ms).await?;
        Ok(())
    }
}
