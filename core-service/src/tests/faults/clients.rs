//! Requests of the clients of a world, and their acknowledged writes.

use thesis_proto::v1::{
    self, alert_service_server::AlertService as _, ingest_service_server::IngestService as _,
    test_data_service_server::TestDataService as _, webhook_service_server::WebhookService as _,
};
use tonic::Code;

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

    /// Creates an alert. Its name is the idempotency key.
    pub(super) async fn create_alert(&mut self, api_key: &str, rule: v1::CreateAlertRequest) -> String {
        let request = || with_key(rule.clone(), api_key, rule.name.as_deref());
        let answer = self.ask(async |api| api.create_alert(request()).await).await.unwrap();
        let id = answer.alert.unwrap().id;
        self.acknowledged.alerts.insert(id.clone());
        id
    }

    /// Makes an alert fire above another number of theses.
    pub(super) async fn raise_alert(&mut self, api_key: &str, id: &str, above: u32) {
        let message = v1::UpdateAlertRequest {
            id: id.to_owned(),
            above: Some(above.into()),
            ..v1::UpdateAlertRequest::default()
        };
        let request = || with_key(message.clone(), api_key, None);
        let answer = self.ask(async |api| api.update_alert(request()).await).await.unwrap();
        assert_eq!(answer.alert.unwrap().above, message.above);
    }

    pub(super) async fn delete_alert(&mut self, api_key: &str, id: &str) {
        let request = || with_key(v1::DeleteAlertRequest { id: id.to_owned() }, api_key, None);
        let answer = self.ask(async |api| api.delete_alert(request()).await).await;
        // A repeated request after a lost response finds nothing.
        assert!(answer.is_ok() || answer.is_err_and(|status| status.code() == Code::NotFound));
        self.acknowledged.alerts.remove(id);
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
