//! One delivery: its attempts, its payload, and the form that replays it.

use askama::Template;
use axum::extract::Path;
use thesis_proto::{
    names::event_type_name,
    time::to_millis,
    v1,
    webhook::{self, SIGNATURE, STANDARD_SIGNATURE, STANDARD_TIMESTAMP},
};

use super::{Workspace, delivery_path};
use crate::{
    Page,
    failure::{Failed, see_other},
    form::{Faults, Once, Posted},
    page_query::PageQuery,
    view::{Layout, MAX_SHOWN, cut_markup, render},
};

/// The notices after a change, by the word in `?done=`.
const DONE: &[(&str, &str)] = &[
    ("replayed", "The event is sent again. This is the new delivery."),
    ("tested", "The test event is sent. This is its delivery."),
    ("now", "The next attempt is made now."),
];

/// The request headers of an attempt. The service does not store the value of the signature.
fn headers(answer: &v1::GetDeliveryResponse, attempt: &v1::DeliveryAttempt) -> Vec<(&'static str, String)> {
    let Some(delivery) = &answer.delivery else { return Vec::new() };
    let sent = webhook::Attempt {
        event_id: &delivery.event_id,
        event_type: delivery.event_type(),
        delivery_id: &delivery.id,
        number: attempt.attempt,
        replay_of: answer.replay_of.as_deref(),
        is_test: delivery.is_test,
    };
    let mut headers: Vec<_> = sent.headers().into_iter().map(|(name, value)| (name, value.into_owned())).collect();
    let seconds = attempt.started_at.as_ref().map_or(0, to_millis).div_euclid(1_000);
    headers.push((SIGNATURE, format!("t={seconds},v1=…")));
    headers.push((STANDARD_TIMESTAMP, seconds.to_string()));
    headers.push((STANDARD_SIGNATURE, "v1,… v1a,…".to_owned()));
    headers
}

#[derive(Template)]
#[template(path = "delivery.html")]
struct DeliveryPage {
    layout: Layout,
    workspace: Workspace,
    faults: Faults,
    path: String,
    delivery: v1::WebhookDelivery,
    answer: v1::GetDeliveryResponse,
    /// The beginning of the payload, as text.
    payload: String,
    is_whole: bool,
}

/// Finds a delivery of a webhook. Deliveries of other webhooks count as missing.
async fn find(workspace: &Workspace, webhook: &str, id: String) -> Result<v1::GetDeliveryResponse, Failed> {
    let message = v1::GetDeliveryRequest { id };
    let answer = workspace.core().webhooks.get_delivery(workspace.request(message)).await?.into_inner();
    let is_its = answer.delivery.as_ref().is_some_and(|delivery| delivery.webhook_id == webhook);
    if is_its { Ok(answer) } else { Err(Failed::missing()) }
}

async fn page(workspace: Workspace, (webhook, id): (String, String), done: &str, faults: Faults) -> Page {
    let answer = find(&workspace, &webhook, id).await?;
    let delivery = answer.delivery.clone().unwrap_or_default();
    let (payload, is_whole) = {
        let text = String::from_utf8_lossy(&answer.payload);
        let (beginning, is_whole) = cut_markup(&text, MAX_SHOWN);
        (beginning.to_owned(), is_whole)
    };
    let title = format!("Delivery of {}", event_type_name(delivery.event_type()));
    let page = DeliveryPage {
        layout: workspace.layout(&title).with_notice(done, DONE),
        faults,
        path: delivery_path(&workspace, &delivery.webhook_id, &delivery.id),
        payload,
        is_whole,
        delivery,
        answer,
        workspace,
    };
    render(page.faults.status(), &page)
}

pub(super) async fn show(
    workspace: Workspace,
    Path((_, _, webhook, id)): Path<(String, String, String, String)>,
    query: PageQuery,
) -> Page {
    page(workspace, (webhook, id), query.text("done"), Faults::none()).await
}

/// Redirects from a form's address to the page with the form.
pub(super) async fn back(
    workspace: Workspace,
    Path((_, _, webhook, id)): Path<(String, String, String, String)>,
) -> Page {
    Ok(see_other(&delivery_path(&workspace, &webhook, &id)))
}

pub(super) async fn replay(
    workspace: Workspace,
    Path((_, _, webhook, id)): Path<(String, String, String, String)>,
    Posted(form): Posted<Once>,
) -> Page {
    find(&workspace, &webhook, id.clone()).await?;
    let message = v1::ReplayDeliveryRequest { id: id.clone(), now: false };
    match workspace.change(workspace.core().webhooks.replay_delivery(workspace.request_once(&form.once, message))).await
    {
        Ok(answer) => {
            let replay = answer.into_inner().delivery.unwrap_or_default();
            Ok(see_other(&format!("{}?done=replayed", delivery_path(&workspace, &replay.webhook_id, &replay.id))))
        }
        Err(status) => page(workspace, (webhook, id), "", Faults::of(&status)?).await,
    }
}

/// Requests the next attempt of a retrying delivery now.
pub(super) async fn send_now(
    workspace: Workspace,
    Path((_, _, webhook, id)): Path<(String, String, String, String)>,
    Posted(form): Posted<Once>,
) -> Page {
    let found = find(&workspace, &webhook, id.clone()).await?;
    let path = delivery_path(&workspace, &webhook, &id);
    if found.delivery.is_some_and(|delivery| delivery.status() != v1::DeliveryStatus::Retrying) {
        // The next attempt has already ended.
        return Ok(see_other(&path));
    }
    let message = v1::ReplayDeliveryRequest { id: id.clone(), now: true };
    match workspace.change(workspace.core().webhooks.replay_delivery(workspace.request_once(&form.once, message))).await
    {
        Ok(_) => Ok(see_other(&format!("{path}?done=now"))),
        Err(status) => page(workspace, (webhook, id), "", Faults::of(&status)?).await,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use thesis_proto::time::from_millis;

    use super::*;

    #[test]
    fn headers_are_those_of_the_attempt() {
        let delivery = v1::WebhookDelivery { id: "del_2".to_owned(), ..v1::WebhookDelivery::default() };
        let answer = v1::GetDeliveryResponse {
            delivery: Some(delivery),
            replay_of: Some("del_1".to_owned()),
            ..v1::GetDeliveryResponse::default()
        };
        let started_at = Some(from_millis(1_767_225_600_999));
        let attempt = v1::DeliveryAttempt { attempt: 3, started_at, ..v1::DeliveryAttempt::default() };
        let headers: HashMap<_, _> = headers(&answer, &attempt).into_iter().collect();
        assert_eq!(headers[webhook::DELIVERY_ID], "del_2");
        assert_eq!(headers[webhook::DELIVERY_ATTEMPT], "3");
        assert_eq!(headers[webhook::REPLAY_OF], "del_1");
        assert_eq!(headers[SIGNATURE], "t=1767225600,v1=…");
        assert_eq!(headers[STANDARD_TIMESTAMP], "1767225600");
    }
}
