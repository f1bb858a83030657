//! The query of a page, its readers, and paths with a query.
//!
//! Queries come from forms: a blank parameter counts as absent, a list is a repeated parameter, and unknown parameters
//! are ignored. The API refuses what its routes do not declare and has commas between values, so it has its own reader.

use std::{collections::HashMap, convert::Infallible};

use axum::extract::FromRequestParts;
use http::request::Parts;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use prost_types::Timestamp;
use thesis_proto::{
    error::{ApiError, FieldError},
    time::{format_millis, parse_iso8601, to_millis},
};
use tonic::Status;

use crate::failure::Failed;

/// These characters are percent-encoded in paths and queries.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-').remove(b'.');

/// The query of a page, unchanged: each parameter has its values in their order.
#[derive(Debug, Default)]
pub(crate) struct PageQuery(HashMap<String, Vec<String>>);

impl<S: Sync> FromRequestParts<S> for PageQuery {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::read(parts.uri.query().unwrap_or_default()))
    }
}

impl PageQuery {
    pub(crate) fn read(query: &str) -> Self {
        Self::of(serde_html_form::from_str::<Vec<(String, String)>>(query).unwrap_or_default())
    }

    pub(crate) fn of(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut parameters = HashMap::<String, Vec<String>>::new();
        for (name, value) in pairs {
            parameters.entry(name).or_default().push(value);
        }
        Self(parameters)
    }

    /// True if one of these parameters is present, even without a value: the browser sent the form.
    pub(crate) fn has_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.0.contains_key(*name))
    }

    /// True if one of these parameters is not blank.
    pub(crate) fn has_value(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.all(name).next().is_some())
    }

    /// The values of a parameter, trimmed and without blank ones.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.get(name).into_iter().flatten().map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// The unchanged first value of a parameter; empty if it is absent.
    pub(crate) fn exact(&self, name: &str) -> &str {
        self.0.get(name).and_then(|values| values.first()).map_or("", String::as_str)
    }

    /// The trimmed first value of a parameter; empty if it is absent.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.exact(name).trim()
    }

    /// The unchanged value of a parameter; none if it is absent.
    ///
    /// # Errors
    /// There is no page for a parameter that is given twice.
    pub(crate) fn single(&self, name: &str) -> Result<Option<&str>, Failed> {
        match self.0.get(name).map(Vec::as_slice) {
            None => Ok(None),
            Some([value]) => Ok(Some(value.as_str())),
            Some(_) => Err(Failed::missing()),
        }
    }

    /// The trimmed first value of a parameter; none if it is blank.
    pub(crate) fn given(&self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// A time in the format of its field: UTC, in whole seconds. A text that is no time stays unchanged. Links to other
    /// pages keep the unchanged text.
    pub(crate) fn time(&self, name: &str) -> String {
        let read = parse_iso8601(self.text(name));
        read.map_or_else(|| self.exact(name).to_owned(), |at| time_field(to_millis(&at)))
    }

    /// A path with the cursor and those of the named parameters that are not blank.
    pub(crate) fn link(&self, path: &str, names: &[&str], cursor: Option<&str>) -> String {
        let named = names.iter().flat_map(|name| self.all(name).map(move |value| (*name, value)));
        let query: Vec<_> = named.chain(cursor.map(|cursor| ("cursor", cursor))).collect();
        link(path, &query)
    }

    /// Returns a reader that turns the query into a request to core.
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader { query: self, faults: Vec::new() }
    }
}

/// Reads a query and collects its faults, worded as core words them.
pub(crate) struct Reader<'a> {
    query: &'a PageQuery,
    faults: Vec<FieldError>,
}

impl Reader<'_> {
    /// Reads a text unchanged.
    pub(crate) fn exact(&mut self, name: &str) -> Option<String> {
        if self.query.0.get(name).is_some_and(|values| values.len() > 1) {
            self.faults.push(FieldError::new(name, "must be given once"));
        }
        Some(self.query.exact(name)).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// Reads a trimmed text.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        self.exact(name)?;
        self.query.given(name)
    }

    /// Reads one of the values that `parse` knows.
    pub(crate) fn choice<T>(&mut self, name: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let text = self.text(name)?;
        self.known(name, &text, parse)
    }

    /// Reads several of the values that `parse` knows.
    pub(crate) fn choices<T>(&mut self, name: &str, parse: impl Fn(&str) -> Option<T>) -> Vec<T> {
        let query = self.query;
        query.all(name).filter_map(|text| self.known(name, text, &parse)).collect()
    }

    fn known<T>(&mut self, name: &str, text: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let value = parse(text);
        if value.is_none() && self.faults.iter().all(|fault| fault.param != name) {
            self.faults.push(FieldError::new(name, "must be one of those that can be chosen"));
        }
        value
    }

    /// Reads a time, in UTC unless it has an offset.
    pub(crate) fn time(&mut self, name: &str) -> Option<Timestamp> {
        let text = self.text(name)?;
        typed_time(name, &text).unwrap_or_else(|fault| {
            self.faults.push(fault);
            None
        })
    }

    /// Returns the message.
    ///
    /// # Errors
    /// 422 with the wrong parameters.
    pub(crate) fn finish<M>(self, message: M) -> Result<M, Status> {
        if self.faults.is_empty() { Ok(message) } else { Err(ApiError::validation(&self.faults).to_status("")) }
    }
}

/// Reads the time of a field, in UTC unless it has an offset. A blank field gives none.
///
/// # Errors
/// The fault of the field if its text is no time.
pub(crate) fn typed_time(name: &str, text: &str) -> Result<Option<Timestamp>, FieldError> {
    let text = text.trim();
    match parse_iso8601(text) {
        None if !text.is_empty() => {
            Err(FieldError::new(name, "must be a date and a time such as 2026-11-23T14:05, or empty"))
        }
        at => Ok(at),
    }
}

/// Formats Unix milliseconds for a time field: UTC, in whole seconds, without a zone.
pub(crate) fn time_field(millis: i64) -> String {
    format_millis(millis)[.."YYYY-MM-DDTHH:MM:SS".len()].to_owned()
}

/// Encodes a name for a segment of a path.
pub(crate) fn encoded(name: &str) -> String {
    utf8_percent_encode(name, ENCODED).to_string()
}

/// A path with a query of the parameters that have a value.
pub(crate) fn link(path: &str, query: &[(&str, &str)]) -> String {
    let given = query.iter().filter(|(_, value)| !value.is_empty());
    let parts: Vec<_> = given.map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    if parts.is_empty() { path.to_owned() } else { format!("{path}?{}", parts.join("&")) }
}

#[cfg(test)]
mod tests {
    use thesis_proto::names::parse_event_type;

    use super::*;

    #[test]
    fn parameters_are_read() {
        let query = PageQuery::read("q=+a+b+&blank=+&token=%24RUN&types=a&types=&types=+b");
        assert_eq!((query.exact("q"), query.text("q"), query.text("none")), (" a b ", "a b", ""));
        assert_eq!((query.given("token").as_deref(), query.given("blank")), (Some("$RUN"), None));
        assert!(query.has_any(&["none", "blank"]) && !query.has_any(&["none"]));
        assert!(query.has_value(&["blank", "q"]) && !query.has_value(&["blank", "none"]));
        assert_eq!(query.all("types").collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn a_query_that_no_form_sends_still_has_a_page() {
        let query = PageQuery::read("find=a&find=b&done=plan&done=user&cursor=&page=x&more=1");
        assert_eq!((query.text("find"), query.text("done"), query.text("page")), ("a", "plan", "x"));
        assert_eq!(query.given("find").as_deref(), Some("a"));
        // The audit log then begins with its newest entry.
        assert_eq!(query.given("cursor"), None);
        for none in ["", "&", "%"] {
            assert_eq!(PageQuery::read(none).text("find"), "", "{none:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let query =
            PageQuery::read("after=soon&q=a&q=b&sort=bogus&types=thesis.created&types=x&types=y&blank=&cursor=c");
        let mut read = query.reader();
        assert_eq!((read.time("after"), read.time("blank")), (None, None));
        read.text("q");
        assert!(read.choice("sort", parse_event_type).is_none() && read.choice("blank", parse_event_type).is_none());
        assert_eq!(read.choices("types", parse_event_type).len(), 1);
        assert_eq!(read.text("cursor").as_deref(), Some("c"));
        let wrong = read.finish(()).unwrap_err();
        let named: Vec<_> = ApiError::from_status(&wrong).field_errors().map(|fault| fault.param).collect();
        assert_eq!(named, ["after", "q", "sort", "types"]);
    }

    #[test]
    fn times_are_shown_as_their_fields_take_them() {
        let query =
            PageQuery::read("at=2026-11-23T14%3A05&zone=2026-11-23T15:05:07.9%2B01:00&day=2026-11-23&none=soon");
        let shown = ["at", "zone", "day", "none", "other"].map(|name| query.time(name));
        assert_eq!(shown, ["2026-11-23T14:05:00", "2026-11-23T14:05:07", "2026-11-23T00:00:00", "soon", ""]);
        assert_eq!(query.reader().time("at").map(|at| at.seconds), Some(1_795_442_700));
    }

    #[test]
    fn links_keep_the_query() {
        let query = PageQuery::read("token=%24A%26b&sort=&cursor=old&types=a.b&types=c");
        let kept = query.link("/list", &["types", "token", "sort"], Some("c-_1="));
        assert_eq!(kept, "/list?types=a.b&types=c&token=%24A%26b&cursor=c-_1%3D");
        assert_eq!(query.link("/list", &["sort"], None), "/list");
        assert_eq!(encoded("a/../b?c"), "a%2F..%2Fb%3Fc");
    }
}
