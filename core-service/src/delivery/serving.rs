//! Whether a webhook's deliveries are sent: one rule for fan-out, dispatch and the delivery log.

use thesis_proto::v1::WebhookStatus;

use crate::{
    domain::{control::Webhook, delivery::Delivery},
    shared::control::ControlState,
};

/// What becomes of a webhook's deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serving {
    /// Deliveries created up to this time are cancelled, in unix milliseconds; [`i64::MAX`] for all.
    cancelled_until: i64,
    /// The others are sent; while it is disabled they wait.
    pub is_enabled: bool,
}

impl Serving {
    /// The rule. Withdrawing live access cancels all deliveries created before it, and a later approval brings none of
    /// them back; archiving the project cancels all.
    #[must_use]
    pub fn of(state: &ControlState, webhook: &Webhook) -> Self {
        let project = state.project(&webhook.project_id).filter(|project| !project.archived);
        let cancelled_until = match project {
            Some(project) if webhook.live && project.live_approved => project.live_cancelled_until,
            Some(_) if !webhook.live => i64::MIN,
            Some(_) | None => i64::MAX,
        };
        Self { cancelled_until, is_enabled: webhook.status == i32::from(WebhookStatus::Enabled) }
    }

    /// Whether any delivery is sent, now or once the webhook is enabled.
    #[must_use]
    pub const fn is_any(self) -> bool {
        self.cancelled_until < i64::MAX
    }

    /// Whether a delivery created at this time is cancelled, in unix milliseconds.
    #[must_use]
    pub const fn cancels(self, created_at: i64) -> bool {
        created_at <= self.cancelled_until
    }

    /// A delivery as it counts, whatever is stored.
    #[must_use]
    pub fn counted(self, delivery: Delivery) -> Delivery {
        if !delivery.is_over() && self.cancels(delivery.created_at) { delivery.cancelled() } else { delivery }
    }
}
