use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _},
};
use serde_json::json;

use super::*;

const CHALLENGE: &str = "a.challenge.of.the.service";

thesis_fuzz::fuzz_tests!(passkeys);

/// Any bytes from a browser are either read or refused; none panic.
fn passkeys(bytes: &[u8]) {
    let site = site();
    let (client_data, data) = bytes.split_at(bytes.len() / 2);
    assert_eq!(read_credential(&site, CHALLENGE, client_data, data), None, "nobody guesses a challenge");
    let head = [&Sha256::digest(&site.host)[..], &[USER_PRESENT | HAS_CREDENTIAL, 0, 0, 0, 0], &[0; MODEL]].concat();
    let created = client_data_of("webauthn.create", CHALLENGE, &site.origin);
    if let Some(credential) = read_credential(&site, CHALLENGE, &created, &[&head[..], bytes].concat()) {
        assert!((1..=MAX_CREDENTIAL_ID).contains(&credential.id.len()));
        let length = match credential.key.algorithm {
            ES256 => 65,
            EDDSA => 32,
            RS256 => 256,
            other => panic!("{other}"),
        };
        assert_eq!(credential.key.bytes.len(), length);
    }
}

fn site() -> PasskeySite {
    PasskeySite::new("https://thesis.example").unwrap()
}

fn client_data_of(kind: &str, challenge: &str, origin: &str) -> Vec<u8> {
    let challenge = BASE64_URL_SAFE_NO_PAD.encode(challenge);
    json!({"type": kind, "challenge": challenge, "origin": origin, "crossOrigin": false}).to_string().into_bytes()
}

/// An authenticator with one credential for a site.
pub(crate) struct Authenticator {
    pair: EcdsaKeyPair,
    site: PasskeySite,
    pub(crate) id: Vec<u8>,
    pub(crate) count: u32,
}

impl Authenticator {
    pub(crate) fn new(id: &[u8], site: &PasskeySite) -> Self {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, document.as_ref(), &random).unwrap();
        Self { pair, site: site.clone(), id: id.to_vec(), count: 0 }
    }

    fn head(&self, flags: u8) -> Vec<u8> {
        [&Sha256::digest(&self.site.host)[..], &[flags], &self.count.to_be_bytes()].concat()
    }

    /// The client data and the authenticator data of a registration.
    pub(crate) fn register(&self, challenge: &str) -> (Vec<u8>, Vec<u8>) {
        let point = self.pair.public_key().as_ref();
        let cose = [
            &[0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20][..],
            &point[1..33],
            &[0x22, 0x58, 0x20],
            &point[33..],
        ]
        .concat();
        let length = u16::try_from(self.id.len()).unwrap().to_be_bytes();
        let data = [&self.head(USER_PRESENT | HAS_CREDENTIAL)[..], &[0; MODEL], &length, &self.id, &cose].concat();
        (client_data_of("webauthn.create", challenge, &self.site.origin), data)
    }

    /// The client data, the authenticator data and the signature of a proof. Each proof increases the count by one.
    pub(crate) fn sign(&mut self, challenge: &str) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
        self.count += 1;
        let client_data = client_data_of("webauthn.get", challenge, &self.site.origin);
        let data = self.head(USER_PRESENT);
        let signed = [&data[..], &Sha256::digest(&client_data)[..]].concat();
        let signature = self.pair.sign(&SystemRandom::new(), &signed).unwrap().as_ref().to_vec();
        (client_data, data, signature)
    }
}

fn assertion((client_data, data, signature): &(Vec<u8>, Vec<u8>, Vec<u8>)) -> Assertion<'_> {
    Assertion { client_data, authenticator_data: data, signature }
}

#[test]
fn a_registered_key_verifies_its_own_proofs_only() {
    let site = site();
    let mut own = Authenticator::new(b"one", &site);
    let (client_data, data) = own.register(CHALLENGE);
    let credential = read_credential(&site, CHALLENGE, &client_data, &data).unwrap();
    assert_eq!((credential.id.as_slice(), credential.count), (&b"one"[..], 0));
    let proof = own.sign(CHALLENGE);
    assert_eq!(verify(&site, CHALLENGE, &credential.key, assertion(&proof)), Some(1));
    assert_eq!(verify(&site, "another challenge", &credential.key, assertion(&proof)), None);
    let other = Authenticator::new(b"one", &site).sign(CHALLENGE);
    assert_eq!(verify(&site, CHALLENGE, &credential.key, assertion(&other)), None);
    let mut changed = proof.clone();
    changed.1[36] ^= 1;
    assert_eq!(verify(&site, CHALLENGE, &credential.key, assertion(&changed)), None, "the count is signed");
    // The response to a registration is no proof at a sign-in.
    let mixed = (client_data, proof.1.clone(), proof.2.clone());
    assert_eq!(verify(&site, CHALLENGE, &credential.key, assertion(&mixed)), None);
}

#[test]
fn a_proof_for_another_site_or_without_a_person_is_refused() {
    let own = Authenticator::new(b"one", &site());
    let (client_data, data) = own.register(CHALLENGE);
    let other = PasskeySite::new("https://other.example").unwrap();
    assert_eq!(read_credential(&other, CHALLENGE, &client_data, &data), None);
    let foreign = client_data_of("webauthn.create", CHALLENGE, "https://evil.example");
    assert_eq!(read_credential(&site(), CHALLENGE, &foreign, &data), None);
    let mut absent = data.clone();
    absent[32] &= !USER_PRESENT;
    assert_eq!(read_credential(&site(), CHALLENGE, &client_data, &absent), None);
    for length in 0..data.len() {
        assert_eq!(read_credential(&site(), CHALLENGE, &client_data, &data[..length]), None, "{length}");
    }
}

#[test]
fn ed25519_and_rsa_keys_are_read_too() {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    let cose = [&[0xa4, 0x01, 0x01, 0x03, 0x27, 0x20, 0x06, 0x21, 0x58, 0x20][..], pair.public_key().as_ref()].concat();
    let key = read_key(&cose).unwrap();
    let client_data = client_data_of("webauthn.get", CHALLENGE, "https://thesis.example");
    let data = Authenticator::new(b"one", &site()).head(USER_PRESENT);
    let signed = [&data[..], &Sha256::digest(&client_data)[..]].concat();
    let proof = (client_data, data, pair.sign(&signed).as_ref().to_vec());
    assert_eq!(verify(&site(), CHALLENGE, &key, assertion(&proof)), Some(0));
    let head = [0xa4, 0x01, 0x03, 0x03, 0x39, 0x01, 0x00, 0x20, 0x59, 0x01, 0x00];
    let rsa = |exponent: &[u8]| read_key(&[&head[..], &[9; 256], &[0x21, 0x43], exponent].concat());
    assert_eq!(rsa(&EXPONENT), Some(PublicKey { algorithm: RS256, bytes: vec![9; 256] }));
    assert_eq!(rsa(&[0, 0, 3]), None);
}

#[test]
fn passkeys_need_a_named_host_and_https() {
    for (url, host) in [
        ("https://thesis.example", Some("thesis.example")),
        ("https://thesis.example:8443", Some("thesis.example")),
        ("http://localhost:8080", Some("localhost")),
        ("http://thesis.example", None),
        ("https://192.0.2.1", None),
        ("http://127.0.0.1:8080", None),
        ("", None),
    ] {
        assert_eq!(PasskeySite::new(url).map(|site| site.host).as_deref(), host, "{url}");
    }
}
