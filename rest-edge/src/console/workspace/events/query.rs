//! What is asked of the history, as its form sends it.

use serde::Deserialize;
use thesis_proto::{
    error::{ApiError, FieldError},
    names::event_type_name,
    time::parse_iso8601,
    v1,
};
use tonic::Status;

use super::{super::filters::FilterFields, TAB};
use crate::console::view::Failed;

/// Events of a page.
const ROWS: i32 = 25;

/// What is asked of the history.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct EventQuery {
    /// One for each ticked box; none means all.
    types: Vec<String>,
    token: String,
    handle: String,
    chain: String,
    /// Where the history ends, in UTC.
    pub(super) created_after: String,
    /// Where it begins, in UTC.
    pub(super) created_before: String,
    /// Where a later page begins.
    cursor: String,
}

impl EventQuery {
    /// Reads the query string of a page.
    ///
    /// # Errors
    /// When it is none that the form or a link could have made.
    pub(super) fn read(query: Option<&str>) -> Result<Self, Failed> {
        serde_html_form::from_str(query.unwrap_or_default()).map_err(|_| Failed::missing())
    }

    /// The filters as they were typed.
    pub(super) fn fields(&self) -> FilterFields {
        FilterFields {
            types: self.types.clone(),
            token: self.token.clone(),
            handle: self.handle.clone(),
            chain: self.chain.clone(),
        }
    }

    /// Whether it is a page after the first.
    pub(super) fn is_later_page(&self) -> bool {
        !self.cursor.is_empty()
    }

    /// Whether the page begins with the newest event.
    pub(super) fn is_newest(&self) -> bool {
        !self.is_later_page() && self.created_before.trim().is_empty()
    }

    /// Whether a filter or a bound is given.
    pub(super) fn is_narrowed(&self) -> bool {
        let texts = [&self.token, &self.handle, &self.chain, &self.created_after, &self.created_before];
        !self.types.is_empty() || texts.iter().any(|text| !text.trim().is_empty())
    }

    /// The page of the list.
    ///
    /// # Errors
    /// The bounds that are no times, as core would name them.
    pub(super) fn message(&self) -> Result<v1::ListEventsRequest, Status> {
        let mut faults = Vec::new();
        let mut time = |name: &str, text: &str| {
            let at = parse_iso8601(text.trim());
            if at.is_none() && !text.trim().is_empty() {
                let message = "must be a date and a time such as 2026-11-23T14:05, or empty";
                faults.push(FieldError::new(name, message));
            }
            at
        };
        let created_after = time("created_after", &self.created_after);
        let created_before = time("created_before", &self.created_before);
        if !faults.is_empty() {
            return Err(ApiError::validation(&faults).to_status(""));
        }
        let fields = self.fields();
        Ok(v1::ListEventsRequest {
            types: fields.event_types(),
            filters: fields.filters(),
            created_after,
            created_before,
            limit: Some(ROWS),
            cursor: self.is_later_page().then(|| self.cursor.clone()),
        })
    }

    /// The path, inside the workspace, of a page with the same filters.
    pub(super) fn path(&self, cursor: Option<&str>) -> String {
        let mut pairs: Vec<(&str, &str)> = self.types.iter().map(|name| ("types", name.as_str())).collect();
        pairs.extend([
            ("token", self.token.trim()),
            ("handle", self.handle.trim()),
            ("chain", self.chain.trim()),
            ("created_after", self.created_after.trim()),
            ("created_before", self.created_before.trim()),
            ("cursor", cursor.unwrap_or_default()),
        ]);
        with_query(TAB, &pairs)
    }

    /// The address of the stream of the same events.
    pub(super) fn stream_path(&self) -> String {
        let fields = self.fields();
        let types = fields.event_types().into_iter().filter_map(|number| v1::EventType::try_from(number).ok());
        let types = types.map(event_type_name).collect::<Vec<_>>().join(",");
        let v1::EventFilters { token, handle, chain } = fields.filters().unwrap_or_default();
        let (token, handle, chain) = (token.join(","), handle.join(","), chain.join(","));
        let pairs = [("types", &*types), ("token", &*token), ("handle", &*handle), ("chain", &*chain)];
        with_query("/v1/events/stream", &pairs)
    }
}

/// A path with those parameters that are not empty.
fn with_query(path: &str, pairs: &[(&str, &str)]) -> String {
    let given: Vec<_> = pairs.iter().filter(|(_, text)| !text.is_empty()).collect();
    if given.is_empty() {
        return path.to_owned();
    }
    let query = serde_html_form::to_string(given).expect("texts always serialise");
    format!("{path}?{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_string_becomes_a_request() {
        let asked = EventQuery::read(Some(
            "types=thesis.created&types=token.activity&token=%24SOL&handle=&created_after=2026-11-23T14%3A05&cursor=c",
        ));
        let asked = asked.unwrap();
        let request = asked.message().unwrap();
        assert_eq!(request.types, [v1::EventType::ThesisCreated as i32, v1::EventType::TokenActivity as i32]);
        assert_eq!(request.filters.unwrap().token, ["$SOL"]);
        assert!(request.created_after.is_some() && request.created_before.is_none());
        assert_eq!((request.limit, request.cursor.as_deref()), (Some(25), Some("c")));
        assert!(asked.is_narrowed() && asked.is_later_page() && !asked.is_newest());
    }

    #[test]
    fn without_a_query_the_newest_are_asked_for() {
        let asked = EventQuery::read(None).unwrap();
        let newest = v1::ListEventsRequest { limit: Some(25), ..v1::ListEventsRequest::default() };
        assert_eq!(asked.message().unwrap(), newest);
        assert!(asked.is_newest() && !asked.is_narrowed());
        assert_eq!((asked.path(None), asked.stream_path()), ("/events".to_owned(), "/v1/events/stream".to_owned()));
    }

    #[test]
    fn bounds_that_are_no_times_are_told_at_once() {
        let asked = EventQuery::read(Some("created_after=soon&created_before=later")).unwrap();
        let status = asked.message().unwrap_err();
        let faults: Vec<_> = ApiError::from_status(&status).field_errors().map(|fault| fault.param).collect();
        assert_eq!(faults, ["created_after", "created_before"]);
    }

    #[test]
    fn links_keep_the_filters() {
        let asked = EventQuery::read(Some("types=thesis.created&token=%26a%3D%22&handle=%40b+&cursor=old")).unwrap();
        assert_eq!(asked.path(Some("x+y")), "/events?types=thesis.created&token=%26a%3D%22&handle=%40b&cursor=x%2By");
        assert_eq!(asked.path(None), "/events?types=thesis.created&token=%26a%3D%22&handle=%40b");
    }

    #[test]
    fn the_stream_has_the_same_filters() {
        let asked =
            EventQuery::read(Some("types=thesis.created&types=none&token=%24SOL%2C+tk_1&handle=%40b+")).unwrap();
        let stream = "/v1/events/stream?types=thesis.created&token=%24SOL%2Ctk_1&handle=%40b";
        assert_eq!(asked.stream_path(), stream);
    }
}
