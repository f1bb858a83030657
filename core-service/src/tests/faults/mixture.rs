//! Several use cases at once, with random faults.

use std::time::Duration;

use futures::future::join_all;
use thesis_proto::v1::{
    self, alert_service_server::AlertService as _, ingest_service_server::IngestService as _, observation::Observed,
    test_data_service_server::TestDataService as _, webhook_service_server::WebhookService as _,
};
use tonic::{Code, Status};

use super::{
    alerts, cases,
    requests::{public, service, with_key},
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
    Alert { name: String, api_key: &'static str, alert: AlertWish },
}

/// A request about an alert that fires above a number of theses.
#[derive(Clone, Debug)]
enum AlertWish {
    New(u32),
    /// It fires above another number, after these seconds.
    Changed(String, u32, usize),
    Gone(String),
}

/// The outcome of a wish.
#[derive(Clone, Debug)]
enum WishOutcome {
    Entry(String, String),
    /// The theses seen, and those deleted.
    Seen(Vec<String>, Vec<String>),
    Webhook(String),
    NoWebhook(String),
    Alert(String),
    NoAlert(String),
}

/// The webhook and the alert of a client. It has at most one of each at a time, or a limit would be reached.
struct Owned {
    webhook: Option<String>,
    alert: Option<String>,
    /// Creates its alerts.
    api_key: &'static str,
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
        Wish::Alert { name, api_key, alert } => ask_about_alert(api, &name, api_key, alert).await,
    }
}

async fn ask_about_alert(api: Api, name: &str, api_key: &str, wish: AlertWish) -> Result<WishOutcome, Status> {
    match wish {
        AlertWish::New(above) => {
            let message = alerts::rule_of(api_key, name, above);
            let created = api.create_alert(with_key(message, api_key, Some(name))).await?.into_inner();
            Ok(WishOutcome::Alert(created.alert.unwrap().id))
        }
        AlertWish::Changed(id, above, seconds) => {
            let message = v1::UpdateAlertRequest {
                id: id.clone(),
                above: Some(above.into()),
                r#for: Some(format!("{seconds}s")),
                ..v1::UpdateAlertRequest::default()
            };
            api.update_alert(with_key(message, api_key, Some(name))).await?;
            Ok(WishOutcome::Alert(id))
        }
        AlertWish::Gone(id) => {
            match api.delete_alert(with_key(v1::DeleteAlertRequest { id: id.clone() }, api_key, None)).await {
                Err(status) if status.code() != Code::NotFound => Err(status),
                _ => Ok(WishOutcome::NoAlert(id)),
            }
        }
    }
}

fn wish(dice: &mut Dice, name: &str, owned: &mut Owned) -> Wish {
    match dice.roll(12) {
        0..5 => Wish::Thesis {
            key: name.to_owned(),
            handle: format!("h{}", dice.roll(4)),
            token: format!("T{}", dice.roll(3)),
        },
        5..9 => {
            let several = (0..=dice.roll(3)).map(|_| cases::random(dice));
            Wish::Observed(several.collect())
        }
        9 => match owned.webhook.take() {
            Some(id) => Wish::NoWebhook(id),
            None => Wish::Webhook(name.to_owned()),
        },
        _ => {
            let above = u32::try_from(dice.roll(8)).unwrap();
            let alert = match owned.alert.take() {
                Some(id) if dice.roll(3) == 0 => AlertWish::Gone(id),
                Some(id) => AlertWish::Changed(id, above, dice.roll(3)),
                None => AlertWish::New(above),
            };
            Wish::Alert { name: name.to_owned(), api_key: owned.api_key, alert }
        }
    }
}

impl Wish {
    /// The kind of a wish that a client has only once at a time.
    const fn kind(&self) -> Option<&'static str> {
        match self {
            Self::Thesis { .. } | Self::Observed(_) => None,
            Self::Webhook(_) | Self::NoWebhook(_) => Some("webhook"),
            Self::Alert { .. } => Some("alert"),
        }
    }
}

/// Sends random wishes, and repeats each one until it has a response. It creates alerts with this key.
pub(super) async fn live(world: &mut World, mut dice: Dice, (name, api_key): (&str, &'static str), steps: usize) {
    let mut owned = Owned { webhook: None, alert: None, api_key };
    for step in 0..steps {
        let mut wishes: Vec<Wish> = Vec::new();
        for number in 0..=dice.roll(4) {
            let wish = wish(&mut dice, &format!("{name} {step}.{number}"), &mut owned);
            let is_repeated = wish.kind().is_some() && wishes.iter().any(|other| other.kind() == wish.kind());
            match wish {
                wish if !is_repeated => wishes.push(wish),
                Wish::NoWebhook(id) => owned.webhook = Some(id),
                Wish::Alert { alert: AlertWish::Changed(id, ..) | AlertWish::Gone(id), .. } => owned.alert = Some(id),
                _ => {}
            }
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
                    Ok(outcome) => note(world, outcome, &mut owned),
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

fn note(world: &mut World, outcome: WishOutcome, owned: &mut Owned) {
    let acknowledged = &mut world.acknowledged;
    match outcome {
        WishOutcome::Entry(dataset, id) => acknowledged.entries.extend([(dataset, id)]),
        WishOutcome::Seen(theses, gone) => {
            acknowledged.entries.extend(theses.iter().map(|id| ("live".to_owned(), thesis_event_id(id))));
            acknowledged.gone.extend(gone);
        }
        WishOutcome::Webhook(id) => {
            acknowledged.webhooks.insert(id.clone());
            owned.webhook = Some(id);
        }
        WishOutcome::NoWebhook(id) => {
            acknowledged.webhooks.remove(&id);
            acknowledged.deleted.insert(id);
        }
        WishOutcome::Alert(id) => {
            acknowledged.alerts.insert(id.clone());
            owned.alert = Some(id);
        }
        WishOutcome::NoAlert(id) => {
            acknowledged.alerts.remove(&id);
        }
    }
}
