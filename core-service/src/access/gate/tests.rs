use super::*;

#[test]
fn what_a_request_says_of_itself_shows_no_key() {
    let key = "svc_live_0123456789012345678901234567890123456789";
    let meta = RequestMeta { authorization: Some(format!("Bearer {key}").into()), ..RequestMeta::default() };
    assert_eq!(meta.authorization().and_then(bearer), Some(key));
    assert!(!format!("{meta:?}").contains(key));
}

#[test]
fn a_credential_stands_behind_its_scheme() {
    for (authorization, raw) in [
        ("Bearer x", Some("x")),
        ("bearer  x ", Some("x")),
        ("Basic x", None),
        ("Bearer ", None),
        ("Bearer", None),
        ("x", None),
    ] {
        assert_eq!(bearer(authorization), raw, "{authorization}");
    }
}

#[test]
fn the_rest_of_a_minute_is_rounded_up_to_seconds() {
    assert_eq!([0, 1, 1_000, 58_999, 59_000, 59_999, -1].map(seconds_left), [60, 60, 59, 2, 1, 1, 1]);
}
