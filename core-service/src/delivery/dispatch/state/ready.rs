//! Takes ready deliveries out of memory, and puts them back.

use std::sync::Arc;

use super::{State, due_at};
use crate::{domain::delivery::Delivery, queue_hints::PendingDelivery};

impl State {
    /// Removes and returns the webhook's next delivery whose attempt was not reported since it became ready.
    pub(super) fn take_ready(&mut self, webhook: &Arc<str>, now_ms: i64) -> Option<PendingDelivery> {
        let mut taken = None;
        while taken.is_none() {
            let Some(pending) = self.endpoints.get_mut(webhook)?.ready.pop_front() else { break };
            let (id, number) = (&pending.delivery.id, pending.delivery.attempt_count() + 1);
            self.ready.remove(id);
            if self.is_counting(id, number) {
                // If the report is not counted after all, the queue row brings the attempt back.
                let due_at = due_at(&pending.delivery);
                self.read_part(webhook, ((due_at, String::new()), due_at));
            } else if !self.settled.has(id, number) {
                taken = Some(pending);
            }
        }
        self.take_turn(webhook, now_ms);
        self.request_read(webhook);
        if taken.is_none() {
            self.forget_if_idle(webhook);
        }
        taken
    }

    /// The next delivery of each healthy webhook, as far as the workers have room.
    pub(in crate::delivery::dispatch) fn next_ready(&self) -> impl Iterator<Item = &Delivery> {
        let next = self.turns.iter().take(self.room());
        next.filter_map(move |webhook| Some(&self.endpoints.get(webhook)?.ready.front()?.delivery))
    }

    /// Puts a delivery back in front of its webhook's others.
    pub(in crate::delivery::dispatch) fn put_back(&mut self, pending: PendingDelivery, now_ms: i64) {
        let webhook: Arc<str> = pending.delivery.webhook_id.as_str().into();
        self.ready.insert(pending.delivery.id.clone());
        self.endpoints.entry(Arc::clone(&webhook)).or_default().ready.push_front(pending);
        self.take_turn(&webhook, now_ms);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::tests::harness::NOON;

    #[test]
    fn a_ready_delivery_whose_attempt_was_reported_is_skipped() {
        let mut state = State::default();
        let webhook: Arc<str> = "wh_1".into();
        for id in ["del_settled", "del_counting", "del_new"] {
            let (id, webhook_id) = (id.to_owned(), webhook.to_string());
            let delivery = Delivery { id, webhook_id, next_attempt_at: Some(NOON), ..Delivery::default() };
            state.add_ready(PendingDelivery { delivery, body: Bytes::new(), erasure: 0, epoch: 1 }, NOON);
        }
        state.note_outcome(&webhook, "del_settled", 1, true);
        state.begin_report("del_counting", 1, NOON);
        let taken = state.take_ready(&webhook, NOON).map(|pending| pending.delivery.id);
        assert_eq!(taken.as_deref(), Some("del_new"));
        assert_eq!(state.next_read(), Some((webhook, ((NOON, String::new()), NOON))));
    }
}
