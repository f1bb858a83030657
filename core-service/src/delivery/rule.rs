//! One rule for fan-out, dispatch, replays and the delivery log: whether a webhook's deliveries are sent, wait or are
//! cancelled.

use crate::{
    control::ControlState,
    domain::{control::Webhook, delivery::Delivery},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryRule {
    /// All deliveries created up to this time are cancelled, in unix milliseconds; [`i64::MAX`] for all.
    cancelled_until: i64,
    /// Deliveries of events created up to this time are cancelled too. They waited too long for the webhook.
    waited_until: i64,
    /// True if deliveries of events are sent; otherwise they wait.
    pub is_enabled: bool,
    /// False while deliveries, except tests, wait until the endpoint has answered a test.
    is_verified: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Send,
    Wait,
    Cancel,
}

impl DeliveryRule {
    /// The rule at a time. Withdrawing live access cancels all deliveries created before, and a later approval brings
    /// none of them back. Archiving the project cancels all. Deliveries that wait a day for a disabled webhook end.
    pub fn of(state: &ControlState, webhook: &Webhook, now_ms: i64) -> Self {
        let project = state.project(&webhook.project_id).filter(|project| !project.archived);
        let cancelled_until = match project {
            Some(project) if webhook.live && project.live_approved => project.live_cancelled_until,
            Some(_) if !webhook.live => i64::MIN,
            Some(_) | None => i64::MAX,
        };
        let has_waited = |at: &i64| now_ms - at >= Webhook::GRACE_PERIOD_MS;
        let waited_until = match webhook.disabled_at.filter(has_waited) {
            // A disabled webhook gets no new deliveries.
            Some(_) => i64::MAX,
            None => webhook.cancelled_until,
        };
        Self { cancelled_until, waited_until, is_enabled: webhook.is_enabled(), is_verified: true }
    }

    /// The rule of a webhook whose endpoint must answer a test first.
    #[must_use]
    pub const fn unverified(self) -> Self {
        Self { is_verified: false, ..self }
    }

    /// True if any delivery is sent, now or once the webhook is enabled.
    pub const fn sends_any(self) -> bool {
        self.cancelled_until < i64::MAX
    }

    /// True while deliveries of events wait for the webhook, or replays for its endpoint.
    pub const fn waits(self) -> bool {
        (!self.is_enabled && !self.ends_all()) || (!self.is_verified && self.sends_any())
    }

    /// True if every pending delivery of an event is cancelled.
    pub const fn ends_all(self) -> bool {
        self.cancelled_until == i64::MAX || self.waited_until == i64::MAX
    }

    /// True if any delivery created at this time, in unix milliseconds, is cancelled; also a test or a replay.
    pub const fn cancels(self, created_at: i64) -> bool {
        created_at <= self.cancelled_until
    }

    /// Decides about a delivery that is not over. Tests and replays are sent with any status of the webhook. Replays
    /// wait for the endpoint too: they could come in great numbers after the URL has changed.
    pub const fn verdict(self, delivery: &Delivery) -> Verdict {
        if self.cancels(delivery.created_at) {
            Verdict::Cancel
        } else if delivery.is_requested() {
            if self.is_verified || delivery.is_test { Verdict::Send } else { Verdict::Wait }
        } else if delivery.created_at <= self.waited_until {
            Verdict::Cancel
        } else if self.is_enabled && self.is_verified {
            Verdict::Send
        } else {
            Verdict::Wait
        }
    }

    /// A delivery as the API shows it: cancelled by the rule even if its row is not written yet. A pending delivery of
    /// a disabled webhook waits, as a retrying one does.
    pub fn counted(self, delivery: Delivery) -> Delivery {
        let is_cancelled = !delivery.is_over() && self.verdict(&delivery) == Verdict::Cancel;
        if is_cancelled { delivery.cancelled() } else { delivery }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::delivery::Status;

    fn rule(cancelled_until: i64, waited_until: i64, is_enabled: bool) -> DeliveryRule {
        DeliveryRule { cancelled_until, waited_until, is_enabled, is_verified: true }
    }

    #[test]
    fn a_delivery_is_cancelled_waits_or_is_sent() {
        let (enabled, disabled) = (rule(10, 20, true), rule(10, 20, false));
        for (rule, created_at, is_test, verdict) in [
            (enabled, 10, false, Verdict::Cancel),
            (enabled, 20, false, Verdict::Cancel),
            (enabled, 21, false, Verdict::Send),
            (disabled, 20, false, Verdict::Cancel),
            (disabled, 21, false, Verdict::Wait),
            (enabled, 10, true, Verdict::Cancel),
            (disabled, 10, true, Verdict::Cancel),
            (disabled, 11, true, Verdict::Send),
        ] {
            let delivery = Delivery { created_at, is_test, ..Delivery::default() };
            assert_eq!(rule.verdict(&delivery), verdict, "{rule:?} for one of {created_at}");
        }
    }

    #[test]
    fn only_tests_go_to_an_endpoint_that_has_answered_none() {
        let unverified = rule(10, 20, true).unverified();
        let replay = |created_at| Delivery { created_at, replay_of: Some(String::new()), ..Delivery::default() };
        let event = |created_at| Delivery { created_at, ..Delivery::default() };
        let test = Delivery { is_test: true, ..replay(11) };
        let verdicts =
            [event(20), event(21), replay(11), replay(10), test].map(|delivery| unverified.verdict(&delivery));
        assert_eq!(verdicts, [Verdict::Cancel, Verdict::Wait, Verdict::Wait, Verdict::Cancel, Verdict::Send]);
        assert!(unverified.waits() && !rule(10, 20, true).waits());
        assert!(rule(10, i64::MAX, false).unverified().waits(), "replays wait for the endpoint");
        assert!(!rule(i64::MAX, 20, true).unverified().waits());
    }

    #[test]
    fn a_rule_says_whether_anything_is_sent_or_waits() {
        for (rule, sends_any, waits, ends_all) in [
            (rule(10, 20, true), true, false, false),
            (rule(10, 20, false), true, true, false),
            (rule(i64::MAX, 20, false), false, false, true),
            (rule(10, i64::MAX, false), true, false, true),
            (rule(i64::MAX, i64::MAX, true), false, false, true),
        ] {
            assert_eq!((rule.sends_any(), rule.waits(), rule.ends_all()), (sends_any, waits, ends_all), "{rule:?}");
        }
    }

    #[test]
    fn only_a_delivery_that_is_not_over_is_cancelled() {
        let created =
            |created_at, status: Status| Delivery { created_at, status: status.into(), ..Delivery::default() };
        let counted = |delivery: Delivery| rule(10, 10, true).counted(delivery).status();
        assert_eq!(counted(created(10, Status::Pending)), Status::Failed);
        assert_eq!(counted(created(11, Status::Pending)), Status::Pending);
        assert_eq!(counted(created(10, Status::Delivered)), Status::Delivered);
    }

    #[test]
    fn deliveries_wait_a_day_for_a_disabled_webhook() {
        const DAY_MS: i64 = 86_400_000;
        let state = ControlState::default();
        let disabled = Webhook { disabled_at: Some(5), cancelled_until: 7, ..Webhook::default() };
        let waited_until = |now_ms| DeliveryRule::of(&state, &disabled, now_ms).waited_until;
        assert_eq!([4 + DAY_MS, 5 + DAY_MS].map(waited_until), [7, i64::MAX]);
        assert!(!DeliveryRule::of(&state, &disabled, 6).sends_any(), "it has no project");
    }
}
