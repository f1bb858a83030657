//! Requests of the clients of a world, and their acknowledged writes.

use thesis_proto::v1::{
    self, AlertMetric, alert_service_server::AlertService as _, ingest_service_server::IngestService as _,
    test_data_service_server::TestDataService as _, webhook_service_server::WebhookService as _,
};

use super::{
    observations::thesis,
    requests::{public, service, with_key},
    world::World,
};
use crate::domain::{event_id::thesis_event_id, id};

impl World {
    pub(super) async fn create_thesis(&mut self, key: &str, handle: &str, token: &str) -> v1::TestThesisResult {
        let message = v1::CreateTestThesisRequest {
            handle: Some(handle.to_owned()),
            token: Some(token.to_owned()),
            text: Some(format!("by {key}")),
        };
        let request = || public(message.clone(), Some(key));
        let answer = self.ask(async |api| api.create_test_thesis(request()).await).await.unwrap();
        let result = answer.result.unwrap();
        let dataset = format!("project/{}", id::derive("prj_", &["default"]));
        self.acknowledged.entries.insert((dataset, result.event.as_ref().unwrap().id.clone()));
        result
    }

    pub(super) async fn create_webhook(&mut self, key: &str, url: &str) -> String {
        let message = v1::CreateWebhookRequest {
            url: Some(url.to_owned()),
            events: (1..=6).collect(),
            ..v1::CreateWebhookRequest::default()
        };
        let request = || public(message.clone(), Some(key));
        let answer = self.ask(async |api| api.create_webhook(request()).await).await.unwrap();
        let id = answer.webhook.unwrap().id;
        self.acknowledged.webhooks.insert(id.clone());
        id
    }

    /// Creates an alert that fires above this number of theses.
    pub(super) async fn create_alert(&mut self, key: &str, api_key: &str, token: &str, above: u32) -> String {
        let message = v1::CreateAlertRequest {
            name: Some(key.to_owned()),
            token: Some(token.to_owned()),
            metric: AlertMetric::ThesisCount24h.into(),
            above: Some(above.into()),
            ..v1::CreateAlertRequest::default()
        };
        let request = || with_key(message.clone(), api_key, Some(key));
        let answer = self.ask(async |api| api.create_alert(request()).await).await.unwrap();
        let id = answer.alert.unwrap().id;
        self.acknowledged.alerts.insert(id.clone());
        id
    }

    pub(super) async fn ingest(&mut self, dataset: &str, observations: Vec<v1::Observation>) -> Vec<v1::IngestResult> {
        let message = v1::IngestRequest { dataset: dataset.to_owned(), observations };
        let request = || service(message.clone());
        let answer = self.ask(async |api| api.ingest(request()).await).await.unwrap();
        answer.results
    }

    /// A thesis that entered by ingestion.
    pub(super) async fn ingest_thesis(&mut self, upstream_id: &str) -> String {
        let results = self.ingest("live", vec![thesis(upstream_id, 1)]).await;
        let id = results[0].id.clone();
        self.acknowledged.entries.insert(("live".to_owned(), thesis_event_id(&id)));
        id
    }

    /// Writes three more theses, which show whether the core's memory is right.
    pub(super) async fn probe(&mut self) {
        self.create_thesis("probe", "prober", "PROBED").await;
        self.create_thesis("probe 2", "case", "CASE").await;
        self.ingest("live", vec![thesis("probe", 1)]).await;
    }
}
