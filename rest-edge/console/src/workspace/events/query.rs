//! The query of the history, as a request to core and as a stream's path.

use thesis_proto::{names::parse_event_type, v1};
use tonic::Status;

use super::super::filters::FilterFields;
use crate::page_query::{PageQuery, link};

const ROWS: i32 = 25;
/// Links to other pages of the history keep these parameters.
pub(super) const KEPT: &[&str] = &["types", "token", "handle", "chain", "text", "created_after", "created_before"];

/// Reads the query of a history page.
///
/// # Errors
/// 422 with the wrong parameters.
pub(super) fn message(query: &PageQuery) -> Result<v1::ListEventsRequest, Status> {
    let mut read = query.reader();
    for name in ["token", "handle", "chain", "text"] {
        read.text(name);
    }
    let message = v1::ListEventsRequest {
        types: read.choices("types", parse_event_type).into_iter().map(i32::from).collect(),
        filters: FilterFields::of_query(query).filters(),
        created_after: read.time("created_after"),
        created_before: read.time("created_before"),
        limit: Some(ROWS),
        cursor: read.text("cursor"),
    };
    read.finish(message)
}

/// The path of the stream with the same filters.
pub(super) fn stream_path(fields: &FilterFields) -> String {
    let v1::EventFilters { token, handle, chain, text } = fields.filters().unwrap_or_default();
    let [types, token, handle, chain] = [&fields.types, &token, &handle, &chain].map(|values| values.join(","));
    // A form has at most one text.
    let text = text.concat();
    let query = [("types", &*types), ("token", &*token), ("handle", &*handle), ("chain", &*chain), ("text", &*text)];
    link("/v1/events/stream", &query)
}

#[cfg(test)]
mod tests {
    use thesis_proto::error::ApiError;

    use super::*;

    #[test]
    fn a_query_string_becomes_a_request() {
        let query = PageQuery::read(
            "types=thesis.created&types=token.activity&token=%24SOL&handle=&created_after=2026-11-23T14%3A05&cursor=c",
        );
        let request = message(&query).unwrap();
        assert_eq!(request.types, [v1::EventType::ThesisCreated as i32, v1::EventType::TokenActivity as i32]);
        assert_eq!(request.filters.unwrap().token, ["$SOL"]);
        assert!(request.created_after.is_some() && request.created_before.is_none());
        assert_eq!((request.limit, request.cursor.as_deref()), (Some(25), Some("c")));
    }

    #[test]
    fn without_a_query_the_newest_are_requested() {
        let newest = v1::ListEventsRequest { limit: Some(25), ..v1::ListEventsRequest::default() };
        assert_eq!(message(&PageQuery::default()).unwrap(), newest);
        assert_eq!(stream_path(&FilterFields::default()), "/v1/events/stream");
    }

    #[test]
    fn all_faults_are_reported_at_once() {
        let query = "created_after=soon&types=bogus&token=a&token=b&cursor=c&cursor=d";
        let status = message(&PageQuery::read(query)).unwrap_err();
        let faults: Vec<_> = ApiError::from_status(&status).field_errors().map(|fault| fault.param).collect();
        assert_eq!(faults, ["token", "types", "created_after", "cursor"]);
    }

    #[test]
    fn the_stream_has_the_same_filters() {
        let query = PageQuery::read("types=thesis.created&types=&token=%24SOL%2C+tk_1&handle=%40b+&text=a%2C+b");
        let stream = "/v1/events/stream?types=thesis.created&token=%24SOL%2Ctk_1&handle=%40b&text=a%2C%20b";
        assert_eq!(stream_path(&FilterFields::of_query(&query)), stream);
    }
}
