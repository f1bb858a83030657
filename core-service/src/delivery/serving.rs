//! Whether a webhook is served.

use std::sync::Arc;

use crate::{
    domain::{
        control::{Project, Webhook},
        delivery::Delivery,
    },
    shared::control::ControlState,
};

/// A delivery of a webhook as it counts, whatever is stored: withdrawing live access cancels all waiting deliveries,
/// and a later approval brings none of them back.
#[must_use]
pub fn counted(state: &ControlState, webhook: &Webhook, delivery: Delivery) -> Delivery {
    let goes_on = |project: &Arc<Project>| project.live_approved && project.live_cancelled_until < delivery.created_at;
    if !webhook.live || delivery.is_over() || state.project(&webhook.project_id).is_some_and(goes_on) {
        delivery
    } else {
        delivery.cancelled()
    }
}
