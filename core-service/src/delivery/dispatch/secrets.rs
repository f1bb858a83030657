//! Prepares an attempt just before it is sent: decrypts the secrets of its webhook and makes sure that its body is
//! current.

use std::fmt;

use thesis_proto::v1::WebhookHeader;

use super::{Dispatcher, unsendable::Unsendable};
use crate::{
    convert::delivery::payload, domain::control::Webhook, error, keys::key_ring::SealPurpose,
    queue_hints::PendingDelivery,
};

/// The secrets that an attempt needs.
pub struct AttemptSecrets {
    /// The signing secrets, the newest first.
    pub signing: Vec<String>,
    /// The seed of the webhook's Ed25519 key.
    pub signing_key: [u8; 32],
    /// The customer's own headers.
    pub headers: Vec<WebhookHeader>,
}

impl fmt::Debug for AttemptSecrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AttemptSecrets").finish_non_exhaustive()
    }
}

impl Dispatcher {
    /// Prepares a delivery from memory, and decrypts the secrets of its webhook. An erasure that this core learned of
    /// after it read the body may have removed the event's text. Then it reads the body again.
    pub(super) async fn prepare(
        &self,
        pending: &mut PendingDelivery,
        webhook: &Webhook,
        now_ms: i64,
    ) -> error::Result<Result<AttemptSecrets, Unsendable>> {
        let delivery = &pending.delivery;
        let erasure = self.recent_erasure(delivery).await?;
        if delivery.seq < erasure && pending.erasure < erasure {
            match self.body(delivery, erasure).await? {
                Ok(body) => (pending.body, pending.erasure) = (body, erasure),
                Err(why) => return Ok(Err(why)),
            }
        }
        if payload(webhook, &pending.body).is_none() {
            return Ok(Err(Unsendable::Event("its JSON is no event, so it has no thin payload".to_owned())));
        }
        Ok(self.secrets(webhook, now_ms))
    }

    /// Decrypts the secrets of a webhook.
    fn secrets(&self, webhook: &Webhook, now_ms: i64) -> Result<AttemptSecrets, Unsendable> {
        let open = |purpose: SealPurpose<'_>, sealed: &[u8]| {
            self.shared.keys.open(purpose, sealed).and_then(|plain| String::from_utf8(plain).ok())
        };
        let why = "it was encrypted with another secret key, or for another webhook";
        let old = webhook.old_secret.as_ref().filter(|_| now_ms < webhook.old_secret_until);
        let secrets = [Some(&webhook.secret), old].into_iter().flatten();
        let signing: Option<Vec<String>> =
            secrets.map(|sealed| open(SealPurpose::WebhookSecret(&webhook.id), sealed)).collect();
        let signing = signing.ok_or_else(|| Unsendable::Secret(why.to_owned()))?;
        let headers = webhook.headers.iter().map(|header| {
            let purpose = SealPurpose::WebhookHeader { webhook: &webhook.id, name: &header.name };
            let value = open(purpose, &header.value)?;
            Some(WebhookHeader { name: header.name.clone(), value: Some(value) })
        });
        let headers: Option<Vec<WebhookHeader>> = headers.collect();
        let headers = headers.ok_or_else(|| Unsendable::Header(why.to_owned()))?;
        Ok(AttemptSecrets { signing, signing_key: self.shared.keys.webhook_signing_key(&webhook.id), headers })
    }
}
