use proptest::{prelude::*, sample::select};

use super::*;
use crate::v1;

fn token(id: &str, symbol: &str, chain: &str, address: &str) -> Option<v1::TokenRef> {
    Some(v1::TokenRef {
        id: id.into(),
        symbol: symbol.into(),
        name: None,
        chain: chain.into(),
        address: address.into(),
    })
}

fn event(event_type: EventType, handle: &str, token: Option<v1::TokenRef>) -> Event {
    let handle = handle.to_owned();
    let data = match event_type {
        EventType::Unspecified => None,
        EventType::ThesisCreated => Some(Data::ThesisCreated(v1::ThesisCreatedData {
            profile: Some(v1::ProfileRef { handle, ..Default::default() }),
            token,
            ..Default::default()
        })),
        EventType::ProfileUpdated => Some(Data::ProfileUpdated(v1::ProfileUpdatedData {
            profile: Some(v1::Profile { handle, ..Default::default() }),
            changed: vec!["bio".into()],
        })),
        EventType::TokenActivity => Some(Data::TokenActivity(v1::TokenActivityData { token, ..Default::default() })),
        EventType::TokenThesisVelocity => {
            Some(Data::TokenThesisVelocity(v1::TokenThesisVelocityData { token, ..Default::default() }))
        }
    };
    Event { r#type: event_type.into(), data, ..Default::default() }
}

fn filters(token: &[&str], handle: &[&str], chain: &[&str]) -> EventFilters {
    let own = |values: &[&str]| values.iter().map(ToString::to_string).collect();
    EventFilters { token: own(token), handle: own(handle), chain: own(chain), text: Vec::new() }
}

fn matches(types: &[EventType], filters: &EventFilters, event: &Event) -> bool {
    CompiledFilter::new(types, Some(filters)).unwrap().matches(event)
}

#[test]
fn any_text_matches_and_only_in_theses() {
    let filter = |text: &[&str]| {
        let text = text.iter().map(ToString::to_string).collect();
        CompiledFilter::new(&[], Some(&EventFilters { text, ..EventFilters::default() }))
    };
    let said = |text: &str| {
        let data = v1::ThesisCreatedData { text: text.to_owned(), ..Default::default() };
        Event { r#type: EventType::ThesisCreated.into(), data: Some(Data::ThesisCreated(data)), ..Default::default() }
    };
    let either = filter(&["moon -sun", "\"to the\""]).unwrap();
    for (text, expected) in [("The MOON!", true), ("moon and sun", false), ("to the sun", true), ("the to", false)] {
        assert_eq!(either.matches(&said(text)), expected, "{text}");
        assert_eq!(either.matches_keys(&EventKeys::from(&said(text))), expected, "{text}");
    }
    assert!(!either.matches(&event(EventType::TokenActivity, "", None)));
    let errors = filter(&["OR", "\"open"]).unwrap_err();
    let reported: Vec<_> = errors.iter().map(|error| (error.param.as_str(), error.message.as_str())).collect();
    let expected = [("text", "has an OR without both its sides"), ("text", "has a quotation mark without its pair")];
    assert_eq!(reported, expected);
}

#[test]
fn token_references_match_in_every_form() {
    let run = event(EventType::ThesisCreated, "@Ana", token("tk_1", "$Run", "base", "0xAbCd"));
    for (reference, expected) in [
        ("$RUN", true),
        ("$run", true),
        ("run", true),
        ("RUN", true),
        ("0xabcd", true),
        ("0XABCD", true),
        ("base:0xABCD", true),
        ("tk_1", true),
        ("TK_1", false),
        ("tk_2", false),
        ("$RUNS", false),
        ("$0xabcd", false),
        ("0xabcde", false),
        ("eth:0xabcd", false),
        ("base:run", false),
        ("base", false),
    ] {
        assert_eq!(matches(&[], &filters(&[reference], &[], &[]), &run), expected, "{reference}");
    }
    let cased = event(EventType::TokenActivity, "", token("tk_2", "$ÉTÉ", "sol", "AbC"));
    assert!(matches(&[], &filters(&["été"], &[], &[]), &cased));
    assert!(matches(&[], &filters(&["AbC"], &[], &[]), &cased));
    assert!(!matches(&[], &filters(&["abc"], &[], &[]), &cased), "base58 tells cases apart");
    // A text that looks like an id or an address on a chain may be another token's address or symbol.
    let odd = event(EventType::ThesisCreated, "@ΟΔΟΣ", token("tk_3", "$TK_X", "sui", "0x2::sui::SUI"));
    for reference in ["tk_x", "$tk_x", "0x2::sui::SUI", "sui:0x2::sui::SUI"] {
        assert!(matches(&[], &filters(&[reference], &[], &[]), &odd), "{reference}");
    }
    let sigma = event(EventType::ThesisCreated, "@οδος", token("tk_4", "$ΟΔΟΣ", "sol", "X"));
    for name in ["ΟΔΟΣ", "οδος", "οδοσ"] {
        let filters = filters(&[name], &[name], &[]);
        assert!(matches(&[], &filters, &sigma), "{name}");
    }
}

#[test]
fn events_without_a_dimension_do_not_match_it() {
    let run = || token("tk_1", "$RUN", "sandbox", "sbx");
    let thesis = event(EventType::ThesisCreated, "@Ana", run());
    let profile = event(EventType::ProfileUpdated, "@ana", None);
    let activity = event(EventType::TokenActivity, "", run());
    for handle in ["ana", "@ANA", "Ana"] {
        let filter = filters(&[], &[handle], &[]);
        assert!(matches(&[], &filter, &thesis));
        assert!(matches(&[], &filter, &profile));
        assert!(!matches(&[], &filter, &activity));
    }
    let chain = filters(&[], &[], &["sandbox"]);
    assert!(matches(&[], &chain, &thesis) && matches(&[], &chain, &activity));
    assert!(!matches(&[], &chain, &profile));
    let both = filters(&["$RUN", "$TAG"], &["bob", "ana"], &["sandbox"]);
    assert!(matches(&[], &both, &thesis));
    assert!(!matches(&[], &both, &activity));
    assert!(matches(&[EventType::ThesisCreated], &both, &thesis));
    assert!(!matches(&[EventType::ProfileUpdated], &both, &thesis));
}

#[test]
fn repeated_values_are_kept_once() {
    let types = [EventType::ThesisCreated; 2];
    let twice = CompiledFilter::new(&types, Some(&filters(&["$RUN", "$run"], &["@a", "A"], &[]))).unwrap();
    assert_eq!((twice.types().len(), twice.tokens().len(), twice.handles()), (1, 1, &["a".to_owned()][..]));
}

#[test]
fn bad_values_are_named() {
    let long = "x".repeat(201);
    let bad = filters(&["", "$", ":a", "a:", &long], &["@", ""], &[""]);
    let errors = CompiledFilter::new(&[EventType::Unspecified; 3], Some(&bad)).unwrap_err();
    let params: Vec<_> = errors.iter().map(|error| error.param.as_str()).collect();
    assert_eq!(params, ["types", "token", "token", "token", "token", "token", "handle", "handle", "chain"]);
    let many = vec!["a"; 51];
    assert_eq!(CompiledFilter::new(&[], Some(&filters(&[], &many, &[]))).unwrap_err().len(), 1);
    assert!(CompiledFilter::new(&[], Some(&filters(&[&"é".repeat(200)], &many[..50], &[]))).is_ok());
}

/// The rule in its plainest form, on the original texts.
fn naive(types: &[EventType], filters: &EventFilters, event: &Event) -> bool {
    let (handle, token) = match event.data.clone().unwrap() {
        Data::ThesisCreated(data) => (data.profile.map(|profile| profile.handle), data.token),
        Data::ProfileUpdated(data) => (data.profile.map(|profile| profile.handle), None),
        Data::TokenActivity(data) => (None, data.token),
        Data::TokenThesisVelocity(data) => (None, data.token),
    };
    let lower = |text: &str| text.trim_start_matches('@').to_lowercase().replace('ς', "σ");
    let token_is = |reference: &String, token: &v1::TokenRef| {
        let same =
            |a: &str, b: &str| a == b || a.to_lowercase().starts_with("0x") && a.to_lowercase() == b.to_lowercase();
        let symbol = format!("${}", reference.trim_start_matches('$')).to_uppercase() == token.symbol.to_uppercase();
        let pair = reference.split_once(':').is_some_and(|(c, a)| c == token.chain && same(a, &token.address));
        *reference == token.id || symbol || pair || same(reference, &token.address)
    };
    let type_fits = types.is_empty() || types.contains(&event.r#type());
    let token_fits =
        filters.token.is_empty() || token.as_ref().is_some_and(|t| filters.token.iter().any(|r| token_is(r, t)));
    let chain_fits = filters.chain.is_empty() || token.as_ref().is_some_and(|t| filters.chain.contains(&t.chain));
    let handle_fits =
        filters.handle.is_empty() || handle.is_some_and(|h| filters.handle.iter().any(|f| lower(f) == lower(&h)));
    type_fits && token_fits && chain_fits && handle_fits
}

fn any_type() -> impl Strategy<Value = EventType> {
    select(crate::names::EVENT_TYPES).prop_map(|(event_type, _)| event_type)
}

fn some(values: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(select(values).prop_map(str::to_owned), 0..3)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn agrees_with_the_naive_matcher(
        event_type in any_type(),
        types in prop::collection::vec(any_type(), 0..3),
        handle in select(&["@ana", "@Bob", "@Ümit", "@ΟΔΟΣ"][..]),
        id in select(&["tk_1", "tk_2"][..]),
        symbol in select(&["$RUN", "$tag", "$ÉTÉ", "$TK_1"][..]),
        chain in select(&["base", "sandbox"][..]),
        address in select(&["0xAb", "0xcd", "So1Ana"][..]),
        tokens in some(&["$run", "RUN", "Tag", "été", "tk_1", "0xAB", "base:0xab", "sandbox:So1Ana", "so1ana", "So1Ana", "0XAB"]),
        handles in some(&["ana", "@ANA", "bob", "@ümit", "οδος", "οδοσ", "nobody"]),
        chains in some(&["base", "sandbox", "sol"]),
    ) {
        let event = event(event_type, handle, token(id, symbol, chain, address));
        let filters = EventFilters { token: tokens, handle: handles, chain: chains, text: Vec::new() };
        let filter = CompiledFilter::new(&types, Some(&filters)).unwrap();
        prop_assert_eq!(filter.matches(&event), naive(&types, &filters, &event));
    }

    #[test]
    fn never_panics(token in ".{0,20}", handle in ".{0,20}", chain in ".{0,20}", text in ".{0,20}") {
        let filters = EventFilters { token: vec![token], handle: vec![handle], chain: vec![chain], text: vec![text] };
        if let Ok(filter) = CompiledFilter::new(&[], Some(&filters)) {
            let _ = filter.matches(&event(EventType::ThesisCreated, "@a", None));
        }
    }
}
