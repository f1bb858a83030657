//! Requests and answers of a running service, as examples. A system test holds them against real answers.

use serde_json::Value;
use thesis_proto::time::format_millis;

use super::DAY_MS;

macro_rules! examples {
    ($($name:literal)+) => {
        /// The examples by name: an operation's id, or `event_` and the event's type.
        const EXAMPLES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../examples/", $name, ".json")))),+];
    };
}

examples! {
    "createStreamTicket" "createTestThesis" "createWebhook" "deleteWebhook" "event_profile.updated"
    "event_thesis.created" "event_token.activity" "event_token.thesis_velocity" "event_webhook.test" "findProfile"
    "getDescription" "getDiscovery" "getEvent" "getMe" "getProfile" "getProfileWallets" "getThesis"
    "getThesisVelocity" "getToken" "getTokenActivity" "getUsage" "getWebhook" "listDeliveries" "listEvents"
    "listTheses" "listWebhooks" "replayDelivery" "rotateWebhookSecret" "search" "searchSemantically" "testWebhook"
    "updateWebhook" "verifyThesis"
}

/// A stream's text: its first cursor, a gap, an event and a ping.
pub(super) const STREAM: &str = include_str!("../../examples/streamEvents.txt");

/// A request's body, or null, and the body of its answer.
pub(super) struct Example {
    pub(super) request: Value,
    pub(super) response: Value,
}

/// The example of a name, with this service's address in it, and with times of these days where old ones would not work:
/// a claim that is tried must begin within the history of every plan. They change once a day, so that the description
/// does too.
pub(super) fn example(name: &str, public_url: &str, now_ms: i64) -> Option<Example> {
    let (_, text) = EXAMPLES.iter().find(|(known, _)| *known == name)?;
    let text = text.replace("{{api_url}}", public_url).replace("{{ws_url}}", &public_url.replacen("http", "ws", 1));
    let today = now_ms - now_ms.rem_euclid(DAY_MS);
    let text = [("{{five_days_ago}}", 5_i64), ("{{yesterday}}", 1), ("{{today}}", 0)]
        .into_iter()
        .fold(text, |text, (name, days)| text.replace(name, &format_millis(today - days * DAY_MS)));
    let mut example: Value = serde_json::from_str(&text).expect("examples are JSON");
    Some(Example { request: example["request"].take(), response: example["response"].take() })
}
