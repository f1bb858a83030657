//! Several use cases at once, with random faults.

use std::time::Duration;

use futures::future::join_all;
use thesis_proto::v1::{
    self, ingest_service_server::IngestService as _, observation::Observed,
    test_data_service_server::TestDataService as _, webhook_service_server::WebhookService as _,
};
use tonic::{Code, Status};

use super::{
    cases,
    requests::{public, service},
    world::World,
    world_store::Dice,
};
use crate::{
    domain::{event_id::thesis_event_id, id},
    grpc::Api,
};

/// A request of a client.
#[derive(Clone, Debug)]
enum Wish {
    Thesis { key: String, handle: String, token: String },
    Observed(Vec<v1::Observation>),
    Webhook(String),
    NoWebhook(String),
}

/// The outcome of a wish.
#[derive(Clone, Debug)]
enum WishOutcome {
    Entry(String, String),
    /// The theses seen, and those deleted.
    Seen(Vec<String>, Vec<String>),
    Webhook(String),
    NoWebhook(String),
}

async fn ask(api: Api, wish: &Wish) -> Result<WishOutcome, Status> {
    match wish.clone() {
        Wish::Thesis { key, handle, token } => {
            let message = v1::CreateTestThesisRequest {
                handle: Some(handle),
                token: Some(token),
                text: Some(format!("by {key}")),
            };
            let created = api.create_test_thesis(public(message, Some(&key))).await?.into_inner().result.unwrap();
            let dataset = format!("project/{}", id::derive("prj_", &["default"]));
            Ok(WishOutcome::Entry(dataset, created.event.unwrap().id))
        }
        Wish::Observed(observations) => {
            let message = v1::IngestRequest { dataset: "live".to_owned(), observations: observations.clone() };
            let results = api.ingest(service(message)).await?.into_inner().results;
            let (mut theses, mut gone) = (Vec::new(), Vec::new());
            for (observation, result) in observations.iter().zip(results) {
                match &observation.observed {
                    Some(Observed::Thesis(_)) => theses.push(result.id),
                    Some(Observed::Deletion(_)) => gone.push(result.id),
                    _ => {}
                }
            }
            Ok(WishOutcome::Seen(theses, gone))
        }
        Wish::Webhook(key) => {
            let message = v1::CreateWebhookRequest {
                url: Some("https://1.1.1.1/more".to_owned()),
                events: vec![1, 2],
                ..v1::CreateWebhookRequest::default()
            };
            let created = api.create_webhook(public(message, Some(&key))).await?.into_inner().webhook.unwrap();
            Ok(WishOutcome::Webhook(created.id))
        }
        Wish::NoWebhook(id) => {
            match api.delete_webhook(public(v1::DeleteWebhookRequest { id: id.clone() }, None)).await {
                Err(status) if status.code() != Code::NotFound => Err(status),
                _ => Ok(WishOutcome::NoWebhook(id)),
            }
        }
    }
}

fn wish(dice: &mut Dice, name: &str, webhook: &mut Option<String>) -> Wish {
    match dice.roll(10) {
        0..5 => Wish::Thesis {
            key: name.to_owned(),
            handle: format!("h{}", dice.roll(4)),
            token: format!("T{}", dice.roll(3)),
        },
        5..9 => {
            let several = (0..=dice.roll(3)).map(|_| cases::random(dice));
            Wish::Observed(several.collect())
        }
        _ => match webhook.take() {
            Some(id) => Wish::NoWebhook(id),
            None => Wish::Webhook(name.to_owned()),
        },
    }
}

/// Sends random wishes, and repeats each one until it has a response.
pub(super) async fn live(world: &mut World, mut dice: Dice, name: &str, steps: usize) {
    let mut webhook = None;
    for step in 0..steps {
        let mut wishes = Vec::new();
        for number in 0..=dice.roll(4) {
            let wish = wish(&mut dice, &format!("{name} {step}.{number}"), &mut webhook);
            // One webhook wish at a time, or the limit would be reached.
            let is_webhook = |wish: &Wish| matches!(wish, Wish::Webhook(_) | Wish::NoWebhook(_));
            if is_webhook(&wish) && wishes.iter().any(is_webhook) {
                if let Wish::NoWebhook(id) = wish {
                    webhook = Some(id);
                }
                continue;
            }
            wishes.push(wish);
        }
        let mut tries = 0;
        while !wishes.is_empty() {
            tries += 1;
            assert!(tries < 200, "never answered: {wishes:?}");
            let api = Api::new(&world.core().await);
            let answers = join_all(wishes.iter().map(|wish| ask(api.clone(), wish))).await;
            let ended = world.process.ended().is_some();
            let mut left = Vec::new();
            for (wish, answer) in wishes.into_iter().zip(answers) {
                match answer {
                    _ if ended => left.push(wish),
                    Err(status) if matches!(status.code(), Code::Unavailable | Code::Aborted) => left.push(wish),
                    Err(status) => panic!("{wish:?}: {status}"),
                    Ok(outcome) => note(world, outcome, &mut webhook),
                }
            }
            wishes = left;
            let pause = dice.roll(if wishes.is_empty() { 300 } else { 1_500 });
            tokio::time::sleep(Duration::from_millis(pause as u64)).await;
        }
        if dice.roll(8) == 0 {
            tokio::time::sleep(Duration::from_secs(4)).await;
        }
    }
}

fn note(world: &mut World, outcome: WishOutcome, webhook: &mut Option<String>) {
    let acknowledged = &mut world.acknowledged;
    match outcome {
        WishOutcome::Entry(dataset, id) => acknowledged.entries.extend([(dataset, id)]),
        WishOutcome::Seen(theses, gone) => {
            acknowledged.entries.extend(theses.iter().map(|id| ("live".to_owned(), thesis_event_id(id))));
            acknowledged.gone.extend(gone);
        }
        WishOutcome::Webhook(id) => {
            acknowledged.webhooks.insert(id.clone());
            *webhook = Some(id);
        }
        WishOutcome::NoWebhook(id) => {
            acknowledged.webhooks.remove(&id);
            acknowledged.deleted.insert(id);
        }
    }
}
