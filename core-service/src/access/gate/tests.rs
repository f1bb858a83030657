use super::*;

#[test]
fn what_a_request_says_of_itself_shows_no_key() {
    let key = "svc_live_0123456789012345678901234567890123456789";
    let meta = RequestMeta { authorization: Some(format!("Bearer {key}").into()), ..RequestMeta::default() };
    assert_eq!(meta.authorization().and_then(bearer), Some(key));
    assert!(!format!("{meta:?}").contains(key));
}
