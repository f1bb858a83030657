//! Verification of webhook deliveries.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::HeaderMap;
use ring::{
    hmac,
    signature::{ED25519, UnparsedPublicKey},
};

use crate::{error::Error, generated::types::Event};

const SECRET_PREFIX: &str = "whsec_";
const PUBLIC_KEY_PREFIX: &str = "whpk_";
const PUBLIC_KEY_BYTES: usize = 32;
const TOLERANCE_SECONDS: u64 = 300;

/// A delivery is refused. Respond with 400.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// The headers of the signature are missing or malformed.
    #[error("the headers of the signature are missing or have another form")]
    Headers,
    /// The delivery was signed more than 300 seconds before or after your clock's time.
    #[error("the delivery was signed more than 300 seconds before or after now")]
    Time,
    /// The body was changed, or somebody else sent it.
    #[error("no signature of the delivery is right")]
    Signature,
    /// The signature is right, but the body is not an event.
    #[error("the delivery is no event: {0}")]
    Event(#[source] serde_json::Error),
}

/// Verifies deliveries of webhooks.
#[derive(Clone)]
pub struct WebhookVerifier {
    secrets: Vec<String>,
    public_keys: Vec<Vec<u8>>,
}

impl std::fmt::Debug for WebhookVerifier {
    /// Leaves out the secrets.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("WebhookVerifier").finish_non_exhaustive()
    }
}

impl WebhookVerifier {
    /// Takes the secrets (`whsec_…`) or the public keys (`whpk_…`) of a webhook. Give the old and the new secret during
    /// a rotation, or the secrets of several webhooks that share an endpoint.
    ///
    /// # Errors
    /// Fails if a key has another form, or there is none.
    pub fn new(keys: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, Error> {
        let mut verifier = Self { secrets: Vec::new(), public_keys: Vec::new() };
        for key in keys {
            let key = key.as_ref();
            if let Some(text) = key.strip_prefix(PUBLIC_KEY_PREFIX) {
                let public_key = BASE64_STANDARD.decode(text).ok().filter(|bytes| bytes.len() == PUBLIC_KEY_BYTES);
                let fault = || Error::Usage("the public key of the webhook is not complete".to_owned());
                verifier.public_keys.push(public_key.ok_or_else(fault)?);
            } else if key.strip_prefix(SECRET_PREFIX).is_some_and(|rest| !rest.is_empty()) {
                verifier.secrets.push(key.to_owned());
            } else {
                let fault = "a secret of a webhook begins with whsec_, a public key with whpk_";
                return Err(Error::Usage(fault.to_owned()));
            }
        }
        if verifier.secrets.is_empty() && verifier.public_keys.is_empty() {
            return Err(Error::Usage("no secret or public key of a webhook is given".to_owned()));
        }
        Ok(verifier)
    }

    /// Checks the signature of a delivery and returns its event. The body must be the bytes as they arrived. It checks
    /// `Service-Signature`, or the headers of Standard Webhooks where there is no such header or only a public key is
    /// given.
    ///
    /// The same event may come twice: skip ids that you have handled.
    ///
    /// # Errors
    /// Fails if the delivery cannot be trusted.
    pub fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<Event, WebhookError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.verify_at(headers, body, now)
    }

    /// Verifies as [`WebhookVerifier::verify`] does, at a time in seconds since 1970.
    ///
    /// # Errors
    /// Fails if the delivery cannot be trusted.
    pub fn verify_at(&self, headers: &HeaderMap, body: &[u8], now: u64) -> Result<Event, WebhookError> {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        match header("service-signature") {
            Some(signature) if !self.secrets.is_empty() => self.check_service(signature, body, now)?,
            _ => {
                let id = header("webhook-id").ok_or(WebhookError::Headers)?;
                let time = header("webhook-timestamp").ok_or(WebhookError::Headers)?;
                let signatures = header("webhook-signature").ok_or(WebhookError::Headers)?;
                check_time(time, now)?;
                self.check_standard(signatures, &[format!("{id}.{time}.").as_bytes(), body].concat())?;
            }
        }
        serde_json::from_slice(body).map_err(WebhookError::Event)
    }

    fn check_service(&self, header: &str, body: &[u8], now: u64) -> Result<(), WebhookError> {
        let parts: Vec<(&str, &str)> = header.split(',').filter_map(|part| part.trim().split_once('=')).collect();
        let (_, time) = parts.iter().find(|(name, _)| *name == "t").ok_or(WebhookError::Headers)?;
        check_time(time, now)?;
        let message = [format!("{time}.").as_bytes(), body].concat();
        let given: Vec<Vec<u8>> =
            parts.iter().filter(|(name, _)| *name == "v1").filter_map(|(_, value)| hex::decode(value).ok()).collect();
        let is_signed = |secret: &String| given.iter().any(|signature| is_hmac(secret.as_bytes(), &message, signature));
        if self.secrets.iter().any(is_signed) { Ok(()) } else { Err(WebhookError::Signature) }
    }

    fn check_standard(&self, header: &str, message: &[u8]) -> Result<(), WebhookError> {
        let is_signed = |part: &str| {
            let (version, text) = part.split_once(',')?;
            let signature = BASE64_STANDARD.decode(text).ok()?;
            match version {
                "v1" => Some(self.secrets.iter().any(|secret| {
                    let key = BASE64_STANDARD.decode(&secret[SECRET_PREFIX.len()..]);
                    key.is_ok_and(|key| is_hmac(&key, message, &signature))
                })),
                "v1a" => Some(
                    self.public_keys
                        .iter()
                        .any(|key| UnparsedPublicKey::new(&ED25519, key).verify(message, &signature).is_ok()),
                ),
                _ => None,
            }
        };
        if header.split(' ').any(|part| is_signed(part) == Some(true)) { Ok(()) } else { Err(WebhookError::Signature) }
    }
}

/// Keeps an attacker from sending an old delivery again.
fn check_time(text: &str, now: u64) -> Result<(), WebhookError> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let time: u64 = is_number.then(|| text.parse().ok()).flatten().ok_or(WebhookError::Headers)?;
    if time.abs_diff(now) > TOLERANCE_SECONDS { Err(WebhookError::Time) } else { Ok(()) }
}

/// Compares in constant time.
fn is_hmac(key: &[u8], message: &[u8], signature: &[u8]) -> bool {
    hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, key), message, signature).is_ok()
}
