//! How the deliveries of a webhook go, as its page shows it.

use thesis_proto::{
    time::{format_millis, to_millis},
    v1,
};
use tonic::{Code, Status};

use super::chart::{self, Charts};
use crate::{
    page_query::time_field,
    view::{Choice, choices, group_digits},
    workspace::Workspace,
};

/// The time before now from which failed deliveries are sent again, unless another one is typed, in milliseconds.
const DEFAULT_SPAN_MS: i64 = 86_400_000;

/// The insight as the page of the webhook shows it.
pub(super) struct Insight {
    pub(super) insight: v1::WebhookInsight,
    /// The time in the form that sends deliveries again.
    pub(super) since: String,
    pub(super) outcomes: Vec<Choice>,
    pub(super) charts: Charts,
    /// The end of the time in which the old secret signs, in ISO 8601; none outside it.
    pub(super) old_secret_until: Option<String>,
    /// The progress of the last replay, in percent; none without a recent replay.
    pub(super) replayed_percent: Option<i64>,
}

/// Reads the insight of a webhook. A core of an earlier version has none.
pub(super) async fn read(workspace: &Workspace, id: &str) -> Result<Insight, Status> {
    let request = workspace.request(v1::GetWebhookInsightRequest { id: id.to_owned() });
    let insight = match workspace.core().webhooks.get_webhook_insight(request).await {
        Err(status) if status.code() == Code::Unimplemented => None,
        answer => answer?.into_inner().insight,
    };
    let now_ms = workspace.signed_in.visit.console.clock.now_ms();
    let insight = insight.unwrap_or_default();
    Ok(Insight {
        charts: chart::draw(&insight.hours),
        old_secret_until: insight.old_secret_until.as_ref().map(|until| format_millis(to_millis(until))),
        replayed_percent: insight.replay.as_ref().map(replayed_percent),
        insight,
        since: time_field(now_ms - DEFAULT_SPAN_MS),
        outcomes: choices([("failed", "failed"), ("delivered", "were delivered")], "failed"),
    })
}

/// The attempts of a span as one line.
pub(super) fn attempts_text(attempts: Option<&v1::WebhookAttempts>) -> String {
    let Some((attempts, rate)) = attempts.and_then(|attempts| Some((attempts, attempts.success_rate?))) else {
        return "no attempts".to_owned();
    };
    let number = group_digits(attempts.attempts);
    let word = if attempts.attempts == 1 { "attempt" } else { "attempts" };
    let text = format!("{number} {word}, {} succeeded", percent(rate, attempts));
    match (attempts.latency_p50_ms, attempts.latency_p99_ms) {
        (Some(median), Some(p99)) => format!("{text}; response time {median} ms (median), {p99} ms (p99)"),
        _ => format!("{text}; no responses"),
    }
}

/// A share in percent. It is 100 % or 0 % only if that is exact.
fn percent(rate: f64, attempts: &v1::WebhookAttempts) -> String {
    if attempts.successes == attempts.attempts {
        return "100 %".to_owned();
    }
    if attempts.successes == 0 {
        return "0 %".to_owned();
    }
    format!("{:.1} %", (rate * 100.0).clamp(0.1, 99.9))
}

/// The progress of a replay, by the time of its deliveries: it goes from the newest to the oldest.
fn replayed_percent(replay: &v1::WebhookReplay) -> i64 {
    let [created, since, examined] =
        [&replay.created_at, &replay.since, &replay.examined_to].map(|at| at.as_ref().map_or(0, to_millis));
    let whole = (created - since).max(1);
    if replay.done { 100 } else { ((created - examined) * 100 / whole).clamp(0, 99) }
}

/// The progress of a replay as one line.
pub(super) fn replay_text(replay: &v1::WebhookReplay) -> String {
    let (replayed, examined) = (group_digits(replay.replayed), group_digits(replay.examined));
    let state = if replay.done { "done" } else { "under way" };
    format!("{state}: {replayed} sent again of {examined} examined")
}

#[cfg(test)]
mod tests {
    use thesis_proto::time::from_millis;

    use super::*;

    #[test]
    fn attempts_are_one_line() {
        assert_eq!(attempts_text(None), "no attempts");
        assert_eq!(attempts_text(Some(&v1::WebhookAttempts::default())), "no attempts");
        let some = |attempts: i64, successes: i64, latency: Option<i32>| v1::WebhookAttempts {
            attempts,
            successes,
            success_rate: Some(successes as f64 / attempts as f64),
            latency_p50_ms: latency,
            latency_p99_ms: latency.map(|latency| 2 * latency),
            since: None,
        };
        let text = |attempts: v1::WebhookAttempts| attempts_text(Some(&attempts));
        let shown = text(some(2, 2, Some(7)));
        assert_eq!(shown, "2 attempts, 100 % succeeded; response time 7 ms (median), 14 ms (p99)");
        assert_eq!(text(some(1, 0, None)), "1 attempt, 0 % succeeded; no responses");
        assert!(text(some(100_000, 99_999, Some(1))).contains("99.9 % succeeded"));
        assert!(text(some(100_000, 1, Some(1))).contains(" 0.1 % succeeded"));
    }

    #[test]
    fn a_replay_is_one_line() {
        let replay = v1::WebhookReplay { replayed: 2, examined: 7, ..v1::WebhookReplay::default() };
        assert_eq!(replay_text(&replay), "under way: 2 sent again of 7 examined");
        assert!(replay_text(&v1::WebhookReplay { done: true, ..replay }).starts_with("done: "));
    }

    #[test]
    fn the_progress_of_a_replay_follows_its_deliveries() {
        let at = |millis| Some(from_millis(millis));
        let replay = |examined: i64, done| v1::WebhookReplay {
            since: at(1_000),
            created_at: at(3_000),
            examined_to: at(examined),
            done,
            ..v1::WebhookReplay::default()
        };
        let percent = [(3_000, false), (2_500, false), (1_000, false), (0, false), (2_500, true)]
            .map(|(examined, done)| replayed_percent(&replay(examined, done)));
        assert_eq!(percent, [0, 25, 99, 99, 100]);
    }
}
