//! Sends one `thesis.created` event to a webhook of the caller's project and environment, regardless of its events,
//! filters and status. Fails with `WEBHOOK_NOT_FOUND` or `RATE_LIMITED`.

use thesis_proto::{
    json::event_json,
    time::from_millis,
    v1::{self, event::Data},
};

use super::{get_webhook::read_webhook, replay_delivery::create_deliveries};
use crate::{
    access::gate::Call,
    convert::{
        self,
        row::{profile_ref, token_ref},
    },
    domain::{
        delivery::{Delivery, Status, delivery_id},
        id,
    },
    error::Result,
    sandbox::a_profile_and_token,
    service::Core,
};

/// Text of the thesis in every test event.
const TEXT: &str = "A test event, sent because you asked for it. It is in no log.";

pub async fn test_webhook(
    core: &Core,
    call: &Call,
    message: v1::TestWebhookRequest,
) -> Result<v1::TestWebhookResponse> {
    call.demand_send()?;
    call.charge().await?;
    let perform = async |seed: &str| {
        let webhook = read_webhook(core, &call.caller, &message.id).await?;
        call.take_send()?;
        // A repeated request completes the first attempt, with the time of the first.
        let now_ms = id::time_of_seed(seed).unwrap_or(call.now_ms);
        let (profile, token) = a_profile_and_token();
        let created = v1::ThesisCreatedData {
            thesis_id: id::derive("th_", &["webhook test", seed]),
            profile: Some(profile_ref(&profile)),
            token: Some(token_ref(&token)),
            text: TEXT.to_owned(),
            created_at: Some(from_millis(now_ms)),
            public_url: None,
        };
        let event = v1::Event {
            id: id::derive("evt_", &["webhook test", seed]),
            r#type: v1::EventType::ThesisCreated.into(),
            created_at: Some(from_millis(now_ms)),
            livemode: webhook.live,
            source: v1::Source::Sandbox.into(),
            test: Some(true),
            data: Some(Data::ThesisCreated(created)),
        };
        let delivery = Delivery {
            id: delivery_id(&webhook.id, now_ms, &["test", seed]),
            webhook_id: webhook.id.clone(),
            body: event_json(&event),
            event_type: event.r#type,
            event_id: event.id,
            status: Status::Pending.into(),
            next_attempt_at: Some(now_ms),
            created_at: now_ms,
            is_test: true,
            ..Delivery::default()
        };
        create_deliveries(core, vec![delivery.clone()]).await?;
        Ok(v1::TestWebhookResponse { delivery: Some(convert::delivery::delivery(&delivery)) })
    };
    core.idempotency.once(call, &message, perform).await
}
