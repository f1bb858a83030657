//! Harnesses of the rules that several roles share.

use prost::Message as _;
use serde_json::Value;

use crate::{
    cursor::StreamCursor,
    filter::{CompiledFilter, EventKeys, MAX_VALUES},
    json::event_json,
    reference::{TokenReadings, handle_form, is_handle},
    time::{format_millis, is_time, parse_iso8601, to_millis},
    v1::{Event, EventFilters, EventType, TokenRef},
};

thesis_fuzz::fuzz_tests!(references, cursors, filters, times, events);

fn token(symbol: &str, chain: &str, address: &str) -> TokenRef {
    TokenRef { symbol: symbol.to_owned(), chain: chain.to_owned(), address: address.to_owned(), ..TokenRef::default() }
}

/// A reference means the token that it names, in each of its readings.
fn references(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    assert!(is_handle(&handle_form(&text), &text));
    let Some(readings) = TokenReadings::parse(&text) else { return };
    assert!(readings.matches(&token(&text, "", "")));
    let again = TokenReadings::parse(&readings.symbol).expect("a symbol is a reference");
    assert_eq!(again.symbol, readings.symbol);
    if readings.address.is_some() {
        assert!(readings.matches(&token("", "", &text)));
    }
    if let Some((chain, address)) = &readings.on_chain {
        assert!(readings.matches(&token("", chain, address)));
    }
}

/// Each cursor has one text, and only its own view reads it.
fn cursors(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let views = [vec!["live".to_owned()], vec!["sandbox".to_owned(), "project/prj_1".to_owned()]];
    for (view, other) in views.iter().zip(views.iter().rev()) {
        if let Some(cursor) = StreamCursor::decode(&text, view) {
            assert_eq!(cursor.encode(view), text);
        }
        let (numbers, _) = input.as_chunks::<8>();
        let positions: Vec<u64> = numbers.iter().map(|number| u64::from_le_bytes(*number)).take(view.len()).collect();
        if positions.len() == view.len() {
            let cursor = StreamCursor { positions };
            let text = cursor.encode(view);
            assert_eq!(StreamCursor::decode(&text, view), Some(cursor));
            assert_eq!(StreamCursor::decode(&text, other), None);
        }
    }
}

/// A filter matches an event that it names. The lines of the input are values of token, handle and chain in turn.
fn filters(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut filters = EventFilters::default();
    for (number, line) in text.lines().enumerate() {
        let values = match number % 3 {
            0 => &mut filters.token,
            1 => &mut filters.handle,
            _ => &mut filters.chain,
        };
        values.push(line.to_owned());
    }
    let types: Vec<_> = input.iter().map(|byte| EventType::try_from(i32::from(byte % 8)).unwrap_or_default()).collect();
    for types in [types.as_slice(), &[EventType::ThesisCreated]] {
        match CompiledFilter::new(types, Some(&filters)) {
            Ok(filter) => {
                let first = |values: &[String]| values.first().cloned().unwrap_or_default();
                let keys = EventKeys {
                    event_type: filter.types().first().copied().unwrap_or_default(),
                    token: Some(token(&first(&filters.token), &first(&filters.chain), "")),
                    handle: Some(first(&filters.handle)),
                    text: None,
                };
                assert!(filter.matches_keys(&keys));
            }
            Err(errors) => assert!((1..=3 * MAX_VALUES + 1).contains(&errors.len())),
        }
    }
}

/// A time is read back from the text that the service writes.
fn times(input: &[u8]) {
    let Some(time) = parse_iso8601(&String::from_utf8_lossy(input)) else { return };
    assert!(is_time(&time));
    let millis = to_millis(&time);
    if millis >= 0 {
        assert_eq!(parse_iso8601(&format_millis(millis)).as_ref().map(to_millis), Some(millis));
    }
}

/// An event has one JSON, whatever it holds.
fn events(input: &[u8]) {
    let Ok(event) = Event::decode(input) else { return };
    let json = event_json(&event);
    let value: Value = serde_json::from_slice(&json).expect("an event has JSON");
    assert!(value.is_object());
    let again = Event::decode(event.encode_to_vec().as_slice()).expect("an event is read back");
    assert_eq!(event_json(&again), json);
}
