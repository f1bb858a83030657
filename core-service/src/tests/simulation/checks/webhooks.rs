//! What the endpoints of webhooks received, against what the deliveries say.

use std::collections::HashMap;

use crate::tests::simulation::history::ReceivedAttempt;

/// A delivery as the store has it.
#[derive(Debug)]
pub(in crate::tests::simulation) struct StoredDelivery {
    pub(in crate::tests::simulation) id: String,
    pub(in crate::tests::simulation) event: String,
    /// The number of the attempt that delivered it, if one did.
    pub(in crate::tests::simulation) delivered_by: Option<i32>,
    /// True if its status says that it is delivered.
    pub(in crate::tests::simulation) is_delivered: bool,
}

/// Checks that an endpoint has accepted what counts as delivered, and has received nothing after that: a repetition
/// needs a report that was lost.
pub(in crate::tests::simulation) fn check(
    deliveries: &[StoredDelivery],
    received: &[ReceivedAttempt],
) -> Result<(), String> {
    let by_id: HashMap<&str, &StoredDelivery> = deliveries.iter().map(|row| (row.id.as_str(), row)).collect();
    for attempt in received {
        let row = by_id.get(attempt.delivery.as_str()).ok_or_else(|| format!("{attempt:?} is of no delivery"))?;
        if row.event != attempt.event {
            return Err(format!("{attempt:?} is of another event than {row:?}"));
        }
        if row.delivered_by.is_some_and(|number| attempt.number > number) {
            return Err(format!("{attempt:?} came after the report of success: {row:?}"));
        }
    }
    for row in deliveries {
        let Some(number) = row.delivered_by else {
            if row.is_delivered {
                return Err(format!("no attempt has delivered {row:?}"));
            }
            continue;
        };
        let is_success =
            |attempt: &ReceivedAttempt| attempt.delivery == row.id && attempt.number == number && attempt.accepted;
        if !received.iter().any(is_success) {
            return Err(format!("its endpoint has not accepted {row:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(delivered_by: Option<i32>) -> StoredDelivery {
        let is_delivered = delivered_by.is_some();
        StoredDelivery { id: "del_1".to_owned(), event: "evt_1".to_owned(), delivered_by, is_delivered }
    }

    fn received(number: i32, accepted: bool) -> ReceivedAttempt {
        ReceivedAttempt { event: "evt_1".to_owned(), delivery: "del_1".to_owned(), number, accepted }
    }

    #[test]
    fn an_attempt_may_come_twice_until_one_is_reported() {
        let twice = [received(1, true), received(1, true), received(2, true)];
        assert_eq!(check(&[delivery(Some(2))], &twice), Ok(()));
        assert_eq!(check(&[delivery(None)], &twice), Ok(()));
    }

    #[test]
    fn a_delivery_that_no_endpoint_accepted_is_found() {
        check(&[delivery(Some(1))], &[]).unwrap_err();
        check(&[delivery(Some(1))], &[received(1, false)]).unwrap_err();
        check(&[delivery(Some(2))], &[received(1, true)]).unwrap_err();
        let without_attempt = StoredDelivery { is_delivered: true, ..delivery(None) };
        check(&[without_attempt], &[received(1, true)]).unwrap_err();
    }

    #[test]
    fn an_attempt_after_the_success_is_found() {
        check(&[delivery(Some(1))], &[received(1, true), received(2, true)]).unwrap_err();
    }

    #[test]
    fn an_attempt_belongs_to_a_delivery_of_its_event() {
        check(&[], &[received(1, true)]).unwrap_err();
        let other = ReceivedAttempt { event: "evt_2".to_owned(), ..received(1, true) };
        check(&[delivery(Some(1))], &[received(1, true), other]).unwrap_err();
    }
}
