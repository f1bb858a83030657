//! What becomes of a webhook's deliveries: one rule for fan-out, dispatch, replays and the delivery log.

use crate::{
    domain::{control::Webhook, delivery::Delivery},
    shared::control::ControlState,
};

/// What becomes of a webhook's deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serving {
    /// All deliveries created up to this time are cancelled, in unix milliseconds; [`i64::MAX`] for all.
    cancelled_until: i64,
    /// Deliveries of events created up to this time are cancelled too: they waited too long for the webhook.
    waited_until: i64,
    /// Whether deliveries of events are sent; otherwise they wait.
    pub is_enabled: bool,
}

/// What becomes of one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is sent when it is due.
    Send,
    /// It waits for its webhook.
    Wait,
    /// It is over.
    Cancel,
}

impl Serving {
    /// The rule. Withdrawing live access cancels all deliveries created before it, and a later approval brings none of
    /// them back; archiving the project cancels all. Those that have waited a day for a disabled webhook end.
    #[must_use]
    pub fn of(state: &ControlState, webhook: &Webhook, now_ms: i64) -> Self {
        let project = state.project(&webhook.project_id).filter(|project| !project.archived);
        let cancelled_until = match project {
            Some(project) if webhook.live && project.live_approved => project.live_cancelled_until,
            Some(_) if !webhook.live => i64::MIN,
            Some(_) | None => i64::MAX,
        };
        let has_waited = |at: &i64| now_ms - at >= Webhook::GRACE_PERIOD_MS;
        let waited_until = match webhook.disabled_at.filter(has_waited) {
            // A disabled webhook gets nothing new.
            Some(_) => i64::MAX,
            None => webhook.cancelled_until,
        };
        Self { cancelled_until, waited_until, is_enabled: webhook.is_enabled() }
    }

    /// Whether any delivery is sent, now or once the webhook is enabled.
    #[must_use]
    pub const fn is_any(self) -> bool {
        self.cancelled_until < i64::MAX
    }

    /// Whether deliveries of events wait for the webhook.
    #[must_use]
    pub const fn waits(self) -> bool {
        !self.is_enabled && !self.ends_all()
    }

    /// Whether every delivery of an event that is not over is cancelled.
    #[must_use]
    pub const fn ends_all(self) -> bool {
        self.cancelled_until == i64::MAX || self.waited_until == i64::MAX
    }

    /// Whether a delivery created at this time is cancelled, whoever asked for it, in unix milliseconds.
    #[must_use]
    pub const fn cancels(self, created_at: i64) -> bool {
        created_at <= self.cancelled_until
    }

    /// What becomes of a delivery that is not over. Tests and replays go out whatever the webhook's status.
    #[must_use]
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

    /// A delivery as it counts, whatever is stored. A pending one of a disabled webhook waits as a retrying one does.
    #[must_use]
    pub fn counted(self, delivery: Delivery) -> Delivery {
        let is_cancelled = !delivery.is_over() && self.verdict(&delivery) == Verdict::Cancel;
        if is_cancelled { delivery.cancelled() } else { delivery }
    }
}
