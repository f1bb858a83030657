//! Translates the query of the page of requests into a request to core.

use thesis_proto::{
    error::{ApiError, FieldError},
    v1,
};
use tonic::Status;

use crate::page_query::PageQuery;

/// Rows of a page. The live tail reads the first page every two seconds, and a second has at most 20 requests.
const ROWS: i32 = 50;
/// Links to other pages of the list keep these parameters.
pub(super) const KEPT: &[&str] = &["method", "status", "path", "code", "key", "request", "slow", "from", "to"];
/// The choices of a method.
pub(super) const METHODS: [&str; 6] = ["GET", "POST", "PATCH", "DELETE", "HEAD", "gRPC"];
/// The value that selects all errors.
pub(super) const ERRORS: &str = "errors";
/// The choices of a status: value, name, and the range that they select.
pub(super) const STATUSES: [(&str, &str, (i32, i32)); 4] = [
    ("successes", "Successes", (0, 399)),
    (ERRORS, "Errors", (400, 599)),
    ("4xx", "Refused: 4xx", (400, 499)),
    ("5xx", "Failed: 5xx", (500, 599)),
];

/// The filters as typed.
pub(super) struct RequestFields {
    pub(super) path: String,
    pub(super) code: String,
    pub(super) key: String,
    pub(super) request: String,
    pub(super) slow: String,
}

impl RequestFields {
    pub(super) fn of(query: &PageQuery) -> Self {
        let text = |name: &str| query.text(name).to_owned();
        Self { path: text("path"), code: text("code"), key: text("key"), request: text("request"), slow: text("slow") }
    }
}

/// Reads the query of a list.
///
/// # Errors
/// 422 with the wrong parameters.
pub(super) fn message(
    query: &PageQuery,
    project_id: &str,
    live: bool,
) -> Result<v1::ListLoggedRequestsRequest, Status> {
    let mut read = query.reader();
    let range = |name: &str| STATUSES.iter().find(|(value, ..)| *value == name).map(|(_, _, range)| *range);
    let range = read.choice("status", range);
    let method = |name: &str| METHODS.iter().find(|method| **method == name).map(|method| (*method).to_owned());
    let slow = read.text("slow");
    let message = v1::ListLoggedRequestsRequest {
        project_id: project_id.to_owned(),
        environment: if live { v1::Environment::Live } else { v1::Environment::Test }.into(),
        limit: Some(ROWS),
        cursor: read.text("cursor"),
        method: read.choice("method", method),
        path: read.text("path"),
        min_status: range.map(|(min, _)| min),
        max_status: range.map(|(_, max)| max),
        code: read.text("code").map(|code| code.to_uppercase()),
        key_id: read.text("key"),
        request_id: read.text("request"),
        min_duration_ms: slow.as_deref().and_then(|text| text.parse().ok()),
        from: read.time("from"),
        to: read.time("to"),
    };
    if slow.is_some() && message.min_duration_ms.is_none_or(|duration| duration < 0) {
        let fault = FieldError::new("slow", "must be a whole number of milliseconds");
        return Err(ApiError::validation(&[fault]).to_status(""));
    }
    read.finish(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_string_becomes_a_request() {
        let query =
            "method=POST&status=4xx&path=+%2Fv1%2Ftheses&code=rate_limited&key=key_1&request=req_1&slow=100&cursor=c";
        let read = message(&PageQuery::read(query), "prj_1", true).unwrap();
        let expected = v1::ListLoggedRequestsRequest {
            project_id: "prj_1".to_owned(),
            environment: v1::Environment::Live.into(),
            limit: Some(50),
            cursor: Some("c".to_owned()),
            method: Some("POST".to_owned()),
            path: Some("/v1/theses".to_owned()),
            min_status: Some(400),
            max_status: Some(499),
            code: Some("RATE_LIMITED".to_owned()),
            key_id: Some("key_1".to_owned()),
            request_id: Some("req_1".to_owned()),
            min_duration_ms: Some(100),
            from: None,
            to: None,
        };
        assert_eq!(read, expected);
        let none = message(&PageQuery::read("status=&method=&slow="), "prj_1", false).unwrap();
        assert_eq!((none.min_status, none.method, none.min_duration_ms), (None, None, None));
    }

    #[test]
    fn wrong_parameters_are_named() {
        for (query, param) in [
            ("status=3", "status"),
            ("method=PUT", "method"),
            ("slow=-1", "slow"),
            ("slow=x", "slow"),
            ("from=soon", "from"),
        ] {
            let status = message(&PageQuery::read(query), "prj_1", true).unwrap_err();
            let faults: Vec<_> = ApiError::from_status(&status).field_errors().map(|fault| fault.param).collect();
            assert_eq!(faults, [param]);
        }
    }
}
