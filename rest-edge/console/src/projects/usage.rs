//! The usage of a project: the limits of its plan, and its requests by day and by key.

use std::{cmp::Reverse, collections::BTreeMap};

use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use thesis_proto::{
    names::{CONSOLE, environment_name},
    time::{format_millis, from_millis, to_millis},
    v1,
};

use super::{ProjectAccess, find};
use crate::{
    Page,
    page_query::PageQuery,
    view::{Layout, MAX_BAR, Moment, bar_length, group_digits, moment, render},
    visit::SignedIn,
};

pub(super) const DAY_MS: i64 = 86_400_000;
/// The page offers these spans in days. The first one is the default.
const SPANS: [i64; 2] = [7, 30];
/// The page shows the most used keys in rows of their own, at most this many.
const MAX_KEYS: usize = 50;
const DAY_WIDTH: usize = 10;

/// Number of requests. `errors` counts those that were refused or failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestCount {
    pub(super) requests: u64,
    pub(super) errors: u64,
}

impl RequestCount {
    fn add(&mut self, other: Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.errors = self.errors.saturating_add(other.errors);
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct UsageRow {
    pub(super) label: String,
    pub(super) requests: String,
    pub(super) errors: String,
    /// Left edge of the bar in the chart of days.
    pub(super) x: usize,
    /// Length of the bar; the longest one is [`MAX_BAR`].
    pub(super) size: u64,
    /// Length of the part for errors.
    pub(super) error_size: u64,
    /// Top edges of the bar and of its part for errors.
    pub(super) top: u64,
    pub(super) error_top: u64,
}

pub(super) fn rows(counts: Vec<(String, RequestCount)>) -> Vec<UsageRow> {
    let max_requests = counts.iter().map(|(_, count)| count.requests).max().unwrap_or_default();
    let row = |(at, (label, count)): (usize, (String, RequestCount))| {
        let (size, error_size) = (bar_length(count.requests, max_requests), bar_length(count.errors, max_requests));
        UsageRow {
            label,
            requests: group_digits(count.requests),
            errors: group_digits(count.errors),
            x: at * DAY_WIDTH,
            size,
            error_size,
            top: MAX_BAR - size,
            error_top: MAX_BAR - error_size,
        }
    };
    counts.into_iter().enumerate().map(row).collect()
}

/// The date of a time, such as `2026-11-23`.
fn date_of(at_ms: i64) -> String {
    format_millis(at_ms).chars().take(10).collect()
}

/// Counts of consecutive days that start at midnight.
pub(super) struct UsageCounts {
    pub(super) days: Vec<(String, RequestCount)>,
    /// By the id of the key.
    keys: BTreeMap<String, RequestCount>,
    pub(super) all: RequestCount,
}

pub(super) fn count_usage(usage: &[v1::KeyUsage], from_ms: i64, days: i64) -> UsageCounts {
    let mut counted = UsageCounts {
        days: (0..days).map(|at| (date_of(from_ms + at * DAY_MS), RequestCount::default())).collect(),
        keys: BTreeMap::new(),
        all: RequestCount::default(),
    };
    for row in usage {
        let count = RequestCount { requests: row.requests, errors: row.errors };
        let at = row.hour.as_ref().map_or(0, to_millis).saturating_sub(from_ms).div_euclid(DAY_MS);
        // A core whose clock differs may report an hour outside the span.
        let Some((_, of_day)) = usize::try_from(at).ok().and_then(|at| counted.days.get_mut(at)) else { continue };
        of_day.add(count);
        counted.keys.entry(row.key_id.clone()).or_default().add(count);
        counted.all.add(count);
    }
    counted
}

/// The counts of the most used keys by name, and one sum of all others.
fn by_key(counts: BTreeMap<String, RequestCount>, keys: &[v1::ApiKey]) -> Vec<(String, RequestCount)> {
    let mut named: Vec<_> = counts
        .into_iter()
        .map(|(id, count)| match keys.iter().find(|key| key.id == id) {
            Some(key) => (format!("{} ({}, {})", key.name, key.prefix, environment_name(key.environment())), count),
            None => (id, count),
        })
        .collect();
    named.sort_by_key(|(_, count)| Reverse(count.requests));
    let mut others = RequestCount::default();
    let rest = named.split_off(named.len().min(MAX_KEYS));
    let more = rest.len();
    for (_, count) in rest {
        others.add(count);
    }
    if more > 0 {
        named.push((format!("{more} other keys"), others));
    }
    named
}

/// A limit of the plan that applies to each environment separately.
struct PlanLimit {
    name: &'static str,
    test: String,
    live: String,
}

pub(super) fn used_of(used: i64, limit: i64) -> String {
    format!("{} of {}", group_digits(used), group_digits(limit))
}

fn rate(rate: Option<v1::RateUsage>) -> String {
    let rate = rate.unwrap_or_default();
    used_of(rate.limit.saturating_sub(rate.remaining), rate.limit)
}

fn limits(test: &v1::Usage, live: &v1::Usage) -> [PlanLimit; 4] {
    let limit = |name, of: fn(&v1::Usage) -> String| PlanLimit { name, test: of(test), live: of(live) };
    let webhooks = |usage: &v1::Usage| {
        let webhooks = usage.webhooks.unwrap_or_default();
        used_of(webhooks.used, webhooks.limit)
    };
    [
        limit("Standard requests this minute", |usage| rate(usage.rates.and_then(|rates| rates.standard))),
        limit("Heavy requests this minute", |usage| rate(usage.rates.and_then(|rates| rates.heavy))),
        limit("Verifications this minute", |usage| rate(usage.rates.and_then(|rates| rates.verify))),
        limit("Webhooks", webhooks),
    ]
}

struct SpanChoice {
    days: i64,
    is_shown: bool,
}

#[derive(Template)]
#[template(path = "usage.html")]
struct UsagePage {
    layout: Layout,
    access: ProjectAccess,
    spans: Vec<SpanChoice>,
    month: String,
    month_left: String,
    month_end: Moment,
    streams: String,
    limits: [PlanLimit; 4],
    span_days: i64,
    chart_width: usize,
    requests: String,
    errors: String,
    /// Requests of members in the console, which the other figures leave out.
    console: String,
    max_requests: String,
    days: Vec<UsageRow>,
    keys: Vec<UsageRow>,
}

pub(super) async fn show(signed_in: SignedIn, Path(id): Path<String>, query: PageQuery) -> Page {
    let requested = query.text("days").parse::<i64>().ok();
    let span_days = requested.filter(|days| SPANS.contains(days)).unwrap_or(SPANS[0]);
    let access = find(&signed_in, &id).await?;
    let today = signed_in.visit.console.clock.now_ms().div_euclid(DAY_MS) * DAY_MS;
    let from_ms = today - (span_days - 1) * DAY_MS;

    let project_id = || access.project.id.clone();
    let limits_request = signed_in.request(v1::GetProjectUsageRequest { project_id: project_id() });
    let keys_request = signed_in.request(v1::AccountServiceListKeysRequest { project_id: project_id() });
    let from = Some(from_millis(from_ms));
    let message = v1::ListKeyUsageRequest { project_id: project_id(), from, to: None };
    let usage_request = signed_in.request(message);
    let (plan, keys, usage) = tokio::try_join!(
        signed_in.core().accounts.get_project_usage(limits_request),
        signed_in.core().accounts.list_keys(keys_request),
        signed_in.core().accounts.list_key_usage(usage_request),
    )?;
    let v1::GetProjectUsageResponse { test, live } = plan.into_inner();
    let (test, live) = (test.unwrap_or_default(), live.unwrap_or_default());
    // Requests of members in the console count neither against the quota nor as requests of keys.
    let is_console = |row: &v1::KeyUsage| row.key_id.starts_with(CONSOLE);
    let (console, usage): (Vec<_>, Vec<_>) = usage.into_inner().data.into_iter().partition(is_console);
    let console = count_usage(&console, from_ms, span_days).all.requests;
    let counted = count_usage(&usage, from_ms, span_days);
    let month = test.month.unwrap_or_default();
    let streams = test.streams.unwrap_or_default();
    let max_requests = counted.days.iter().map(|(_, count)| count.requests).max().unwrap_or_default();
    let page = UsagePage {
        layout: Layout::of(&signed_in, &format!("Usage of {}", access.project.name), "organizations"),
        spans: SPANS.iter().map(|&days| SpanChoice { days, is_shown: days == span_days }).collect(),
        month: used_of(month.used, month.limit),
        month_left: group_digits(month.remaining),
        month_end: moment(month.end.as_ref()),
        streams: used_of(streams.open, streams.limit),
        limits: limits(&test, &live),
        span_days,
        chart_width: counted.days.len() * DAY_WIDTH,
        requests: group_digits(counted.all.requests),
        errors: group_digits(counted.all.errors),
        console: group_digits(console),
        max_requests: group_digits(max_requests),
        keys: rows(by_key(counted.keys, &keys.into_inner().data)),
        days: rows(counted.days),
        access,
    };
    render(StatusCode::OK, &page)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: i64 = 20_000 * DAY_MS;

    fn usage(at_ms: i64, key_id: &str, requests: u64, errors: u64) -> v1::KeyUsage {
        let (key_id, class) = (key_id.to_owned(), "standard".to_owned());
        v1::KeyUsage { hour: Some(from_millis(at_ms)), key_id, class, requests, errors }
    }

    #[test]
    fn hours_are_added_up_by_day_and_key() {
        let list = [
            usage(FROM, "key_1", 5, 1),
            usage(FROM + DAY_MS - 3_600_000, "key_2", 2, 0),
            usage(FROM + DAY_MS, "key_1", 1, 1),
            usage(FROM + 2 * DAY_MS, "key_1", 100, 0),
            usage(FROM - 3_600_000, "key_1", 100, 0),
        ];
        let counted = count_usage(&list, FROM, 2);
        let days: Vec<_> = counted.days.iter().map(|(_, count)| (count.requests, count.errors)).collect();
        assert_eq!(days, [(7, 1), (1, 1)]);
        assert_eq!(counted.keys["key_1"], RequestCount { requests: 6, errors: 2 });
        assert_eq!(counted.all, RequestCount { requests: 8, errors: 2 });
    }

    #[test]
    fn bars_fit_the_chart() {
        let of = |requests, errors| (String::new(), RequestCount { requests, errors });
        let rows = rows(vec![of(u64::MAX, 1), of(0, 0), of(1, 1)]);
        assert_eq!((rows[0].size, rows[0].top, rows[0].error_size), (MAX_BAR, 0, 2));
        assert_eq!((rows[1].size, rows[1].top, rows[1].x), (0, MAX_BAR, DAY_WIDTH));
        assert_eq!((rows[2].size, rows[2].error_size, rows[2].error_top), (2, 2, MAX_BAR - 2));
    }

    #[test]
    fn busy_keys_have_their_own_rows() {
        let counts = (0..60).map(|at| (format!("key_{at}"), RequestCount { requests: at, errors: 0 })).collect();
        let keys = [v1::ApiKey { id: "key_59".into(), name: "A".into(), prefix: "p".into(), ..v1::ApiKey::default() }];
        let named = by_key(counts, &keys);
        assert_eq!(named.len(), MAX_KEYS + 1);
        assert_eq!(named[0].0, "A (p, unspecified)");
        assert_eq!(named[MAX_KEYS], ("10 other keys".to_owned(), RequestCount { requests: 45, errors: 0 }));
    }
}
