//! Webhook deliveries.

use bytes::Bytes;
use thesis_proto::{json::thin_event, time::from_millis, v1};

use super::optional_time;
use crate::domain::{
    attempt_counts::AttemptCounts, control::Webhook, delivery::Delivery, retry::MAX_ATTEMPTS,
    webhook_replay::WebhookReplay,
};

/// Makes the body of an attempt, full or thin, from the JSON of its event. None if it should be thin and the JSON is no
/// event: the whole of it must not go out instead.
pub fn payload(webhook: &Webhook, event: &Bytes) -> Option<Bytes> {
    if webhook.is_thin() { thin_event(event).map(Bytes::from) } else { Some(event.clone()) }
}

pub fn delivery(row: &Delivery) -> v1::WebhookDelivery {
    let last = row.attempts.last();
    v1::WebhookDelivery {
        id: row.id.clone(),
        webhook_id: row.webhook_id.clone(),
        event_id: row.event_id.clone(),
        event_type: row.event_type,
        status: row.status,
        attempt: row.attempt_count(),
        max_attempts: MAX_ATTEMPTS,
        response_status: last.and_then(|attempt| attempt.response_status),
        latency_ms: last.map(|attempt| attempt.latency_ms),
        next_attempt_at: optional_time(row.next_attempt_at),
        is_replay: row.replay_of.is_some(),
        is_test: row.is_test,
        created_at: Some(from_millis(row.created_at)),
        delivered_at: optional_time(row.delivered_at),
        attempts: row
            .attempts
            .iter()
            .map(|attempt| v1::DeliveryAttempt {
                attempt: attempt.number,
                started_at: Some(from_millis(attempt.started_at)),
                response_status: attempt.response_status,
                latency_ms: Some(attempt.latency_ms),
                failure: attempt.failure.clone(),
                // The response is in another row, `failed_response`.
                response_body: Bytes::new(),
            })
            .collect(),
    }
}

/// The attempts since a time, in unix milliseconds.
pub fn attempts(counts: &AttemptCounts, since: i64) -> v1::WebhookAttempts {
    v1::WebhookAttempts {
        since: Some(from_millis(since)),
        attempts: counts.attempts.cast_signed(),
        successes: counts.successes.cast_signed(),
        success_rate: counts.success_rate(),
        latency_p50_ms: counts.percentile(50),
        latency_p99_ms: counts.percentile(99),
    }
}

pub fn webhook_replay(webhook_id: &str, replay: &WebhookReplay) -> v1::WebhookReplay {
    v1::WebhookReplay {
        id: replay.id.clone(),
        webhook_id: webhook_id.to_owned(),
        since: Some(from_millis(replay.since)),
        status: replay.status,
        examined: replay.examined,
        replayed: replay.replayed,
        done: replay.finished_at.is_some(),
        created_at: Some(from_millis(replay.created_at)),
        finished_at: optional_time(replay.finished_at),
        examined_to: Some(from_millis(replay.after_at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_full_payload_has_what_is_no_event() {
        let event = Bytes::from_static(
            br#"{"object":"event","id":"evt_1","type":"x","created_at":"y","livemode":true,"data":{"text":"secret"}}"#,
        );
        let (full, thin) = (Webhook::default(), Webhook { payload: Webhook::THIN, ..Webhook::default() });
        assert_eq!(payload(&full, &event), Some(event.clone()));
        let sent = payload(&thin, &event).unwrap();
        assert!(sent.starts_with(b"{\"object\":\"event\"") && !String::from_utf8_lossy(&sent).contains("secret"));
        let other = Bytes::from_static(b"{\"text\":\"secret\"}");
        assert_eq!((payload(&full, &other), payload(&thin, &other)), (Some(other), None));
    }
}
