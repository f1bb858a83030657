use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;

use super::{
    span::{MAX_FORCED, may_force},
    *,
};
use crate::clock::SystemIdSource;

const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn parse(text: &str) -> Option<String> {
    Trace::parse(text.as_bytes()).map(|trace| trace.header())
}

#[test]
fn a_header_of_the_recommendation_is_read() {
    let unsampled = GOOD.replace("-01", "-00");
    for (given, read) in [
        (GOOD.to_owned(), GOOD),
        (unsampled.clone(), &unsampled),
        // Unknown flags are dropped.
        (GOOD.replace("-01", "-ff"), GOOD),
        (GOOD.replace("-01", "-fe"), &unsampled),
        // A future version may have more after a dash.
        (GOOD.replacen("00", "cc", 1), GOOD),
        (GOOD.replacen("00", "01", 1) + "-what-the-future-will-be-like", GOOD),
        (GOOD.replacen("00", "01", 1) + "-", GOOD),
    ] {
        assert_eq!(parse(&given).as_deref(), Some(read), "{given}");
    }
}

#[test]
fn a_wrong_header_is_none() {
    let id = "4bf92f3577b34da6a3ce929d0e0e4736";
    for given in [
        String::new(),
        "00".to_owned(),
        GOOD.to_uppercase(),
        GOOD.replacen("00", "ff", 1),
        GOOD.replacen("00", "0g", 1),
        GOOD.replacen("00", "0", 1),
        GOOD.to_owned() + "-",
        GOOD.to_owned() + "-00",
        GOOD.to_owned() + "0",
        format!(" {GOOD}"),
        format!("{GOOD} "),
        GOOD[..54].to_owned(),
        GOOD.replacen("00", "01", 1) + ".what",
        GOOD.replace(id, &"0".repeat(32)),
        GOOD.replace(id, &id[1..]),
        GOOD.replace("00f067aa0ba902b7", "0000000000000000"),
        GOOD.replace("-01", "-0x"),
        GOOD.replace("-01", "_01"),
        GOOD.replace("4736-00f0", "473600f0-"),
        "é".repeat(28),
    ] {
        assert_eq!(parse(&given), None, "{given}");
    }
}

#[test]
fn several_headers_count_as_none() {
    let mut headers = HeaderMap::new();
    assert_eq!(Trace::of(&headers), None);
    headers.append(TRACEPARENT, HeaderValue::from_static(GOOD));
    assert!(Trace::of(&headers).is_some());
    headers.append(TRACEPARENT, HeaderValue::from_static(GOOD));
    assert_eq!(Trace::of(&headers), None);
}

#[test]
fn new_traces_differ_and_those_of_a_delivery_are_the_same() {
    let (one, other) = (Trace::new(&SystemIdSource), Trace::new(&SystemIdSource));
    assert!(one.id != other.id && one.span != other.span && !one.sampled);
    assert_eq!(one.to_string().len(), 32);
    assert_eq!(Trace::of_delivery("del_1"), Trace::of_delivery("del_1"));
    assert_ne!(Trace::of_delivery("del_1").id, Trace::of_delivery("del_2").id);
}

#[test]
fn the_share_decides_by_the_id() {
    let trace = |last: u64| Trace { id: (1 << 64) | u128::from(last), ..Trace::default() };
    for (share, taken, left) in [(0.0, None, Some(0)), (1.0, Some(u64::MAX), None), (0.5, Some(0), Some(u64::MAX))] {
        let sampling = Sampling(share);
        assert!(taken.is_none_or(|last| sampling.takes(&trace(last))), "{share}");
        assert!(left.is_none_or(|last| !sampling.takes(&trace(last))), "{share}");
    }
}

#[test]
fn callers_force_a_bounded_number_of_traces_a_second() {
    let mut forced = (0, 0);
    let mut take = |now_ms: i64| (0..100).filter(|_| may_force(&mut forced, now_ms)).count() as u64;
    assert_eq!(take(1_764_000_000_000), MAX_FORCED);
    assert_eq!(take(1_764_000_000_999), 0);
    assert_eq!(take(1_764_000_001_000), MAX_FORCED);
    // A clock that went back does not open it for good.
    assert_eq!(take(1_764_000_000_999), MAX_FORCED);
    assert_eq!(take(1_764_000_000_999), 0);
}

#[test]
fn without_export_nothing_is_sampled_by_itself() {
    let mut headers = HeaderMap::new();
    let (trace, continues) = enter(&headers, || Trace::new(&SystemIdSource), 0);
    assert!(!trace.sampled && !continues && Span::enter(&trace, false, SpanKind::Server).is_none());
    headers.insert(TRACEPARENT, HeaderValue::from_static(GOOD));
    let (trace, continues) = enter(&headers, || Trace::new(&SystemIdSource), 0);
    assert!(continues && trace.to_string() == GOOD[3..35]);
    assert!(Span::enter(&trace, true, SpanKind::Server).is_none());
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(id: u128, span: u64, sampled: bool) {
        let trace = Trace { id, span, sampled };
        let is_zero = id == 0 || span == 0;
        prop_assert_eq!(Trace::parse(trace.header().as_bytes()), (!is_zero).then_some(trace));
        prop_assert_eq!(Trace::from_stored(&trace.to_stored()), sampled.then_some(trace));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>, place in 0_usize..55, byte: u8) {
        let _ = Trace::parse(&bytes);
        let mut header = GOOD.as_bytes().to_vec();
        header[place] = byte;
        if let Some(trace) = Trace::parse(&header) {
            // Such a header is lower-case and of the same length.
            prop_assert!(header.iter().all(|byte| b"0123456789abcdef-".contains(byte)));
            prop_assert!(trace.id != 0 && trace.span != 0);
        }
    }
}
