//! The alerts of a run: two of each environment stay as they are, and one changes while faults happen.

use thesis_proto::v1::{self, alert_service_client::AlertServiceClient};
use tokio::time::sleep;
use tonic::{Code, Status};

use super::{Client, RETRY_PAUSE, once, until_responded, with_key};
use crate::tests::{
    harness::{LIVE_KEY, TEST_KEY},
    simulation::history::{Fact, Outcome, Request},
};

/// A key of each environment, with a token of the theses that it sees.
const KEYS: [(&str, &str); 2] = [(LIVE_KEY, "solana:So1"), (TEST_KEY, "SIM0")];
/// The number of theses above which alerts fire at first, and those of their changes.
const ABOVE: f64 = 3.0;
const CHANGED_ABOVE: [f64; 4] = [0.0, 2.0, 4.0, 8.0];
/// Number of changes of an alert, and the maximum milliseconds before each.
const CHANGES: usize = 4;
const MAX_CHANGE_PAUSE_MS: usize = 5_000;

/// An alert that changes.
pub(super) struct ChangingAlert {
    api_key: &'static str,
    id: String,
}

impl Client<'_> {
    /// Creates the alerts; returns those that change.
    pub(super) async fn create_alerts(&self) -> Result<Vec<ChangingAlert>, Status> {
        let mut changing = Vec::new();
        for (api_key, token) in KEYS {
            let rule = |name: &str| v1::CreateAlertRequest {
                name: Some(name.to_owned()),
                token: Some(token.to_owned()),
                metric: v1::AlertMetric::ThesisCount24h.into(),
                above: Some(ABOVE),
                ..v1::CreateAlertRequest::default()
            };
            let lasting = v1::CreateAlertRequest {
                r#for: Some("2s".to_owned()),
                keep_firing_for: Some("1s".to_owned()),
                ..rule("lasting")
            };
            self.create_alert(api_key, rule("plain")).await?;
            self.create_alert(api_key, lasting).await?;
            let id = self.create_alert(api_key, rule("changing")).await?;
            changing.push(ChangingAlert { api_key, id });
        }
        Ok(changing)
    }

    /// Creates an alert, once a thesis has created its token.
    async fn create_alert(&self, api_key: &str, message: v1::CreateAlertRequest) -> Result<String, Status> {
        let mut attempt = 0;
        let created = loop {
            attempt += 1;
            // A key keeps its refusal.
            let key = format!("alert {} on {} {attempt}", message.name(), message.token());
            let created = until_responded(|| {
                let (mut client, message) = (AlertServiceClient::new(self.channel.clone()), message.clone());
                let request = once(message, api_key, &key);
                async move { client.create_alert(request).await }
            });
            match created.await {
                Err(status) if status.code() == Code::NotFound => sleep(RETRY_PAUSE).await,
                created => break created?,
            }
        };
        let id = created.alert.unwrap_or_default().id;
        self.cluster.alerts.lock().insert(id.clone());
        Ok(id)
    }

    /// Changes the alerts, and deletes the last one.
    pub(super) async fn change_alerts(&mut self, alerts: Vec<ChangingAlert>) {
        for number in 0..CHANGES {
            for alert in &alerts {
                self.pause(MAX_CHANGE_PAUSE_MS / alerts.len()).await;
                self.change_alert(alert, number).await;
            }
        }
        if let Some(last) = alerts.last() {
            self.delete_alert(last).await;
        }
    }

    async fn change_alert(&mut self, alert: &ChangingAlert, number: usize) {
        let message = v1::UpdateAlertRequest {
            id: alert.id.clone(),
            above: Some(CHANGED_ABOVE[self.dice.roll(CHANGED_ABOVE.len())]),
            r#for: Some(format!("{}s", self.dice.roll(3))),
            keep_firing_for: Some(format!("{}s", self.dice.roll(3))),
            ..v1::UpdateAlertRequest::default()
        };
        let request = self.note(Fact::Requested(Request::ChangeAlert));
        let key = format!("change {number} of {}", alert.id);
        let changed = until_responded(|| {
            let (mut client, message) = (AlertServiceClient::new(self.channel.clone()), message.clone());
            let request = once(message, alert.api_key, &key);
            async move { client.update_alert(request).await }
        });
        let changed = changed.await;
        self.responded(request, changed.map(|_| Outcome::Done));
    }

    async fn delete_alert(&self, alert: &ChangingAlert) {
        let request = self.note(Fact::Requested(Request::DeleteAlert));
        let deleted = until_responded(|| {
            let (mut client, id) = (AlertServiceClient::new(self.channel.clone()), alert.id.clone());
            let request = with_key(v1::DeleteAlertRequest { id }, alert.api_key);
            async move { client.delete_alert(request).await }
        });
        let deleted = match deleted.await {
            // The response of an earlier attempt was lost.
            Err(status) if status.code() == Code::NotFound => Ok(Outcome::Done),
            deleted => deleted.map(|_| Outcome::Done),
        };
        self.cluster.alerts.lock().remove(&alert.id);
        self.responded(request, deleted);
    }
}
