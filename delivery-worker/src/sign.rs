//! Signs attempts: makes `Service-Signature` and the headers of Standard Webhooks.

use std::{fmt::Write as _, sync::Arc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{HeaderMap, HeaderName, HeaderValue};
use quick_cache::sync::Cache;
use ring::signature::Ed25519KeyPair;
use sha2::Sha256;
use thesis_proto::{
    v1::ClaimResponse,
    webhook::{Attempt, SECRET_PREFIX, SIGNATURE, STANDARD_SIGNATURE, STANDARD_TIMESTAMP},
};

/// Maximum number of webhooks whose key pairs are in memory.
const MAX_KEYS: usize = 16_384;
/// Bytes of the seed of an Ed25519 key.
const SEED_BYTES: usize = 32;

/// Signs attempts. It caches the key pairs of webhooks, because computing a pair takes as long as a signature.
pub struct Signer {
    pairs: Cache<[u8; SEED_BYTES], Arc<Ed25519KeyPair>>,
}

impl Default for Signer {
    fn default() -> Self {
        Self { pairs: Cache::new(MAX_KEYS) }
    }
}

impl Signer {
    /// Returns the headers of an attempt, signed at this time. `None` if a value has characters that HTTP does not
    /// allow.
    pub fn headers(&self, claim: &ClaimResponse, unix_seconds: i64) -> Option<HeaderMap> {
        let attempt = Attempt {
            event_id: &claim.event_id,
            event_type: claim.event_type(),
            delivery_id: &claim.delivery_id,
            number: claim.attempt,
            replay_of: claim.replay_of.as_deref(),
            is_test: claim.is_test,
        };
        let text = |value: &str| HeaderValue::try_from(value).ok();
        let mut headers = HeaderMap::with_capacity(16 + claim.headers.len());
        // The service's own headers come after the customer's, and replace headers of the same name.
        for header in &claim.headers {
            let mut value = text(header.value.as_deref().unwrap_or_default())?;
            value.set_sensitive(true);
            headers.insert(HeaderName::try_from(&header.name).ok()?, value);
        }
        for (name, value) in attempt.headers() {
            headers.insert(name, text(&value)?);
        }
        headers.insert(SIGNATURE, text(&signature(unix_seconds, &claim.body, &claim.secrets))?);
        let standard = self.standard_signature(claim, unix_seconds);
        if !standard.is_empty() {
            headers.insert(STANDARD_TIMESTAMP, HeaderValue::from(unix_seconds));
            headers.insert(STANDARD_SIGNATURE, text(&standard)?);
        }
        Some(headers)
    }

    /// Returns the signatures of `<id>.<t>.<body>`: `v1,<base64>` for each secret that is a key of Standard Webhooks,
    /// in the order of the secrets, then `v1a,<base64>`.
    fn standard_signature(&self, claim: &ClaimResponse, unix_seconds: i64) -> String {
        let prefix = format!("{}.{unix_seconds}.", claim.event_id);
        let mut signatures: Vec<String> = Vec::with_capacity(claim.secrets.len() + 1);
        for key in claim.secrets.iter().filter_map(|secret| standard_key(secret)) {
            let signature = hmac(&key, prefix.as_bytes(), &claim.body);
            signatures.push(format!("v1,{}", BASE64_STANDARD.encode(signature)));
        }
        if let Some(pair) = self.pair(&claim.signing_key) {
            let signature = pair.sign(&[prefix.as_bytes(), &claim.body].concat());
            signatures.push(format!("v1a,{}", BASE64_STANDARD.encode(signature)));
        }
        signatures.join(" ")
    }

    /// Returns the key pair of a seed, or none if the bytes are not a seed.
    fn pair(&self, seed: &[u8]) -> Option<Arc<Ed25519KeyPair>> {
        let seed: [u8; SEED_BYTES] = seed.try_into().ok()?;
        self.pairs.get_or_insert_with(&seed, || Ed25519KeyPair::from_seed_unchecked(&seed).map(Arc::new)).ok()
    }
}

/// The key of Standard Webhooks in a signing secret. None if the secret is not `whsec_` and base64. Secrets that the
/// service creates always are.
#[must_use]
pub fn standard_key(secret: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(secret.strip_prefix(SECRET_PREFIX)?).ok().filter(|key| !key.is_empty())
}

/// `t=<unix seconds>,v1=<hex>` with one `v1` per secret, in their order: the HMAC-SHA256 of `<t>.<body>`.
fn signature(unix_seconds: i64, body: &[u8], secrets: &[String]) -> String {
    let mut header = format!("t={unix_seconds}");
    let prefix = format!("{unix_seconds}.");
    for secret in secrets {
        let signature = hmac(secret.as_bytes(), prefix.as_bytes(), body);
        // Writing to a string cannot fail.
        let _ = write!(header, ",v1={}", hex::encode(signature));
    }
    header
}

/// The HMAC-SHA256 of a prefix and a body.
fn hmac(key: &[u8], prefix: &[u8], body: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("an HMAC key may have any length");
    mac.update(prefix);
    mac.update(body);
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use ring::signature::{ED25519, KeyPair as _, UnparsedPublicKey};
    use thesis_proto::v1::WebhookHeader;

    use super::*;

    const BODY: &[u8] = br#"{"id":"evt_1","object":"event"}"#;
    const NEW: &str = "acc43e3edcf1ee02ec44d5ccb60d186878734a28089cf564180bd1c0bdd36a79";
    const OLD: &str = "146a5751b92ec9fd50121cc19743e6e00519dcb0f63ffbf5a624e1146e524fa6";

    /// The test vector of the standard's own libraries: secret, id, time, body and signature.
    const EXAMPLE: [&str; 5] = [
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "1614265330",
        r#"{"test": 2432232314}"#,
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    ];

    fn claim(secrets: &[&str], signing_key: &'static [u8]) -> ClaimResponse {
        ClaimResponse {
            event_id: EXAMPLE[1].to_owned(),
            body: EXAMPLE[3].into(),
            secrets: secrets.iter().map(|&secret| secret.to_owned()).collect(),
            signing_key: signing_key.into(),
            ..ClaimResponse::default()
        }
    }

    fn sent(claim: &ClaimResponse, name: &str) -> Option<String> {
        let headers = Signer::default().headers(claim, EXAMPLE[2].parse().unwrap()).unwrap();
        headers.get(name).map(|value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn signs_time_and_body() {
        assert_eq!(signature(1_767_225_600, BODY, &["whsec_new".into()]), format!("t=1767225600,v1={NEW}"));
    }

    #[test]
    fn signs_with_each_secret_in_order() {
        let secrets = ["whsec_new".into(), "whsec_old".into()];
        assert_eq!(signature(1_767_225_600, BODY, &secrets), format!("t=1767225600,v1={NEW},v1={OLD}"));
    }

    #[test]
    fn signs_as_the_standard_does() {
        let claim = claim(&[EXAMPLE[0]], &[]);
        assert_eq!(sent(&claim, "webhook-signature").as_deref(), Some(EXAMPLE[4]));
        assert_eq!(sent(&claim, "webhook-id").as_deref(), Some(EXAMPLE[1]));
        assert_eq!(sent(&claim, "webhook-timestamp").as_deref(), Some(EXAMPLE[2]));
    }

    #[test]
    fn each_secret_signs_and_then_the_key() {
        let seed = &[7; SEED_BYTES];
        let signed = sent(&claim(&["whsec_AAAA", EXAMPLE[0]], seed), "webhook-signature").unwrap();
        let parts: Vec<&str> = signed.split(' ').collect();
        let [first, second, third] = parts[..] else { panic!("{signed}") };
        assert!(first.starts_with("v1,") && first != EXAMPLE[4]);
        assert_eq!(second, EXAMPLE[4]);
        let signature = BASE64_STANDARD.decode(third.strip_prefix("v1a,").unwrap()).unwrap();
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).unwrap();
        let public_key = UnparsedPublicKey::new(&ED25519, pair.public_key());
        let message = format!("{}.{}.{}", EXAMPLE[1], EXAMPLE[2], EXAMPLE[3]);
        public_key.verify(message.as_bytes(), &signature).unwrap();
        assert!(public_key.verify(format!("{message} ").as_bytes(), &signature).is_err());
    }

    #[test]
    fn a_secret_that_is_no_key_of_the_standard_signs_only_ours() {
        for secret in ["whsec_of_my_own", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_"] {
            let claim = claim(&[secret], &[]);
            assert_eq!(sent(&claim, "webhook-signature"), None, "{secret}");
            assert!(sent(&claim, "service-signature").unwrap().contains(",v1="), "{secret}");
        }
    }

    #[test]
    fn own_headers_are_sent_and_replace_none_of_the_service() {
        let header = |name: &str, value: &str| WebhookHeader { name: name.to_owned(), value: Some(value.to_owned()) };
        let headers = vec![header("X-Api-Key", "k 1"), header("Service-Event-Id", "forged")];
        let claim = ClaimResponse { headers, ..claim(&[EXAMPLE[0]], &[]) };
        assert_eq!(sent(&claim, "x-api-key").as_deref(), Some("k 1"));
        assert_eq!(sent(&claim, "service-event-id").as_deref(), Some(EXAMPLE[1]));
        let headers = Signer::default().headers(&claim, 1).unwrap();
        assert!(!format!("{headers:?}").contains("k 1"), "a log must not show it");
    }
}
