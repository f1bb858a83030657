//! Keys derived from the one secret: the pepper of key hashes, the encryption of values that are read again, and
//! the signatures of list cursors and of one-time links.

#[cfg(test)]
mod tests;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use chacha20poly1305::{
    ChaCha20Poly1305, Key, KeyInit as _, Nonce,
    aead::{Aead as _, Payload},
};
use hmac::{Hmac, Mac as _};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use thesis_net::clock::SharedIdSource;
use thesis_proto::webhook::{PUBLIC_KEY_PREFIX, SECRET_PREFIX};

use crate::domain::list_cursor::CursorSigner;

const NONCE: usize = 12;
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Characters after the prefix of an API key.
pub const KEY_LENGTH: usize = 40;
/// The last of these characters: a checksum by which secret scanners recognize a key. Keys that an operator chose, and
/// keys of earlier versions, have none, so the gate does not check it.
const CHECKSUM_LENGTH: usize = 6;
/// Prefix of test keys.
pub const TEST_PREFIX: &str = "svc_test_";
/// Prefix of live keys.
pub const LIVE_PREFIX: &str = "svc_live_";

/// Prefix of sessions, in the token and in the id.
const SESSION_PREFIX: &str = "ses_";
/// Characters of a session's token after the user.
const SESSION_LENGTH: usize = 40;
const DEVICE_PREFIX: &str = "dev_";
/// Characters of a device's token after the prefix.
const DEVICE_LENGTH: usize = 40;
/// Bytes of a hash that names a session, or signs a link: 128 bits.
const SHORT: usize = 16;

/// The purpose of a sealed value, with the identity of its row. A value opens for no other one.
#[derive(Clone, Copy, Debug)]
pub enum SealPurpose<'a> {
    /// The signing secret of the webhook with this id: the present one or the old one.
    WebhookSecret(&'a str),
    /// The value of a webhook's header.
    WebhookHeader {
        /// The webhook's id.
        webhook: &'a str,
        /// The header's name, as it is stored.
        name: &'a str,
    },
    /// The beginning of the response to a failed attempt: the delivery's id, and the attempt's number.
    FailedResponse(&'a str, i32),
    /// The answer that is kept for an idempotency key.
    IdempotentAnswer {
        /// The project and environment of the key.
        scope: &'a str,
        /// The key as the client gave it.
        key: &'a str,
    },
    /// The secret of the authenticator app of the user with this id.
    TotpSecret(&'a str),
}

impl SealPurpose<'_> {
    /// The associated data of the cipher. No id, name or scope contains a NUL, so each purpose has its own text.
    fn associated_data(self) -> Vec<u8> {
        match self {
            Self::WebhookSecret(id) => ["webhook secret", id].join("\0"),
            Self::WebhookHeader { webhook, name } => ["webhook header", webhook, name].join("\0"),
            Self::FailedResponse(id, number) => ["failed response", id, &number.to_string()].join("\0"),
            Self::IdempotentAnswer { scope, key } => ["idempotent answer", scope, key].join("\0"),
            Self::TotpSecret(user) => ["authenticator secret", user].join("\0"),
        }
        .into_bytes()
    }
}

/// Holds the keys derived from the service's secret.
#[derive(Clone)]
pub struct KeyRing {
    pepper: [u8; 32],
    cipher: ChaCha20Poly1305,
    cursors: [u8; 32],
    sessions: [u8; 32],
    links: [u8; 32],
    known: [u8; 32],
    emails: [u8; 32],
    webhooks: [u8; 32],
    store_check: [u8; SHORT],
    ids: SharedIdSource,
}

fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut mac = <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(text);
    mac.finalize().into_bytes().into()
}

impl KeyRing {
    /// Derives everything from 32 secret bytes.
    #[must_use]
    pub fn new(secret: &[u8; 32], ids: SharedIdSource) -> Self {
        let mut store_check = [0; SHORT];
        store_check.copy_from_slice(&hmac(secret, b"trade-thesis store check v1")[..SHORT]);
        Self {
            pepper: hmac(secret, b"trade-thesis api key pepper v1"),
            cipher: ChaCha20Poly1305::new(&Key::from(hmac(secret, b"trade-thesis sealing v1"))),
            cursors: hmac(secret, b"trade-thesis list cursors v1"),
            sessions: hmac(secret, b"trade-thesis sessions v1"),
            links: hmac(secret, b"trade-thesis one-time links v1"),
            known: hmac(secret, b"trade-thesis known networks and devices v1"),
            emails: hmac(secret, b"trade-thesis e-mails v1"),
            webhooks: hmac(secret, b"trade-thesis webhook signing keys v1"),
            store_check,
            ids,
        }
    }

    /// A keyed hash that distinguishes the secret from others and reveals nothing of it.
    pub(super) const fn store_check(&self) -> &[u8] {
        &self.store_check
    }

    /// The keyed hash under which an API key is stored.
    #[must_use]
    pub fn key_hash(&self, raw: &str) -> [u8; 32] {
        hmac(&self.pepper, raw.as_bytes())
    }

    /// Signs list cursors.
    #[must_use]
    pub fn cursor_signer(&self) -> CursorSigner {
        CursorSigner::new(self.cursors)
    }

    /// Encrypts a value to store, for one purpose.
    #[must_use]
    pub fn seal(&self, purpose: SealPurpose<'_>, plain: &[u8]) -> Vec<u8> {
        let mut nonce = [0; NONCE];
        self.ids.fill(&mut nonce);
        let mut sealed = nonce.to_vec();
        let payload = Payload { msg: plain, aad: &purpose.associated_data() };
        let text = self.cipher.encrypt(&Nonce::from(nonce), payload);
        sealed.extend(text.expect("ChaCha20-Poly1305 takes any message of this service's sizes"));
        sealed
    }

    /// Decrypts a value from [`KeyRing::seal`]. None when the value has another secret or purpose, or is damaged.
    #[must_use]
    pub fn open(&self, purpose: SealPurpose<'_>, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, text) = sealed.split_at_checked(NONCE)?;
        let nonce: [u8; NONCE] = nonce.try_into().ok()?;
        let payload = Payload { msg: text, aad: &purpose.associated_data() };
        self.cipher.decrypt(&Nonce::from(nonce), payload).ok()
    }

    /// Creates a raw API key.
    #[must_use]
    pub fn new_api_key(&self, live: bool) -> String {
        with_checksum(self.base62(key_prefix(live), KEY_LENGTH - CHECKSUM_LENGTH))
    }

    /// The raw API key that is named after a seed.
    #[must_use]
    pub fn seeded_api_key(&self, live: bool, seed: &str) -> String {
        let mut key = self.seeded_base62(key_prefix(live), "api key", seed);
        key.truncate(key.len() - CHECKSUM_LENGTH);
        with_checksum(key)
    }

    /// The webhook signing secret that is named after a seed.
    #[must_use]
    pub fn signing_secret(&self, seed: &str) -> String {
        self.seeded_base62(SECRET_PREFIX, "signing secret", seed)
    }

    /// The seed of the Ed25519 key that signs a webhook's deliveries. A rotation of the signing secret does not change
    /// it: the customer has only the public key, which is not secret.
    #[must_use]
    pub fn webhook_signing_key(&self, webhook_id: &str) -> [u8; 32] {
        hmac(&self.webhooks, webhook_id.as_bytes())
    }

    /// The public key of [`KeyRing::webhook_signing_key`], in the form of Standard Webhooks.
    #[must_use]
    pub fn webhook_public_key(&self, webhook_id: &str) -> String {
        let pair = Ed25519KeyPair::from_seed_unchecked(&self.webhook_signing_key(webhook_id));
        let pair = pair.expect("a seed of 32 bytes is a key");
        format!("{PUBLIC_KEY_PREFIX}{}", BASE64_STANDARD.encode(pair.public_key()))
    }

    /// A prefix with 40 letters and digits that are named after a seed, for one purpose.
    fn seeded_base62(&self, prefix: &str, purpose: &str, seed: &str) -> String {
        let first = hmac(&self.pepper, format!("{purpose} {seed}").as_bytes());
        let second = hmac(&self.pepper, &first);
        let characters = first.iter().chain(&second).map(|byte| char::from(BASE62[usize::from(byte % 62)]));
        format!("{prefix}{}", characters.take(KEY_LENGTH).collect::<String>())
    }

    /// The text of the stream ticket that is named after a seed.
    #[must_use]
    pub fn stream_ticket(&self, seed: &str) -> String {
        let random = hmac(&self.pepper, format!("stream ticket {seed}").as_bytes());
        format!("tkt_{}", hex::encode(random))
    }

    /// The keyed hash under which a stream ticket is stored.
    #[must_use]
    pub fn ticket_hash(&self, text: &str) -> String {
        hex::encode(hmac(&self.pepper, text.as_bytes()))
    }

    /// Creates the token of a new session of a user.
    #[must_use]
    pub fn session_token(&self, user_id: &str) -> String {
        self.base62(&format!("{SESSION_PREFIX}{user_id}_"), SESSION_LENGTH)
    }

    /// The id of the session with a token: a keyed hash, which leads to no token.
    #[must_use]
    pub fn session_id(&self, token: &str) -> String {
        format!("{SESSION_PREFIX}{}", hex::encode(&hmac(&self.sessions, token.as_bytes())[..SHORT]))
    }

    /// Creates the token by which a device proves later that a user has signed in there.
    #[must_use]
    pub fn new_device_token(&self) -> String {
        self.base62(DEVICE_PREFIX, DEVICE_LENGTH)
    }

    /// The keyed hash under which a user's network, or the token of their device, is stored.
    #[must_use]
    pub fn known_hash(&self, user_id: &str, network_or_token: &str) -> String {
        hex::encode(&hmac(&self.known, format!("{user_id}/{network_or_token}").as_bytes())[..SHORT])
    }

    /// The last part of a one-time link: the signed id of its purpose.
    #[must_use]
    pub fn link_token(&self, id: &str) -> String {
        format!("{id}.{}", self.link_signature(id))
    }

    /// The id in a token from [`KeyRing::link_token`]; none for any other text.
    #[must_use]
    pub fn read_link(&self, token: &str) -> Option<String> {
        let (id, signature) = token.rsplit_once('.')?;
        let is_ours = bool::from(self.link_signature(id).as_bytes().ct_eq(signature.as_bytes()));
        is_ours.then(|| id.to_owned())
    }

    fn link_signature(&self, id: &str) -> String {
        hex::encode(&hmac(&self.links, id.as_bytes())[..SHORT])
    }

    /// The keyed hash of an e-mail in its folded form, used in place of the e-mail.
    #[must_use]
    pub fn email_hash(&self, folded: &str) -> String {
        hex::encode(hmac(&self.emails, folded.as_bytes()))
    }

    fn base62(&self, prefix: &str, length: usize) -> String {
        let mut text = prefix.to_owned();
        while text.len() < prefix.len() + length {
            let mut byte = [0];
            self.ids.fill(&mut byte);
            // 248 is the largest multiple of 62 in a byte; the rest would favour the first characters.
            if byte[0] < 248 {
                text.push(char::from(BASE62[usize::from(byte[0] % 62)]));
            }
        }
        text
    }
}

fn key_prefix(live: bool) -> &'static str {
    if live { LIVE_PREFIX } else { TEST_PREFIX }
}

/// Adds the CRC-32 of a key's other characters, prefix included, as six digits of base 62 (`0-9A-Za-z`), highest first.
fn with_checksum(mut key: String) -> String {
    let mut rest = crc32fast::hash(key.as_bytes());
    let mut digits = [b'0'; CHECKSUM_LENGTH];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[(rest % 62) as usize];
        rest /= 62;
    }
    key.extend(digits.map(char::from));
    key
}

/// True if a text has the form of an API key.
#[must_use]
pub fn is_api_key(raw: &str) -> bool {
    raw.strip_prefix(TEST_PREFIX)
        .or_else(|| raw.strip_prefix(LIVE_PREFIX))
        .is_some_and(|rest| rest.len() == KEY_LENGTH && rest.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

/// The user whose session a token names, if it has the form of a token.
#[must_use]
pub fn user_of_session(token: &str) -> Option<&str> {
    let (user, random) = token.strip_prefix(SESSION_PREFIX)?.rsplit_once('_')?;
    let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let has_form = user.len() < 64 && user.strip_prefix("usr_").is_some_and(is_plain);
    (has_form && random.len() == SESSION_LENGTH && is_plain(random)).then_some(user)
}

/// The part of a raw key that may be shown.
#[must_use]
pub fn display_prefix(raw: &str) -> String {
    raw.chars().take(TEST_PREFIX.len() + 4).collect()
}
