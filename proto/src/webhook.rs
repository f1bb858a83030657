//! The headers that a webhook's endpoint gets with each attempt. The worker sends them, and the console shows them.

use std::borrow::Cow;

use crate::{names::event_type_name, v1::EventType};

/// Signs the attempt: `t=<unix seconds>,v1=<hex>`, with one `v1` for each of the webhook's secrets.
pub const SIGNATURE: &str = "service-signature";
/// The event's id, as Standard Webhooks names it.
pub const STANDARD_ID: &str = "webhook-id";
/// Time of the attempt in Unix seconds, as Standard Webhooks names it.
pub const STANDARD_TIMESTAMP: &str = "webhook-timestamp";
/// The signatures of Standard Webhooks, with spaces between them: `v1,…` for each of the webhook's secrets, and `v1a,…`
/// by its Ed25519 key.
pub const STANDARD_SIGNATURE: &str = "webhook-signature";
/// Prefix of signing secrets.
pub const SECRET_PREFIX: &str = "whsec_";
/// Prefix of public keys.
pub const PUBLIC_KEY_PREFIX: &str = "whpk_";
/// The event's id, by which receivers recognize repeats.
pub const EVENT_ID: &str = "service-event-id";
/// The event's type.
pub const EVENT_TYPE: &str = "service-event-type";
/// The delivery's id.
pub const DELIVERY_ID: &str = "service-delivery-id";
/// Number of the attempt, from 1.
pub const DELIVERY_ATTEMPT: &str = "service-delivery-attempt";
/// `true` if the delivery is a replay, else `false`.
pub const REPLAY: &str = "service-replay";
/// The delivery that a replay repeats.
pub const REPLAY_OF: &str = "service-replay-of";
/// `true` on test sends and their replays, else absent.
pub const TEST: &str = "service-test";

/// The user agent of all attempts.
pub const USER_AGENT: &str = "Service-Webhooks/1.0";
/// The content type of every body.
pub const CONTENT_TYPE: &str = "application/json";

/// The data of an attempt's headers.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The event's id.
    pub event_id: &'a str,
    /// The event's type.
    pub event_type: EventType,
    /// The delivery's id.
    pub delivery_id: &'a str,
    /// Number of the attempt, from 1.
    pub number: i32,
    /// The delivery that it repeats, if it is a replay.
    pub replay_of: Option<&'a str>,
    /// True for a test send.
    pub is_test: bool,
}

impl<'a> Attempt<'a> {
    /// Names and values of its headers, except the signatures with their time, the customer's own headers and those of
    /// the connection.
    #[must_use]
    pub fn headers(&self) -> Vec<(&'static str, Cow<'a, str>)> {
        let mut headers = vec![
            ("user-agent", Cow::Borrowed(USER_AGENT)),
            ("content-type", Cow::Borrowed(CONTENT_TYPE)),
            (STANDARD_ID, Cow::Borrowed(self.event_id)),
            (EVENT_ID, Cow::Borrowed(self.event_id)),
            (EVENT_TYPE, Cow::Borrowed(event_type_name(self.event_type))),
            (DELIVERY_ID, Cow::Borrowed(self.delivery_id)),
            (DELIVERY_ATTEMPT, Cow::Owned(self.number.to_string())),
            (REPLAY, Cow::Borrowed(if self.replay_of.is_some() { "true" } else { "false" })),
        ];
        headers.extend(self.replay_of.map(|original| (REPLAY_OF, Cow::Borrowed(original))));
        if self.is_test {
            headers.push((TEST, Cow::Borrowed("true")));
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replays_and_tests_say_so() {
        let first = Attempt {
            event_id: "evt_1",
            event_type: EventType::ThesisCreated,
            delivery_id: "del_1",
            number: 2,
            replay_of: None,
            is_test: false,
        };
        let header = |attempt: Attempt<'static>, name: &str| {
            let headers = attempt.headers();
            headers.into_iter().find(|(found, _)| *found == name).map(|(_, value)| value.into_owned())
        };
        assert_eq!(header(first, EVENT_TYPE).as_deref(), Some("thesis.created"));
        assert!([EVENT_ID, STANDARD_ID].iter().all(|name| header(first, name).as_deref() == Some("evt_1")));
        assert_eq!(header(first, DELIVERY_ATTEMPT).as_deref(), Some("2"));
        assert_eq!(header(first, REPLAY).as_deref(), Some("false"));
        assert_eq!((header(first, REPLAY_OF), header(first, TEST)), (None, None));
        let again = Attempt { replay_of: Some("del_0"), is_test: true, ..first };
        assert_eq!(header(again, REPLAY).as_deref(), Some("true"));
        assert_eq!(header(again, REPLAY_OF).as_deref(), Some("del_0"));
        assert_eq!(header(again, TEST).as_deref(), Some("true"));
    }
}
