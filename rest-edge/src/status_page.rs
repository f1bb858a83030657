//! The page at `/status`: what `GET /v1/status` answers, for people. It works without scripts.

mod chart;

use askama::Template;
use http::{
    HeaderValue, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER},
};
use prost_types::Timestamp;
use rest_edge_console::HEADERS;
use thesis_proto::{
    error::ApiError,
    names::{process_role_name, process_state_name, service_state_name},
    time::{format_millis, to_millis},
    v1,
};

use self::chart::Chart;
use crate::answer::{Answer, NO_STORE, bytes};

pub(crate) const PATH: &str = "/status";

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

#[derive(Template)]
#[template(path = "status.html")]
struct Page<'a> {
    public_url: &'a str,
    state: Badge,
    sentence: String,
    /// None if core did not answer.
    figures: Option<Figures>,
}

/// The colour and the text of a state.
struct Badge {
    class: &'static str,
    text: &'static str,
}

struct Figures {
    generated_at: String,
    roles: Vec<Role>,
    latencies: Vec<LatencyRow>,
    delivered: String,
    retrying: String,
    failed: String,
    /// The share of confirmed deliveries.
    success: String,
    feed: Option<Feed>,
}

struct Role {
    name: &'static str,
    about: &'static str,
    state: Badge,
    processes: Vec<Process>,
}

struct Process {
    id: String,
    state: Badge,
    version: String,
    /// Such as `2 s ago`.
    last_seen: String,
}

struct LatencyRow {
    name: String,
    role: &'static str,
    count: String,
    p50: String,
    p90: String,
    p99: String,
    chart: Option<Chart>,
}

struct Feed {
    state: Badge,
    lag: String,
}

/// The page of a status, or of the reason why there is none.
pub(crate) fn page(public_url: &str, status: Result<&v1::ServiceStatus, &ApiError>) -> Answer {
    let (code, page) = match status {
        Ok(status) => (StatusCode::OK, Page::of(public_url, status)),
        Err(error) => {
            let code = StatusCode::from_u16(error.code.http_status()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
            (code, Page::without_figures(public_url, error))
        }
    };
    let html = page.render().expect("texts always render");
    let mut response = bytes(code, html.into());
    response.headers_mut().extend(HEADERS);
    response.headers_mut().insert(CONTENT_TYPE, HTML);
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    if let Some(seconds) = status.err().and_then(|error| error.retry_after) {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    Ok(response)
}

impl<'a> Page<'a> {
    fn of(public_url: &'a str, status: &v1::ServiceStatus) -> Self {
        let now_ms = millis(status.generated_at.as_ref());
        let sentence = match status.state() {
            v1::ServiceState::Down => "A part of the service does not work.",
            v1::ServiceState::Degraded => "The service works, but not all of its parts do.",
            _ => "All parts of the service work.",
        };
        let deliveries = status.deliveries.unwrap_or_default();
        let success = deliveries.success_ratio.map(|ratio| format!("{:.2} %", ratio * 100.0));
        Self {
            public_url,
            state: service_badge(status.state()),
            sentence: sentence.to_owned(),
            figures: Some(Figures {
                generated_at: format_millis(now_ms),
                roles: status.roles.iter().map(|role| Role::of(role, now_ms)).collect(),
                latencies: status.latencies.iter().map(|row| LatencyRow::of(row, now_ms)).collect(),
                delivered: grouped(deliveries.delivered),
                retrying: grouped(deliveries.retrying),
                failed: grouped(deliveries.failed),
                success: success.unwrap_or_else(|| NONE.to_owned()),
                feed: status.feed.as_ref().map(Feed::of),
            }),
        }
    }

    fn without_figures(public_url: &'a str, error: &ApiError) -> Self {
        Self {
            public_url,
            state: Badge { class: "bad", text: "unknown" },
            sentence: format!("The status cannot be read: {}.", error.message),
            figures: None,
        }
    }
}

impl Role {
    fn of(role: &v1::RoleStatus, now_ms: i64) -> Self {
        let process = |process: &v1::ProcessStatus| Process {
            id: process.id.clone(),
            state: match process.state() {
                v1::ProcessState::Ok => Badge { class: "good", text: "ok" },
                state => Badge { class: "bad", text: process_state_name(state) },
            },
            version: process.version.clone(),
            last_seen: format!("{} s ago", (now_ms - millis(process.last_seen_at.as_ref())).max(0) / 1_000),
        };
        Self {
            name: process_role_name(role.role()),
            about: match role.role() {
                v1::ProcessRole::Edge => "REST, streams and pages",
                v1::ProcessRole::Core => "Data and gRPC",
                v1::ProcessRole::Worker => "Webhooks",
                v1::ProcessRole::Unspecified => "",
            },
            state: service_badge(role.state()),
            processes: role.processes.iter().map(process).collect(),
        }
    }
}

impl LatencyRow {
    fn of(row: &v1::LatencySummary, now_ms: i64) -> Self {
        let name = match (row.name.as_str(), row.class.as_deref()) {
            ("request", Some("none")) => "Requests without a rate class".to_owned(),
            ("request", Some(class)) => format!("Requests, {class}"),
            ("event_to_frame", _) => "Event to stream".to_owned(),
            ("event_to_delivery", _) => "Event to webhook".to_owned(),
            ("attempt", _) => "Attempt at an endpoint".to_owned(),
            (name, _) => name.to_owned(),
        };
        Self {
            name,
            role: process_role_name(row.role()),
            count: grouped(row.count),
            p50: duration(row.p50_ms),
            p90: duration(row.p90_ms),
            p99: duration(row.p99_ms),
            chart: Chart::of(&row.timeline, now_ms),
        }
    }
}

impl Feed {
    fn of(feed: &v1::FeedSummary) -> Self {
        let is_up = feed.state() == v1::FeedState::Up;
        let state = if is_up { Badge { class: "good", text: "up" } } else { Badge { class: "bad", text: "down" } };
        Self { state, lag: duration(feed.lag_ms.map(|lag| lag as f64)) }
    }
}

/// In place of a figure that there is not.
const NONE: &str = "–";

fn service_badge(state: v1::ServiceState) -> Badge {
    let class = match state {
        v1::ServiceState::Ok => "good",
        v1::ServiceState::Degraded => "warn",
        _ => "bad",
    };
    Badge { class, text: service_state_name(state) }
}

fn millis(time: Option<&Timestamp>) -> i64 {
    time.map_or(0, to_millis)
}

/// A time with three digits.
fn duration(ms: Option<f64>) -> String {
    match ms {
        None => NONE.to_owned(),
        Some(ms) if ms < 10.0 => format!("{ms:.2} ms"),
        Some(ms) if ms < 100.0 => format!("{ms:.1} ms"),
        Some(ms) if ms < 1_000.0 => format!("{ms:.0} ms"),
        Some(ms) => format!("{:.2} s", ms / 1_000.0),
    }
}

/// A count with spaces between groups of three digits.
fn grouped(count: i64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use http::response::Parts;
    use http_body_util::BodyExt as _;
    use thesis_proto::{error::ErrorCode, time::from_millis};

    use super::*;

    async fn shown(status: Result<&v1::ServiceStatus, &ApiError>) -> (Parts, String) {
        let response = page("https://data.test", status).unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (head, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn it_shows_states_and_figures() {
        let at = |ms: i64| Some(from_millis(1_795_442_700_000 + ms));
        let process = v1::ProcessStatus {
            id: "proc_1".to_owned(),
            state: v1::ProcessState::Stalled.into(),
            version: "<1>".to_owned(),
            last_seen_at: at(-8_400),
        };
        let role = v1::RoleStatus {
            role: v1::ProcessRole::Edge.into(),
            state: v1::ServiceState::Down.into(),
            processes: vec![process],
        };
        let latency = v1::LatencySummary {
            role: v1::ProcessRole::Edge.into(),
            name: "event_to_frame".to_owned(),
            count: 12_345,
            p50_ms: Some(1.234),
            p90_ms: Some(45.67),
            p99_ms: Some(2_340.0),
            timeline: vec![v1::LatencyMinute { start: at(-60_000), count: 1, p50_ms: Some(1.0), p99_ms: Some(2.0) }],
            ..v1::LatencySummary::default()
        };
        let status = v1::ServiceStatus {
            generated_at: at(0),
            state: v1::ServiceState::Down.into(),
            roles: vec![role],
            latencies: vec![latency],
            deliveries: Some(v1::DeliverySummary { delivered: 3, success_ratio: Some(0.75), ..Default::default() }),
            feed: Some(v1::FeedSummary { state: v1::FeedState::Up.into(), lag_ms: Some(120) }),
            ..v1::ServiceStatus::default()
        };
        let (head, html) = shown(Ok(&status)).await;
        assert_eq!(head.status, 200);
        assert!(!head.headers.contains_key(RETRY_AFTER));
        for text in [
            "A part of the service does not work.",
            "stalled",
            "&#60;1&#62;",
            "8 s ago",
            "Event to stream",
            "<th scope=\"col\" class=\"number\">p90</th>",
            "12\u{202f}345",
            "1.23 ms",
            "45.7 ms",
            "2.34 s",
            "75.00 %",
            "120 ms",
            "<path class=\"line-2\" d=\"M232 3.0h0\"",
        ] {
            assert!(html.contains(text), "{text}: {html}");
        }
        assert!(!html.contains("style=") && !html.contains("<script>"), "{html}");
    }

    #[tokio::test]
    async fn it_says_when_there_is_no_status() {
        for (code, number) in [(ErrorCode::ServiceUnavailable, 503), (ErrorCode::RateLimited, 429)] {
            let error = ApiError::new(code, "no core answers").with_retry_after(7);
            let (head, html) = shown(Err(&error)).await;
            assert_eq!((head.status.as_u16(), &head.headers[RETRY_AFTER]), (number, &HeaderValue::from_static("7")));
            assert!(html.contains("The status cannot be read: no core answers."), "{html}");
        }
    }

    #[test]
    fn durations_and_counts_are_short() {
        let durations = [None, Some(0.0), Some(9.994), Some(99.94), Some(999.4), Some(1_000.0)].map(duration);
        assert_eq!(durations, ["–", "0.00 ms", "9.99 ms", "99.9 ms", "999 ms", "1.00 s"]);
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1\u{202f}000", "1\u{202f}234\u{202f}567"]);
    }
}
