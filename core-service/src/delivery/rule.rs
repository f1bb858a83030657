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
        Self { cancelled_until, waited_until, is_enabled: webhook.is_enabled() }
    }

    /// True if any delivery is sent, now or once the webhook is enabled.
    pub const fn sends_any(self) -> bool {
        self.cancelled_until < i64::MAX
    }

    /// True while deliveries of events wait for the webhook.
    pub const fn waits(self) -> bool {
        !self.is_enabled && !self.ends_all()
    }

    /// True if every pending delivery of an event is cancelled.
    pub const fn ends_all(self) -> bool {
        self.cancelled_until == i64::MAX || self.waited_until == i64::MAX
    }

    /// True if any delivery created at this time, in unix milliseconds, is cancelled; also a test or a replay.
    pub const fn cancels(self, created_at: i64) -> bool {
        created_at <= self.cancelled_until
    }

    /// Decides about a delivery that is not over. Tests and replays are sent with any status of the webhook.
    pub const fn verdict(self, delivery: &Delivery) -> Verdict {
        if self.cancels(delivery.created_at) {
            Verdict::Cancel
        } else if delivery.is_requested() {
            Verdict::Send
        } else if delivery.created_at <= self.waited_until {
            Verdict::Cancel
        } else if self.is_enabled {
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
