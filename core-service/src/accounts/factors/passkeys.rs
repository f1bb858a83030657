//! Passkeys: verifies the responses of browsers by W3C Web Authentication Level 3, without attestation.
//!
//! `ring` verifies the signatures. Authenticators write a public key in the canonical CBOR of CTAP2, so comparing its
//! fixed bytes is enough and no CBOR parser is needed. The existing libraries need OpenSSL, or depend on an RSA
//! implementation with a known weakness.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use url::{Host, Url};

/// Maximum length of a credential id, in bytes.
const MAX_CREDENTIAL_ID: usize = 1_023;
/// Length of the authenticator data before the credential: the hash of the host, flags, and the signature count.
const HEAD: usize = 37;
/// Length of the AAGUID, the model of an authenticator, which comes before the length of the credential id.
const MODEL: usize = 16;
/// Flags of the authenticator data.
const USER_PRESENT: u8 = 0x01;
const HAS_CREDENTIAL: u8 = 0x40;
/// The public exponent of every RSA key.
const EXPONENT: [u8; 3] = [1, 0, 1];

/// Algorithm numbers of the COSE registry.
const ES256: i32 = -7;
const EDDSA: i32 = -8;
const RS256: i32 = -257;

/// The relying party: the site for which passkeys are created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasskeySite {
    pub host: String,
    origin: String,
}

impl PasskeySite {
    /// The relying party of a public URL. None where browsers allow no passkeys: without https, or at an IP address.
    pub fn new(public_url: &str) -> Option<Self> {
        let url = Url::parse(public_url).ok()?;
        let Host::Domain(host) = url.host()? else { return None };
        let is_safe = url.scheme() == "https" || host == "localhost";
        is_safe.then(|| Self { host: host.to_owned(), origin: url.origin().ascii_serialization() })
    }
}

/// A public key as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    pub algorithm: i32,
    pub bytes: Vec<u8>,
}

/// A new credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    pub id: Vec<u8>,
    pub key: PublicKey,
    pub count: u32,
}

#[derive(Deserialize)]
struct ClientData {
    r#type: String,
    challenge: String,
    origin: String,
    #[serde(default, rename = "crossOrigin")]
    cross_origin: bool,
}

/// An assertion: the data that an authenticator signed, and the signature.
#[derive(Clone, Copy, Debug)]
pub struct Assertion<'a> {
    pub client_data: &'a [u8],
    pub authenticator_data: &'a [u8],
    pub signature: &'a [u8],
}

fn is_client_data(site: &PasskeySite, challenge: &str, kind: &str, client_data: &[u8]) -> bool {
    let Ok(data) = serde_json::from_slice::<ClientData>(client_data) else { return false };
    let is_challenge = data.challenge == BASE64_URL_SAFE_NO_PAD.encode(challenge);
    data.r#type == kind && is_challenge && data.origin == site.origin && !data.cross_origin
}

/// Returns flags and signature count if the data is for the site and a person was present.
fn read_head(site: &PasskeySite, data: &[u8]) -> Option<(u8, u32)> {
    let (head, _) = data.split_at_checked(HEAD)?;
    let (host, rest) = head.split_at(32);
    let count: [u8; 4] = rest[1..].try_into().ok()?;
    let is_here = host == &Sha256::digest(&site.host)[..] && rest[0] & USER_PRESENT != 0;
    is_here.then(|| (rest[0], u32::from_be_bytes(count)))
}

/// Strips fixed bytes from the front.
fn skip<'a>(bytes: &'a [u8], expected: &[u8]) -> Option<&'a [u8]> {
    bytes.strip_prefix(expected)
}

/// Reads a public key in the canonical form of CTAP2. Extensions may follow it.
fn read_key(cose: &[u8]) -> Option<PublicKey> {
    let ec = || {
        // {1: 2, 3: -7, -1: 1, -2: x, -3: y}
        let (x, rest) =
            skip(cose, &[0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20])?.split_at_checked(32)?;
        let (y, _) = skip(rest, &[0x22, 0x58, 0x20])?.split_at_checked(32)?;
        // The uncompressed point.
        Some(PublicKey { algorithm: ES256, bytes: [&[4][..], x, y].concat() })
    };
    let ed = || {
        // {1: 1, 3: -8, -1: 6, -2: x}
        let (x, _) = skip(cose, &[0xa4, 0x01, 0x01, 0x03, 0x27, 0x20, 0x06, 0x21, 0x58, 0x20])?.split_at_checked(32)?;
        Some(PublicKey { algorithm: EDDSA, bytes: x.to_vec() })
    };
    let rsa = || {
        // {1: 3, 3: -257, -1: n of 2,048 bits, -2: 65537}
        let rest = skip(cose, &[0xa4, 0x01, 0x03, 0x03, 0x39, 0x01, 0x00, 0x20, 0x59, 0x01, 0x00])?;
        let (modulus, rest) = rest.split_at_checked(256)?;
        skip(skip(rest, &[0x21, 0x43])?, &EXPONENT)?;
        Some(PublicKey { algorithm: RS256, bytes: modulus.to_vec() })
    };
    ec().or_else(ed).or_else(rsa)
}

/// Reads the credential that an authenticator created for a challenge; none if any check fails.
pub fn read_credential(site: &PasskeySite, challenge: &str, client_data: &[u8], data: &[u8]) -> Option<Credential> {
    if !is_client_data(site, challenge, "webauthn.create", client_data) {
        return None;
    }
    let (flags, count) = read_head(site, data)?;
    if flags & HAS_CREDENTIAL == 0 {
        return None;
    }
    let (_, rest) = data.split_at_checked(HEAD + MODEL)?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let length = usize::from(u16::from_be_bytes(*length));
    if !(1..=MAX_CREDENTIAL_ID).contains(&length) {
        return None;
    }
    let (id, key) = rest.split_at_checked(length)?;
    Some(Credential { id: id.to_vec(), key: read_key(key)?, count })
}

/// Verifies that a key signed a challenge for the site. Returns the authenticator's signature count.
pub fn verify(site: &PasskeySite, challenge: &str, key: &PublicKey, assertion: Assertion<'_>) -> Option<u32> {
    if !is_client_data(site, challenge, "webauthn.get", assertion.client_data) {
        return None;
    }
    let (_, count) = read_head(site, assertion.authenticator_data)?;
    let signed = [assertion.authenticator_data, &Sha256::digest(assertion.client_data)[..]].concat();
    let (bytes, signature) = (key.bytes.as_slice(), assertion.signature);
    let verified = match key.algorithm {
        ES256 => UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, bytes).verify(&signed, signature),
        EDDSA => UnparsedPublicKey::new(&ED25519, bytes).verify(&signed, signature),
        RS256 => {
            let key = RsaPublicKeyComponents { n: bytes, e: EXPONENT.as_slice() };
            key.verify(&RSA_PKCS1_2048_8192_SHA256, &signed, signature)
        }
        _ => return None,
    };
    verified.ok().map(|()| count)
}

#[cfg(test)]
pub(crate) mod tests;
