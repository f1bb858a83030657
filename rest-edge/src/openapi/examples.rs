//! Examples recorded from a running service. A system test compares them with real responses.

use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use thesis_proto::time::format_millis;

use crate::description::DAY_MS;

macro_rules! examples {
    ($($name:literal)+) => {
        /// The examples by operation id, or by `event_` and the event's type.
        const EXAMPLES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../examples/", $name, ".json")))),+];
    };
}

examples! {
    "createAlert" "createStreamTicket" "createTestThesis" "createWebhook" "deleteAlert" "deleteWebhook"
    "event_alert.firing" "event_alert.resolved" "event_profile.updated"
    "event_thesis.created" "event_token.activity" "event_token.thesis_velocity" "event_webhook.test" "findProfile"
    "getAlert" "getArchiveReceipt" "getAsyncDescription" "getDescription" "getDiscovery" "getEvent" "getMe"
    "getProfile" "getProfileWallets" "getReceipt" "getStatus" "getThesis" "getThesisVelocity" "getToken"
    "getTokenActivity" "getUsage" "getWebhook" "getWebhookInsight" "listAlerts" "listArchiveFiles" "listDeliveries"
    "listEvents" "listLogKeys" "listTheses" "listWebhooks" "replayDelivery" "rotateWebhookSecret" "search"
    "searchSemantically" "startWebhookReplay" "testWebhook" "updateAlert" "updateWebhook" "verifyThesis"
}

/// The text of a stream: its first cursor, a gap, an event and a ping.
pub(crate) const STREAM: &str = include_str!("../../examples/streamEvents.txt");

/// A request and its response as they were recorded: their fields keep the order in which the service writes them.
#[derive(Deserialize)]
pub(crate) struct ExampleText<'a> {
    /// The body, or null.
    #[serde(borrow)]
    pub(crate) request: &'a RawValue,
    #[serde(borrow)]
    pub(crate) response: &'a RawValue,
}

/// The body of a request, or null, and the body of its response.
pub(super) struct Example {
    pub(super) request: Value,
    pub(super) response: Value,
}

/// The text of an example, with the public URL. Requests that old times would break have current times: the window of a
/// verification must start within the history of every plan. They change once a day, as the description does.
pub(crate) fn text(name: &str, public_url: &str, now_ms: i64) -> Option<String> {
    let (_, text) = EXAMPLES.iter().find(|(known, _)| *known == name)?;
    let text = text.replace("{{api_url}}", public_url).replace("{{ws_url}}", &public_url.replacen("http", "ws", 1));
    let today = now_ms - now_ms.rem_euclid(DAY_MS);
    let times = [("{{five_days_ago}}", 5_i64), ("{{yesterday}}", 1), ("{{today}}", 0)].into_iter();
    Some(times.fold(text, |text, (name, days)| text.replace(name, &format_millis(today - days * DAY_MS))))
}

/// The example of a name.
pub(super) fn example(name: &str, public_url: &str, now_ms: i64) -> Option<Example> {
    let text = text(name, public_url, now_ms)?;
    let mut example: Value = serde_json::from_str(&text).expect("examples are JSON");
    Some(Example { request: example["request"].take(), response: example["response"].take() })
}
