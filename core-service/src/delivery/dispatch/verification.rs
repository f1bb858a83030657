//! Verification of endpoints: where the plan demands it, live webhooks of a new organization wait until their endpoint
//! has answered a signed test, so that nobody aims floods at the servers of others.

use std::sync::Arc;

use super::Dispatcher;
use crate::{
    control::ControlState,
    delivery::rule::DeliveryRule,
    domain::{
        account::Actor,
        control::{ControlChange, Webhook},
        plan::plan_named,
    },
    error::Result,
};

impl Dispatcher {
    /// True if this core hands out the attempts of a shard.
    pub fn serves(&self, shard: i64) -> bool {
        self.shards.serves(shard, self.shared.clock.now_ms())
    }

    /// True if a webhook's deliveries wait until its endpoint has answered a test.
    pub fn awaits_verification(&self, webhook: &Webhook, now_ms: i64) -> bool {
        self.must_verify(&self.shared.control.state(), webhook, now_ms)
    }

    /// Finds a webhook and the rule for its deliveries; none if the webhook is deleted, or not known here yet.
    pub(super) fn find_rule(&self, webhook: &str, now_ms: i64) -> Option<(Arc<Webhook>, DeliveryRule)> {
        let state = self.shared.control.state();
        let webhook = state.webhook(webhook)?;
        let rule = DeliveryRule::of(&state, webhook, now_ms);
        let must_verify = self.must_verify(&state, webhook, now_ms);
        Some((Arc::clone(webhook), if must_verify { rule.unverified() } else { rule }))
    }

    fn must_verify(&self, state: &ControlState, webhook: &Webhook, now_ms: i64) -> bool {
        if !webhook.live || webhook.verified_at.is_some() {
            return false;
        }
        let project = state.project(&webhook.project_id);
        let organization = project.and_then(|project| state.organization(&project.organization_id));
        organization.is_some_and(|organization| {
            plan_named(&self.plans, &organization.plan)
                .is_some_and(|plan| plan.verifies_endpoints(organization.created_at, now_ms))
        })
    }

    /// Notes that the endpoint of a webhook, as an attempt used it, has answered a test. That says nothing about the
    /// endpoint of another URL that the webhook has by now. Where this core no longer knows which URL the attempt used,
    /// it notes nothing, and another test is needed.
    pub(super) async fn note_verified(&self, tested: &Webhook, now_ms: i64) -> Result<()> {
        let is_due = |state: &ControlState, webhook: &Webhook| {
            webhook.url == tested.url && self.must_verify(state, webhook, now_ms)
        };
        if !is_due(&self.shared.control.state(), tested) {
            return Ok(());
        }
        let verify = |state: &ControlState| {
            let webhook = state.webhook(&tested.id).filter(|webhook| is_due(state, webhook));
            let change = webhook.map(|webhook| {
                let updated_at = webhook.next_update(now_ms);
                ControlChange::Webhook(Webhook { updated_at, verified_at: Some(now_ms), ..Webhook::clone(webhook) })
            });
            Ok((change.into_iter().collect(), ()))
        };
        self.shared.control.change(Actor::service().does("webhook.verified"), verify).await
    }
}
