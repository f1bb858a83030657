//! The health of a project: requests, streams, deliveries, quota and keys, each as a tile with a sentence and a chart.

use futures::future::try_join_all;
use thesis_proto::{time::to_millis, v1};
use tonic::Status;

use crate::{
    projects::{
        path,
        usage::{DAY_MS, UsageCounts, UsageRow, rows, used_of},
    },
    view::{Badge, Moment, bar_length, cut, group_digits, moment},
    visit::SignedIn,
};

/// The page reads the attempts of at most this many webhooks.
const MAX_WEBHOOKS: i32 = 4;
/// Keys that expire within this time need attention.
const EXPIRY_MS: i64 = 14 * DAY_MS;
/// The sentence names at most this many keys.
const MAX_NAMED: usize = 3;
/// Percentages at which a tile needs attention.
const MANY_ERRORS: u64 = 5;
const FEW_SUCCESSES: i64 = 95;
const MUCH_USED: i64 = 80;

const GOOD: Badge = Badge { word: "OK", class: "good" };
const NONE: Badge = Badge { word: "Nothing yet", class: "" };
const UNKNOWN: Badge = Badge { word: "Unknown", class: "" };
const ATTENTION: Badge = Badge { word: "Needs attention", class: "warn" };
const BAD: Badge = Badge { word: "Act now", class: "bad" };

/// One tile of the overview.
pub(super) struct Tile {
    pub(super) name: &'static str,
    pub(super) badge: Badge,
    pub(super) text: String,
    /// The beginning of the last sentence, and the time with which it ends.
    pub(super) until: Option<(&'static str, Moment)>,
    /// The path of the page with details.
    pub(super) href: String,
    /// The bars of the chart, one for each day.
    pub(super) bars: Vec<UsageRow>,
    /// The length of a single bar that shows a share.
    pub(super) share: Option<u64>,
}

impl Tile {
    pub(super) fn is_concern(&self) -> bool {
        ["warn", "bad"].contains(&self.badge.class)
    }
}

/// The attempts of an environment's webhooks in the last day.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    /// The insights of the webhooks; none if they could not be read.
    insights: Option<Vec<v1::WebhookInsight>>,
    /// True if there are more webhooks than these.
    has_more: bool,
}

impl Deliveries {
    /// Reads the newest webhooks of an environment. A failure leaves them out, so that the page still opens.
    pub(super) async fn read(signed_in: &SignedIn, project: &v1::Project, live: bool) -> Self {
        if project.archived || (live && !project.live_approved) {
            return Self { insights: Some(Vec::new()), has_more: false };
        }
        Self::try_read(signed_in, &project.id, live).await.unwrap_or_default()
    }

    async fn try_read(signed_in: &SignedIn, project_id: &str, live: bool) -> Result<Self, Status> {
        let visit = &signed_in.visit;
        let message = v1::ListWebhooksRequest { limit: Some(MAX_WEBHOOKS), ..v1::ListWebhooksRequest::default() };
        let request = visit.request_in(project_id, live, message);
        let listed = signed_in.core().webhooks.list_webhooks(request).await?.into_inner();
        let insight = |webhook: v1::Webhook| async move {
            let message = v1::GetWebhookInsightRequest { id: webhook.id };
            let request = visit.request_in(project_id, live, message);
            let answer = signed_in.core().webhooks.get_webhook_insight(request).await?;
            Ok::<_, Status>(answer.into_inner().insight.unwrap_or_default())
        };
        let insights = try_join_all(listed.data.into_iter().map(insight)).await?;
        Ok(Self { insights: Some(insights), has_more: listed.has_more })
    }

    /// True if an endpoint accepted a delivery in the last day.
    pub(super) fn has_success(&self) -> bool {
        self.sums().1 > 0
    }

    /// Total attempts and successes.
    fn sums(&self) -> (i64, i64) {
        let insights = self.insights.as_deref().unwrap_or_default();
        let days = insights.iter().filter_map(|insight| insight.last_day.as_ref());
        days.fold((0, 0), |(attempts, successes), day| (attempts + day.attempts, successes + day.successes))
    }
}

/// The data behind the tiles.
pub(super) struct Facts<'a> {
    pub(super) counted: UsageCounts,
    pub(super) limits: v1::Usage,
    pub(super) deliveries: Deliveries,
    /// The keys that are not revoked.
    pub(super) keys: &'a [v1::ApiKey],
    pub(super) now_ms: i64,
}

/// True if the key with this id belongs to the environment.
pub(super) fn is_of(keys: &[v1::ApiKey], revoked: &[v1::ApiKey], id: &str, live: bool) -> bool {
    let environment = if live { v1::Environment::Live } else { v1::Environment::Test };
    keys.iter().chain(revoked).any(|key| key.id == id && key.environment() == environment)
}

/// The tiles of the overview in their order.
pub(super) fn tiles(project: &v1::Project, environment: &str, facts: Facts<'_>) -> Vec<Tile> {
    let home = path(&project.id);
    let Facts { counted, limits, deliveries, keys, now_ms } = facts;
    let usage = format!("{home}/usage?in={environment}");
    vec![
        requests(counted, usage.clone()),
        deliveries_tile(&deliveries, format!("{home}/{environment}/webhooks")),
        streams(limits.streams.unwrap_or_default(), usage.clone()),
        quota(limits.month.as_ref(), usage),
        expiring_keys(keys, now_ms, format!("{home}#keys")),
    ]
}

fn requests(counted: UsageCounts, href: String) -> Tile {
    let all = counted.all;
    let (badge, text) = if all.requests == 0 {
        (NONE, "No request with a key in the last 7 days.".to_owned())
    } else {
        let badge = if all.errors * 100 >= all.requests * MANY_ERRORS { ATTENTION } else { GOOD };
        let (requests, errors) = (group_digits(all.requests), group_digits(all.errors));
        (badge, format!("{requests} requests in the last 7 days; {errors} of them were refused or failed."))
    };
    let bars = if all.requests == 0 { Vec::new() } else { rows(counted.days) };
    Tile { name: "Requests", badge, text, until: None, href, bars, share: None }
}

fn deliveries_tile(deliveries: &Deliveries, href: String) -> Tile {
    let tile =
        |badge, text, share| Tile { name: "Deliveries", badge, text, until: None, href, bars: Vec::new(), share };
    let Some(insights) = deliveries.insights.as_deref() else {
        return tile(UNKNOWN, "The attempts could not be read now. Reload the page in a minute.".to_owned(), None);
    };
    if insights.is_empty() {
        return tile(NONE, "There is no webhook in this environment.".to_owned(), None);
    }
    let whose = if deliveries.has_more { " of the newest webhooks" } else { "" };
    let (attempts, successes) = deliveries.sums();
    let waiting = insights.iter().filter(|insight| insight.awaits_verification).count();
    let oldest =
        insights.iter().filter_map(|insight| insight.oldest_pending_at.as_ref()).min_by_key(|at| to_millis(at));
    let mut text = match attempts {
        0 => format!("No attempt{whose} in the last day."),
        _ => format!(
            "{} of {} attempts{whose} in the last day succeeded.",
            group_digits(successes),
            group_digits(attempts)
        ),
    };
    if waiting > 0 {
        text.push_str(" Deliveries wait until a test event is accepted.");
    }
    let badge = match attempts {
        _ if waiting > 0 => BAD,
        0 => NONE,
        _ if successes * 100 < attempts * FEW_SUCCESSES => ATTENTION,
        _ => GOOD,
    };
    let until = oldest.map(|at| ("The oldest delivery that waits is of", moment(Some(at))));
    Tile { until, ..tile(badge, text, (attempts > 0).then(|| share(successes, attempts))) }
}

fn streams(streams: v1::StreamUsage, href: String) -> Tile {
    let v1::StreamUsage { open, limit } = streams;
    let badge = match open {
        0 => NONE,
        _ if open >= limit => ATTENTION,
        _ => GOOD,
    };
    let mut text = format!("{} streams of the project are open.", used_of(open, limit));
    if limit > 0 && open >= limit {
        text.push_str(" Another one is refused.");
    }
    Tile { name: "Streams", badge, text, until: None, href, bars: Vec::new(), share: Some(share(open, limit)) }
}

fn quota(month: Option<&v1::MonthUsage>, href: String) -> Tile {
    let v1::MonthUsage { used, limit, end, .. } = month.cloned().unwrap_or_default();
    let badge = match used {
        _ if used >= limit => BAD,
        _ if used * 100 >= limit * MUCH_USED => ATTENTION,
        _ => GOOD,
    };
    let text =
        format!("{} requests of this month are used, by all projects of the organization.", used_of(used, limit));
    let until = Some(("The month ends on", moment(end.as_ref())));
    Tile { name: "Quota", badge, text, until, href, bars: Vec::new(), share: Some(share(used, limit)) }
}

fn expiring_keys(keys: &[v1::ApiKey], now_ms: i64, href: String) -> Tile {
    let is_soon = |key: &&v1::ApiKey| {
        let at = key.expires_at.as_ref().map(to_millis);
        at.is_some_and(|at| now_ms < at && at <= now_ms + EXPIRY_MS)
    };
    let soon: Vec<_> = keys.iter().filter(is_soon).collect();
    let mut names: Vec<_> = soon.iter().take(MAX_NAMED).map(|key| cut(&key.name, 40)).collect();
    if soon.len() > MAX_NAMED {
        names.push(format!("{} more", soon.len() - MAX_NAMED));
    }
    let (badge, text) = match (keys.len(), soon.len()) {
        (0, _) => (NONE, "There are no keys.".to_owned()),
        (_, 0) => (GOOD, "No key expires in the next 14 days.".to_owned()),
        (_, 1) => (ATTENTION, format!("A key expires in the next 14 days: {}.", names.join(", "))),
        (_, number) => (ATTENTION, format!("{number} keys expire in the next 14 days: {}.", names.join(", "))),
    };
    Tile { name: "Keys", badge, text, until: None, href, bars: Vec::new(), share: None }
}

/// The length of a bar that shows a part of a whole.
fn share(part: i64, whole: i64) -> u64 {
    let count = |number: i64| u64::try_from(number).unwrap_or_default();
    bar_length(count(part), count(whole))
}

#[cfg(test)]
mod tests;
