//! Harnesses of query strings and bodies.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::input::{JsonBody, Kind, Param, QueryString, all_errors, has_key, path_text};

thesis_fuzz::fuzz_tests!(query_strings, json_bodies);

/// Maximum number of fields that a response names.
const MAX_ERRORS: usize = 40;

const QUERY: &[Param] = &[
    Param::new("q", Kind::Text(0, 9), ""),
    Param::LIMIT,
    Param::new("after", Kind::Time, ""),
    Param::new("sort", Kind::OneOf(|| vec!["up", "down"]), ""),
    Param::TYPES,
    Param::TOKENS,
    Param::HANDLES,
    Param::CHAINS,
    Param::SEARCHES,
];

const BODY: &[Param] = &[
    Param::required("url", Kind::Text(1, 9), ""),
    Param::required("events", Kind::EventTypeList(1, 10), ""),
    Param::new("filters", Kind::Filters, ""),
    Param::new("description", Kind::NullableText(9), ""),
    Param::new("headers", Kind::HeaderChanges, ""),
    Param::new("after", Kind::Time, ""),
    Param::LIMIT,
];

/// A query has few errors, and percent-encoding changes no text.
fn query_strings(input: &[u8]) {
    let raw = String::from_utf8_lossy(input);
    has_key(&raw);
    path_text(&raw);
    let encoded = utf8_percent_encode(&raw, NON_ALPHANUMERIC).to_string();
    assert_eq!(path_text(&encoded).as_deref(), Some(&*raw));
    let pair = format!("q={encoded}");
    let mut query = QueryString::read(QUERY, &pair).expect("an encoded text is a query");
    assert_eq!(query.text("q").as_deref(), Some(&*raw));
    let Ok(mut query) = QueryString::read(QUERY, &raw) else { return };
    query.text("q");
    query.integer("limit");
    query.time("after");
    query.one_of("sort", |text| (text == "up").then_some(()));
    query.event_types("types");
    query.filters();
    assert!(all_errors(QUERY, &query.unread(), Vec::new()).len() <= MAX_ERRORS);
}

/// A body has few errors, and the readers of requests and of messages agree on what an object is.
fn json_bodies(input: &[u8]) {
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    let read = JsonBody::read(BODY, &headers, &Bytes::copy_from_slice(input));
    assert_eq!(read.is_ok(), input.is_empty() || JsonBody::object(BODY, input).is_some());
    let Ok(mut body) = read else { return };
    body.names();
    body.refuse_null("url");
    body.text("url");
    body.event_types("events");
    body.filters("filters");
    body.nullable_text("description");
    body.headers("headers", true);
    body.time("after");
    body.integer("limit");
    assert!(all_errors(BODY, &body.unread(), Vec::new()).len() <= MAX_ERRORS);
}
