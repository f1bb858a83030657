//! A customer of the measured service: a project with a key, its webhooks and its events.

use std::{net::SocketAddr, time::Duration};

use futures::future::try_join_all;
use serde_json::{Value, json};
use thesis_proto::v1::{self, Environment};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::{
    Failure, calls,
    connection::{Connection, post, request, with_body},
    mark::text,
    process::{PLAN_NAME, Service, test_key},
};

/// Connections that post as fast as they are answered.
const FAST: usize = 64;
/// Connections that post at a rate.
const PACED: u32 = 20;

/// A customer, and where the service is.
#[derive(Clone)]
pub(super) struct Customer {
    address: SocketAddr,
    key: String,
}

impl Customer {
    /// The customer of the key that the service starts with.
    pub(super) fn first(service: &Service) -> Result<Self, Failure> {
        Ok(Self { address: service.address("http")?, key: test_key() })
    }

    /// A customer with a new project.
    pub(super) async fn new(service: &Service) -> Result<Self, Failure> {
        let mut operator = calls::operator(service).await?;
        let request = v1::CreateOrganizationRequest { name: "Benchmark".to_owned(), plan: Some(PLAN_NAME.to_owned()) };
        let made = operator.create_organization(request).await?.into_inner();
        let organization_id = made.organization.unwrap_or_default().id;
        let request = v1::CreateProjectRequest { organization_id, name: "Webhooks".to_owned() };
        let made = operator.create_project(request).await?.into_inner();
        let request = v1::CreateKeyRequest {
            project_id: made.project.unwrap_or_default().id,
            environment: Environment::Test.into(),
            name: "webhooks".to_owned(),
            scopes: ["theses:read", "webhooks:write"].map(str::to_owned).to_vec(),
            expires_at: None,
            allowed_addresses: Vec::new(),
        };
        let key = operator.create_key(request).await?.into_inner().key;
        Ok(Self { address: service.address("http")?, key })
    }

    /// The same customer of a service that was started again.
    pub(super) fn of(&self, service: &Service) -> Result<Self, Failure> {
        Ok(Self { address: service.address("http")?, key: self.key.clone() })
    }

    /// Creates webhooks, each at a URL and perhaps for one token only; gives their ids.
    pub(super) async fn webhooks(
        &self,
        wanted: impl IntoIterator<Item = (String, Option<String>)>,
    ) -> Result<Vec<String>, Failure> {
        let mut connection = Connection::open(self.address).await?;
        let mut ids = Vec::new();
        for (url, token) in wanted {
            let filters = token.map_or_else(|| json!({}), |token| json!({ "token": [token] }));
            let body = json!({ "url": url, "events": ["thesis.created"], "filters": filters });
            let made = connection.ask_ok(&post("/v1/webhooks", &self.key, &body.to_string())).await?;
            let made: Value = serde_json::from_slice(made.body)?;
            ids.push(made["id"].as_str().ok_or("a webhook has no id")?.to_owned());
        }
        Ok(ids)
    }

    /// Sends a webhook's deliveries elsewhere.
    pub(super) async fn redirect(&self, webhook: &str, url: &str) -> Result<(), Failure> {
        let (path, body) = (format!("/v1/webhooks/{webhook}"), json!({ "url": url }).to_string());
        let mut connection = Connection::open(self.address).await?;
        connection.ask_ok(&with_body("PATCH", &path, &self.key, &body)).await?;
        Ok(())
    }

    /// Deletes webhooks.
    pub(super) async fn delete(&self, webhooks: &[String]) -> Result<(), Failure> {
        let mut connection = Connection::open(self.address).await?;
        for webhook in webhooks {
            connection.ask_ok(&request("DELETE", &format!("/v1/webhooks/{webhook}"), &self.key)).await?;
        }
        Ok(())
    }

    /// The request for an event on a token, as of now.
    fn event(&self, token: &str) -> Vec<u8> {
        let body = json!({ "handle": "trader_1", "token": token, "text": text() });
        post("/v1/test/theses", &self.key, &body.to_string())
    }

    /// Posts events on a token as fast as they are answered.
    pub(super) async fn post(&self, events: usize, token: &str) -> Result<(), Failure> {
        let posting = (0..FAST).map(|first| {
            let (customer, token) = (self.clone(), token.to_owned());
            tokio::spawn(async move {
                let mut connection = Connection::open(customer.address).await?;
                for _ in (first..events).step_by(FAST) {
                    connection.ask_ok(&customer.event(&token)).await?;
                }
                Ok::<_, Failure>(())
            })
        });
        try_join_all(posting).await?.into_iter().collect()
    }

    /// Posts this number of events a second, on the tokens in turn.
    pub(super) async fn post_at(&self, rate: u32, seconds: u32, tokens: &[String]) -> Result<(), Failure> {
        let (began, each) = (Instant::now(), Duration::from_secs(1) / rate);
        let posting = (0..PACED).map(|first| {
            let (customer, tokens) = (self.clone(), tokens.to_vec());
            tokio::spawn(async move {
                let mut connection = Connection::open(customer.address).await?;
                let mut turns = interval_at(began + each * first, each * PACED);
                turns.set_missed_tick_behavior(MissedTickBehavior::Burst);
                for number in (first..rate * seconds).step_by(PACED as usize) {
                    turns.tick().await;
                    connection.ask_ok(&customer.event(&tokens[number as usize % tokens.len()])).await?;
                }
                Ok::<_, Failure>(())
            })
        });
        try_join_all(posting).await?.into_iter().collect()
    }
}
