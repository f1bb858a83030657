//! The query of a page: what its form asks for.

use std::{collections::HashMap, convert::Infallible};

use axum::extract::{FromRequestParts, Query};
use http::request::Parts;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use prost_types::Timestamp;
use thesis_proto::{
    error::{ApiError, FieldError},
    time::parse_iso8601,
};
use tonic::Status;

/// What is encoded in a part of a path and in a query.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-');

/// The query of a page. One that cannot be read is as none.
#[derive(Debug, Default)]
pub(super) struct Asked(HashMap<String, String>);

impl<S: Sync> FromRequestParts<S> for Asked {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Query::try_from_uri(&parts.uri).map(|Query(query)| Self(query)).unwrap_or_default())
    }
}

impl Asked {
    /// Whether one of these parameters is there, even without a value: then the form was sent.
    pub(super) fn has_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.0.contains_key(*name))
    }

    /// A parameter as it was typed; empty when it is not there.
    pub(super) fn exact(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// The same without the blanks around it.
    pub(super) fn text(&self, name: &str) -> &str {
        self.exact(name).trim()
    }

    /// A parameter, if it is not blank.
    pub(super) fn given(&self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// `created_after` and `created_before`, in UTC.
    ///
    /// # Errors
    /// 422 on those that are no times.
    pub(super) fn bounds(&self) -> Result<(Option<Timestamp>, Option<Timestamp>), Status> {
        let (after, before) = (self.given("created_after"), self.given("created_before"));
        let mut faults = Vec::new();
        let mut read = |name: &str, text: Option<String>| {
            let text = text?;
            let time = parse_iso8601(&text);
            if time.is_none() {
                faults.push(FieldError::new(name, "must be a date and a time such as 2026-11-23T14:05, or empty"));
            }
            time
        };
        let bounds = (read("created_after", after), read("created_before", before));
        if faults.is_empty() { Ok(bounds) } else { Err(ApiError::validation(&faults).to_status("")) }
    }

    /// A path with those of these parameters that are not blank, and a cursor.
    pub(super) fn link(&self, path: &str, names: &[&str], cursor: Option<&str>) -> String {
        let named = names.iter().map(|name| (*name, self.text(name)));
        let query: Vec<_> = named.chain(cursor.map(|cursor| ("cursor", cursor))).collect();
        link(path, &query)
    }
}

/// A name as a part of a path.
pub(super) fn encoded(name: &str) -> String {
    utf8_percent_encode(name, ENCODED).to_string()
}

/// A path with a query of the parameters that are not empty.
pub(super) fn link(path: &str, query: &[(&str, &str)]) -> String {
    let given = query.iter().filter(|(_, value)| !value.is_empty());
    let parts: Vec<_> = given.map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    if parts.is_empty() { path.to_owned() } else { format!("{path}?{}", parts.join("&")) }
}

/// A choice of a list.
pub(super) struct Choice {
    /// As the form sends it.
    pub(super) value: &'static str,
    /// For people.
    pub(super) name: &'static str,
    /// Whether it is the one that was taken.
    pub(super) is_taken: bool,
}

/// The choices of a list: values and names. The first one is taken when `taken` is none of them.
pub(super) fn choices(all: &[(&'static str, &'static str)], taken: &str) -> Vec<Choice> {
    all.iter().map(|&(value, name)| Choice { value, name, is_taken: value == taken }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pairs: &[(&str, &str)]) -> Asked {
        Asked(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn parameters_are_read() {
        let asked = asked(&[("q", " a b "), ("blank", " ")]);
        assert_eq!((asked.exact("q"), asked.text("q"), asked.text("none")), (" a b ", "a b", ""));
        assert_eq!((asked.given("q").as_deref(), asked.given("blank"), asked.given("none")), (Some("a b"), None, None));
        assert!(asked.has_any(&["none", "blank"]) && !asked.has_any(&["none"]));
    }

    #[test]
    fn bounds_that_are_no_times_are_named() {
        let (after, before) = asked(&[("created_after", "2026-11-23T14:05")]).bounds().unwrap();
        assert_eq!((after.map(|time| time.seconds), before), (Some(1_795_442_700), None));
        let wrong = asked(&[("created_after", "soon"), ("created_before", "later")]).bounds().unwrap_err();
        let named: Vec<_> = ApiError::from_status(&wrong).field_errors().map(|fault| fault.param).collect();
        assert_eq!(named, ["created_after", "created_before"]);
    }

    #[test]
    fn links_keep_what_was_asked_for() {
        let asked = asked(&[("token", "$A&b"), ("sort", ""), ("cursor", "old")]);
        assert_eq!(asked.link("/list", &["token", "sort"], Some("c-_1")), "/list?token=%24A%26b&cursor=c-_1");
        assert_eq!(asked.link("/list", &["sort"], None), "/list");
        assert_eq!(encoded("a/../b?c"), "a%2F%2E%2E%2Fb%3Fc");
    }

    #[tokio::test]
    async fn a_query_is_taken_from_the_request() {
        for (query, expected) in [("", ""), ("?q=%24RUN+x", "$RUN x"), ("?q=a&q=b", "b")] {
            let (mut parts, ()) = http::Request::get(format!("/list{query}")).body(()).unwrap().into_parts();
            let Ok(asked) = Asked::from_request_parts(&mut parts, &()).await;
            assert_eq!(asked.text("q"), expected, "{query}");
        }
    }
}
