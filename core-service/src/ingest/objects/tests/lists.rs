use super::{super::lists::ThesisPage, *};
use crate::domain::row::Wallet;

thesis_fuzz::fuzz_tests!(upstream_pages);

/// A page is read in the form that its values have, and a profile, a token and wallets are read from any object.
fn upstream_pages(input: &[u8]) {
    let read = page(input, NOW);
    // A page may be read although one of its values is too deep.
    let Ok(value) = json(input) else { return };
    if let Ok(read) = read {
        assert_eq!(read.theses.len(), value["data"].as_array().map_or(0, Vec::len));
        assert!(read.next_cursor.is_none_or(|cursor| value["next_cursor"] == cursor));
    }
    let _ = (profile(&value, NOW), token(&value, NOW), engagement(&value, NOW));
    assert!(wallets(&value, NOW).map_or(0, |wallets| wallets.len()) <= 100);
}

fn page_of(value: &Value) -> Result<ThesisPage, Refusal> {
    page(value.to_string().as_bytes(), NOW)
}

#[test]
fn a_page_tells_of_each_thesis_and_what_follows() {
    let older = with(&["updated_at"], time(NOW - 90_000));
    let read = page_of(&json!({"data": [whole(), 5, older, {}], "next_cursor": "c 1", "total": 9})).unwrap();
    let verdicts: Vec<_> =
        read.theses.iter().map(|one| one.as_ref().map(Vec::len).map_err(|refusal| *refusal)).collect();
    assert_eq!(verdicts, [Ok(1), Err(Refusal::Malformed), Ok(1), Err(Refusal::Field("id"))]);
    assert_eq!((read.next_cursor.as_deref(), read.broken_off), (Some("c 1"), None));
    assert_eq!(read.oldest_ms, Some(NOW - 90_000));
    for end in [json!({"data": []}), json!({"data": [], "next_cursor": null}), json!({"data": [], "next_cursor": ""})] {
        let read = page_of(&end).unwrap();
        assert_eq!(
            read,
            ThesisPage { theses: Vec::new(), next_cursor: None, broken_off: None, oldest_ms: None, newest_ms: None }
        );
    }
}

#[test]
fn a_wrong_cursor_spoils_no_thesis() {
    for wrong in [json!(7), json!({}), json!("x".repeat(2_049))] {
        let read = page_of(&json!({"data": [whole()], "next_cursor": wrong})).unwrap();
        assert_eq!((read.theses.len(), read.next_cursor), (1, None));
        assert_eq!(read.broken_off, Some(Refusal::Field("next_cursor")));
    }
}

#[test]
fn a_page_has_a_limit_of_theses_and_each_thesis_one_of_bytes() {
    let zeros = |count| page(format!("{{\"data\":[{}]}}", vec!["0"; count].join(",")).as_bytes(), NOW);
    assert_eq!(zeros(2_000).unwrap().theses.len(), 2_000);
    assert_eq!(zeros(2_001), Err(Refusal::Field("data")));
    let large = with(&["email"], json!("x".repeat(256 * 1024)));
    let read = page_of(&json!({"data": [large, whole()]})).unwrap();
    assert_eq!(read.theses[0], Err(Refusal::TooLarge));
    assert!(read.theses[1].is_ok());
}

#[test]
fn what_is_no_list_is_refused() {
    for (value, refusal) in [
        (json!([whole()]), Refusal::Malformed),
        (json!({}), Refusal::Field("data")),
        (json!({"data": {"0": whole()}}), Refusal::Field("data")),
    ] {
        assert_eq!(page_of(&value), Err(refusal));
        assert_eq!(wallets(&value, NOW), Err(refusal));
    }
    assert_eq!(page(b"{\"data\":[", NOW), Err(Refusal::Malformed));
}

#[test]
fn only_public_and_authorized_wallets_are_kept() {
    let wallet = |address: &str, at: i64| {
        json!({"address": address, "network": "base", "public": true, "authorized": true, "observed_at": time(at),
            "balance": 5})
    };
    let mut list = vec![wallet("0x1", NOW - 2), wallet("0x2", NOW - 1)];
    for (name, wrong) in [
        ("public", json!(false)),
        ("public", json!("true")),
        ("authorized", json!(null)),
        ("authorized", json!(1)),
        ("address", json!("")),
        ("address", json!("a".repeat(141))),
        ("network", json!("n".repeat(33))),
        ("network", json!(5)),
        ("observed_at", time(NOW + 5 * MINUTE + 1)),
        ("observed_at", json!(null)),
    ] {
        let mut other = wallet("0x3", NOW);
        change(&mut other, &[name], Some(wrong));
        list.push(other.clone());
        change(&mut other, &[name], None);
        list.push(other);
    }
    let kept = |address: &str, observed_at: i64| Wallet {
        address: address.to_owned(),
        network: "base".to_owned(),
        observed_at,
    };
    assert_eq!(wallets(&json!({"data": list}), NOW).unwrap(), [kept("0x2", NOW - 1), kept("0x1", NOW - 2)]);
    let many: Vec<_> = (0..150_i64).map(|number| wallet(&number.to_string(), NOW - 150 + number)).collect();
    let newest = wallets(&json!({"data": many}), NOW).unwrap();
    assert_eq!((newest.len(), newest[0].address.as_str()), (100, "149"));
}
