//! The secrets of a webhook, decrypted for one attempt.

use std::fmt;

use thesis_proto::v1::WebhookHeader;

use super::{Dispatcher, unsendable::Unsendable};
use crate::{domain::control::Webhook, keys::key_ring::SealPurpose};

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
    /// Reads the secrets of a webhook.
    pub(super) fn secrets(&self, webhook: &Webhook, now_ms: i64) -> Result<AttemptSecrets, Unsendable> {
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
