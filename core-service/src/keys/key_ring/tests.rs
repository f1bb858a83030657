use std::sync::Arc;

use thesis_net::clock::SystemIdSource;

use super::*;

#[test]
fn sealed_text_opens_only_with_its_secret_and_whole() {
    let ids = Arc::new(SystemIdSource);
    let ring = KeyRing::new(&[1; 32], ids.clone());
    let purpose = SealPurpose::WebhookSecret("wh_1");
    let sealed = ring.seal(purpose, b"whsec_x");
    assert_eq!(ring.open(purpose, &sealed).as_deref(), Some(b"whsec_x".as_slice()));
    assert!(!sealed.windows(7).any(|window| window == b"whsec_x"));
    assert_eq!(KeyRing::new(&[2; 32], ids).open(purpose, &sealed), None);
    assert_eq!(ring.open(purpose, &sealed[..sealed.len() - 1]), None);
    assert_eq!(ring.open(purpose, b""), None);
}

#[test]
fn sealed_text_opens_only_for_its_purpose_and_row() {
    let ring = KeyRing::new(&[1; 32], Arc::new(SystemIdSource));
    let purposes = [
        SealPurpose::WebhookSecret("wh_1"),
        SealPurpose::WebhookSecret("wh_2"),
        SealPurpose::WebhookHeader { webhook: "wh_1", name: "a" },
        SealPurpose::WebhookHeader { webhook: "wh_1", name: "b" },
        SealPurpose::WebhookHeader { webhook: "wh_2", name: "a" },
        SealPurpose::IdempotentAnswer { scope: "prj_1/test", key: "wh_1" },
        SealPurpose::IdempotentAnswer { scope: "prj_1/live", key: "wh_1" },
        SealPurpose::IdempotentAnswer { scope: "prj_1/test", key: "wh_2" },
        SealPurpose::FailedResponse("wh_1", 1),
        SealPurpose::FailedResponse("wh_1", 2),
        SealPurpose::TotpSecret("wh_1"),
        SealPurpose::TotpSecret("usr_1"),
    ];
    for (sealed_for, purpose) in purposes.iter().enumerate() {
        let sealed = ring.seal(*purpose, b"whsec_x");
        for (opened_for, purpose) in purposes.iter().enumerate() {
            assert_eq!(ring.open(*purpose, &sealed).is_some(), sealed_for == opened_for, "{purpose:?}");
        }
    }
}

#[test]
fn each_webhook_has_a_key_of_its_own_that_stays() {
    let ids = Arc::new(SystemIdSource);
    let ring = KeyRing::new(&[1; 32], ids.clone());
    let public_key = ring.webhook_public_key("wh_1");
    assert_eq!(BASE64_STANDARD.decode(public_key.strip_prefix("whpk_").unwrap()).unwrap().len(), 32);
    assert_eq!(public_key, KeyRing::new(&[1; 32], ids.clone()).webhook_public_key("wh_1"));
    assert_ne!(public_key, ring.webhook_public_key("wh_2"));
    assert_ne!(public_key, KeyRing::new(&[2; 32], ids).webhook_public_key("wh_1"));
}

#[test]
fn a_signing_secret_is_a_key_of_standard_webhooks() {
    let secret = KeyRing::new(&[1; 32], Arc::new(SystemIdSource)).signing_secret("seed");
    let key = BASE64_STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    // The standard asks for 24 to 64 bytes.
    assert_eq!(key.len(), 30);
}

#[test]
fn new_keys_have_the_form_of_keys() {
    let ring = KeyRing::new(&[1; 32], Arc::new(SystemIdSource));
    let (test, live) = (ring.new_api_key(false), ring.new_api_key(true));
    assert!(is_api_key(&test) && test.starts_with(TEST_PREFIX));
    assert!(is_api_key(&live) && live.starts_with(LIVE_PREFIX));
    let seeded = ring.seeded_api_key(true, "seed");
    assert!(is_api_key(&seeded) && seeded.starts_with(LIVE_PREFIX));
    assert_eq!(seeded, ring.seeded_api_key(true, "seed"));
    assert_ne!(seeded, ring.seeded_api_key(true, "other"));
    assert!(!is_api_key(&test[1..]) && !is_api_key(&format!("{test}a")));
    assert_ne!(ring.key_hash(&test), ring.key_hash(&live));
    assert_eq!(display_prefix(&test).len(), 13);
    // The documentation names this example.
    let example = with_checksum(format!("{TEST_PREFIX}{}", "0".repeat(34)));
    assert_eq!(example, "svc_test_00000000000000000000000000000000003qCrA8");
    for key in [test, live, seeded] {
        assert_eq!(with_checksum(key[..key.len() - CHECKSUM_LENGTH].to_owned()), key);
    }
}

#[test]
fn links_are_read_only_unchanged() {
    let ids = Arc::new(SystemIdSource);
    let ring = KeyRing::new(&[1; 32], ids.clone());
    for id in ["inv_0123", "usr_0123.4567"] {
        let token = ring.link_token(id);
        assert_eq!(ring.read_link(&token).as_deref(), Some(id));
        assert_eq!(KeyRing::new(&[2; 32], ids.clone()).read_link(&token), None);
        assert_eq!(ring.read_link(&token[..token.len() - 1]), None);
        assert_eq!(ring.read_link(&token.replace("0123", "0124")), None);
    }
    assert_eq!((ring.read_link(""), ring.read_link("inv_0123"), ring.read_link("inv_0123.")), (None, None, None));
}

#[test]
fn a_session_names_its_user_and_its_id_names_no_token() {
    let ring = KeyRing::new(&[1; 32], Arc::new(SystemIdSource));
    let (token, other) = (ring.session_token("usr_0a"), ring.session_token("usr_0a"));
    assert_eq!(user_of_session(&token), Some("usr_0a"));
    assert_ne!(ring.session_id(&token), ring.session_id(&other));
    assert_eq!(ring.session_id(&token).len(), 4 + 2 * SHORT);
    assert!(!token.contains(&ring.session_id(&token)[4..]));
    for wrong in ["", "ses_", "ses_usr_0a", &token[1..], &format!("{token}a"), &token.replace("usr_", "prj_")] {
        assert_eq!(user_of_session(wrong), None, "{wrong}");
    }
    assert_eq!(user_of_session(&ring.session_id(&token)), None);
}
