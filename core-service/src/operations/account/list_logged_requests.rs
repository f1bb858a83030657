//! Lists the requests of a project's keys in an environment over the last 72 hours, newest first. Fails with
//! `INVALID_CURSOR`.

use thesis_proto::{
    metadata::{LIVE, TEST},
    v1::{self, Environment},
};

use crate::{
    access::rights,
    accounts::Person,
    convert,
    domain::{
        account::Role,
        list_cursor::list_name,
        request_log::{KEPT_MS, RequestRow},
        window::CLOCK_SKEW_MS,
    },
    error::Result,
    operations::{
        admin::{invalid, time},
        paging::Paging,
    },
    service::Core,
    tables::request_log::{self, RequestSpan},
};

const MAX_LIMIT: i32 = 100;
const DEFAULT_LIMIT: i32 = 25;

/// The name of an environment in the key of its rows.
pub(super) fn environment(environment: Environment) -> Result<&'static str> {
    match environment {
        Environment::Test => Ok(TEST),
        Environment::Live => Ok(LIVE),
        Environment::Unspecified => Err(invalid("environment", "must be test or live")),
    }
}

/// The key of the rows of a project and environment.
pub(super) fn scope(project: &str, environment: &str) -> String {
    format!("{project}/{environment}")
}

/// Checks the length of a text.
fn text(param: &str, given: Option<&str>, max: usize) -> Result<()> {
    if given.is_some_and(|text| text.is_empty() || text.chars().count() > max) {
        return Err(invalid(param, &format!("must have 1 to {max} characters")));
    }
    Ok(())
}

/// Checks the filters. Returns the span of time that they select.
fn check(message: &v1::ListLoggedRequestsRequest, now_ms: i64) -> Result<RequestSpan> {
    for (param, given, max) in [
        ("method", &message.method, 16),
        ("path", &message.path, 200),
        ("code", &message.code, 64),
        ("key_id", &message.key_id, 64),
        ("request_id", &message.request_id, 64),
        ("cursor", &message.cursor, 512),
    ] {
        text(param, given.as_deref(), max)?;
    }
    let given = |param, at: &Option<prost_types::Timestamp>| at.as_ref().map(|at| time(param, Some(at))).transpose();
    let (from, to) = (given("from", &message.from)?, given("to", &message.to)?);
    let oldest = now_ms - KEPT_MS + 1;
    // The clock of another core may be ahead of this one's.
    let newest = now_ms + CLOCK_SKEW_MS;
    Ok(RequestSpan { from: from.unwrap_or(oldest).max(oldest), to: to.unwrap_or(newest).min(newest) })
}

/// True if a request matches the filters apart from the time.
fn is_wanted(message: &v1::ListLoggedRequestsRequest, row: &RequestRow) -> bool {
    let RequestRow { id, request, .. } = row;
    let is = |wanted: &Option<String>, text: &str| wanted.as_deref().is_none_or(|wanted| wanted == text);
    let is_of_path = |part: &String| request.path.contains(part.as_str()) || request.route.contains(part.as_str());
    is(&message.method, &request.method)
        && message.path.as_ref().is_none_or(is_of_path)
        && message.min_status.is_none_or(|min| request.status >= min)
        && message.max_status.is_none_or(|max| request.status <= max)
        && is(&message.code, request.code.as_deref().unwrap_or_default())
        && is(&message.key_id, &request.key)
        && is(&message.request_id, id)
        && message.min_duration_ms.is_none_or(|min| request.duration_ms >= min)
}

/// The name of the list for its cursors. It contains every field of a request, except those of the page.
fn name_of(scope: &str, message: &v1::ListLoggedRequestsRequest) -> [u8; 32] {
    let filters = v1::ListLoggedRequestsRequest { limit: None, cursor: None, ..message.clone() };
    let filters = hex::encode(prost::Message::encode_to_vec(&filters));
    list_name(&["requests", scope, &filters])
}

pub async fn list_logged_requests(
    core: &Core,
    person: &Person,
    message: &v1::ListLoggedRequestsRequest,
) -> Result<v1::ListLoggedRequestsResponse> {
    let environment = environment(message.environment())?;
    let limit = message.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(invalid("limit", &format!("must be from 1 to {MAX_LIMIT}")));
    }
    let span = check(message, person.now_ms)?;
    core.shared.control.refresh().await?;
    rights::project(&core.shared.control.state(), &person.actor, &message.project_id, Role::Viewer)?;
    let scope = scope(&message.project_id, environment);
    let paging = Paging::new(core, name_of(&scope, message), message.cursor.as_deref())?;
    let limit = usize::try_from(limit).unwrap_or_default();
    let wanted = |row: &RequestRow| is_wanted(message, row);
    let page = request_log::page(&core.shared.backend, &scope, span, paging.after.clone(), limit, wanted).await?;
    let next_cursor = page.next.map(|(created_at, id)| paging.cursor_after(created_at, id));
    let data = page.rows.into_iter().map(convert::account::logged_request).collect();
    Ok(v1::ListLoggedRequestsResponse { data, has_more: next_cursor.is_some(), next_cursor })
}

#[cfg(test)]
mod tests {
    use thesis_proto::time::from_millis;

    use super::*;
    use crate::{domain::request_log::LoggedRequest, tests::harness::NOON};

    #[test]
    fn the_span_is_that_of_the_kept_requests() {
        let of = |from: Option<i64>, to: Option<i64>| {
            let (from, to) = (from.map(from_millis), to.map(from_millis));
            let message = v1::ListLoggedRequestsRequest { from, to, ..v1::ListLoggedRequestsRequest::default() };
            let RequestSpan { from, to } = check(&message, NOON).unwrap();
            (from, to)
        };
        let (oldest, newest) = (NOON - KEPT_MS + 1, NOON + CLOCK_SKEW_MS);
        assert_eq!(of(None, None), (oldest, newest));
        assert_eq!(of(Some(0), Some(NOON + KEPT_MS)), (oldest, newest));
        assert_eq!(of(Some(NOON - 2), Some(NOON - 1)), (NOON - 2, NOON - 1));
        let long = v1::ListLoggedRequestsRequest { method: Some("X".repeat(17)), ..Default::default() };
        assert_eq!(check(&long, NOON).unwrap_err().api.param.as_deref(), Some("method"));
    }

    #[test]
    fn each_filter_selects() {
        let request = LoggedRequest {
            method: "GET".to_owned(),
            route: "/v1/theses/{id}".to_owned(),
            path: "/v1/theses/th_1".to_owned(),
            status: 404,
            code: Some("THESIS_NOT_FOUND".to_owned()),
            key: "key_1".to_owned(),
            duration_ms: 7,
            ..LoggedRequest::default()
        };
        let row = RequestRow { at: NOON, id: "req_1".to_owned(), request };
        let all = v1::ListLoggedRequestsRequest::default;
        let text = |text: &str| Some(text.to_owned());
        for (taking, leaving) in [
            (
                v1::ListLoggedRequestsRequest { method: text("GET"), ..all() },
                v1::ListLoggedRequestsRequest { method: text("POST"), ..all() },
            ),
            (
                v1::ListLoggedRequestsRequest { path: text("th_1"), ..all() },
                v1::ListLoggedRequestsRequest { path: text("th_2"), ..all() },
            ),
            (
                v1::ListLoggedRequestsRequest { path: text("{id}"), ..all() },
                v1::ListLoggedRequestsRequest { code: text("X"), ..all() },
            ),
            (
                v1::ListLoggedRequestsRequest { min_status: Some(404), ..all() },
                v1::ListLoggedRequestsRequest { min_status: Some(405), ..all() },
            ),
            (
                v1::ListLoggedRequestsRequest { max_status: Some(404), ..all() },
                v1::ListLoggedRequestsRequest { max_status: Some(403), ..all() },
            ),
            (
                v1::ListLoggedRequestsRequest { key_id: text("key_1"), ..all() },
                v1::ListLoggedRequestsRequest { key_id: text("key_2"), ..all() },
            ),
            (
                v1::ListLoggedRequestsRequest { request_id: text("req_1"), ..all() },
                v1::ListLoggedRequestsRequest { request_id: text("req_2"), ..all() },
            ),
            (
                v1::ListLoggedRequestsRequest { min_duration_ms: Some(7), ..all() },
                v1::ListLoggedRequestsRequest { min_duration_ms: Some(8), ..all() },
            ),
        ] {
            assert!(is_wanted(&taking, &row) && !is_wanted(&leaving, &row), "{taking:?} {leaving:?}");
        }
        assert!(is_wanted(&all(), &row));
    }
}
