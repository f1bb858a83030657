//! Verification of the signatures of deliveries.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue};
use ring::{
    hmac,
    signature::{Ed25519KeyPair, KeyPair as _},
};

use crate::{WebhookError, WebhookVerifier};

const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW: &str = "whsec_bmV3IHNlY3JldCBvZiAyNCBieXRl";
const AT: u64 = 1_795_000_000;
const BODY: &[u8] = br#"{"object":"event","id":"evt_1","type":"thesis.created","livemode":false,
    "created_at":"2026-01-31T12:00:00.000Z"}"#;

fn hmac_of(key: &[u8], prefix: &str) -> Vec<u8> {
    let message = [prefix.as_bytes(), BODY].concat();
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), &message).as_ref().to_vec()
}

fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
    let field =
        |&(name, value): &(&'static str, &str)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    fields.iter().map(field).collect()
}

fn service_headers(secrets: &[&str]) -> HeaderMap {
    let prefix = format!("{AT}.");
    let signatures: Vec<String> =
        secrets.iter().map(|secret| format!(",v1={}", hex::encode(hmac_of(secret.as_bytes(), &prefix)))).collect();
    headers(&[("service-signature", &format!("t={AT}{}", signatures.concat()))])
}

fn standard_headers(signatures: &str) -> HeaderMap {
    let time = AT.to_string();
    headers(&[("webhook-id", "evt_1"), ("webhook-timestamp", &time), ("webhook-signature", signatures)])
}

fn verifier(keys: &[&str]) -> WebhookVerifier {
    WebhookVerifier::new(keys).unwrap()
}

#[test]
fn a_delivery_is_verified_through_a_rotation() {
    let both = service_headers(&[NEW, OLD]);
    for keys in [&[OLD][..], &[NEW], &[OLD, NEW]] {
        assert_eq!(verifier(keys).verify_at(&both, BODY, AT).unwrap().id, "evt_1");
    }
    let outcome = verifier(&[OLD]).verify_at(&service_headers(&[NEW]), BODY, AT);
    assert!(matches!(outcome, Err(WebhookError::Signature)));
}

#[test]
fn a_changed_delivery_is_refused() {
    let changed = [b" ".as_slice(), BODY].concat();
    let outcome = verifier(&[OLD]).verify_at(&service_headers(&[OLD]), &changed, AT);
    assert!(matches!(outcome, Err(WebhookError::Signature)));
    for header in ["v1=00", "t=x,v1=00", "t=-1,v1=00", "t=+1,v1=00", "t=,v1=00", ""] {
        let outcome = verifier(&[OLD]).verify_at(&headers(&[("service-signature", header)]), BODY, AT);
        assert!(matches!(outcome, Err(WebhookError::Headers)), "{header}");
    }
    for header in [format!("t={AT}"), format!("t={AT},v1="), format!("t={AT},v1=zz")] {
        let outcome = verifier(&[OLD]).verify_at(&headers(&[("service-signature", &header)]), BODY, AT);
        assert!(matches!(outcome, Err(WebhookError::Signature)), "{header}");
    }
    assert!(matches!(verifier(&[OLD]).verify_at(&HeaderMap::new(), BODY, AT), Err(WebhookError::Headers)));
}

#[test]
fn a_delivery_is_valid_for_five_minutes() {
    let signed = service_headers(&[OLD]);
    for now in [AT - 301, AT + 301] {
        assert!(matches!(verifier(&[OLD]).verify_at(&signed, BODY, now), Err(WebhookError::Time)));
    }
    for now in [AT - 300, AT + 300] {
        assert!(verifier(&[OLD]).verify_at(&signed, BODY, now).is_ok());
    }
}

#[test]
fn standard_webhooks_are_verified() {
    let private = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    let public = format!("whpk_{}", BASE64_STANDARD.encode(private.public_key()));
    let prefix = format!("evt_1.{AT}.");
    let key = BASE64_STANDARD.decode(&OLD["whsec_".len()..]).unwrap();
    let by_secret = format!("v1,{}", BASE64_STANDARD.encode(hmac_of(&key, &prefix)));
    let by_key = format!("v1a,{}", BASE64_STANDARD.encode(private.sign(&[prefix.as_bytes(), BODY].concat())));
    for signatures in [format!("{by_secret} {by_key}"), format!("v2,x {by_key} {by_secret}")] {
        let signed = standard_headers(&signatures);
        for key in [OLD, &public] {
            assert!(verifier(&[key]).verify_at(&signed, BODY, AT).is_ok(), "{signatures}");
            assert!(matches!(verifier(&[key]).verify_at(&signed, BODY, AT + 301), Err(WebhookError::Time)));
        }
        assert!(matches!(verifier(&[NEW]).verify_at(&signed, BODY, AT), Err(WebhookError::Signature)));
    }
    // With a public key alone, Service-Signature cannot be checked and is ignored.
    let outcome = verifier(&[&public]).verify_at(&service_headers(&[OLD]), BODY, AT);
    assert!(matches!(outcome, Err(WebhookError::Headers)));
    // If Service-Signature is wrong, the headers of Standard Webhooks do not help.
    let mut signed = standard_headers(&by_secret);
    signed.extend(headers(&[("service-signature", &format!("t={AT},v1=00"))]));
    assert!(matches!(verifier(&[OLD]).verify_at(&signed, BODY, AT), Err(WebhookError::Signature)));
}

#[test]
fn a_key_of_another_form_is_refused() {
    let none: &[&str] = &[];
    for keys in [none, &[""], &["whsec_"], &["secret"], &["whpk_AAAA"], &[OLD, "whpk_"]] {
        assert!(WebhookVerifier::new(keys).is_err(), "{keys:?}");
    }
    assert!(!format!("{:?}", verifier(&[OLD])).contains(OLD));
}
