//! Clients that write, list and administer. Each repeats a request until a core responds, as clients do.

mod alerts;

use std::{
    net::IpAddr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use thesis_net::channel::CoreChannel;
use thesis_proto::{
    metadata::{AUTHORIZATION, IDEMPOTENCY_KEY, SERVICE_TOKEN as SERVICE_TOKEN_NAME},
    v1::{
        self, admin_service_client::AdminServiceClient, ingest_service_client::IngestServiceClient,
        observation::Observed, test_data_service_client::TestDataServiceClient,
        thesis_service_client::ThesisServiceClient, webhook_service_client::WebhookServiceClient,
    },
};
use tokio::time::{sleep, timeout};
use tonic::{Code, Response, Status};

use super::{
    cluster::{Cluster, NodeClock},
    history::{Fact, Outcome, Request},
    network::channel,
    receivers,
};
use crate::{
    domain::id,
    tests::{
        faults::{Dice, random_observation},
        harness::{SERVICE_TOKEN, TEST_KEY},
    },
};

pub(super) const WRITERS: usize = 3;
/// Requests of a writer, and the maximum milliseconds between two of them.
const STEPS: usize = 60;
const MAX_PAUSE_MS: usize = 500;
/// Symbols of the tokens that theses are about.
const TOKENS: usize = 3;
/// Time after which a client repeats a request without a response.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
const RETRY_PAUSE: Duration = Duration::from_millis(300);
/// Earliest time of the revocation, and the maximum milliseconds until it.
const REVOKED_AFTER: Duration = Duration::from_secs(5);
const MAX_REVOKED_MS: usize = 15_000;

/// A request of an API key.
pub(super) fn with_key<M>(message: M, key: &str) -> tonic::Request<M> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert(AUTHORIZATION, format!("Bearer {key}").parse().unwrap());
    request
}

/// A request of an API key that acts once.
fn once<M>(message: M, key: &str, idempotency_key: &str) -> tonic::Request<M> {
    let mut request = with_key(message, key);
    request.metadata_mut().insert(IDEMPOTENCY_KEY, idempotency_key.parse().unwrap());
    request
}

/// A request of an operator or an upstream.
fn of_service<M>(message: M) -> tonic::Request<M> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert(SERVICE_TOKEN_NAME, SERVICE_TOKEN.parse().unwrap());
    request
}

/// True if a repetition of the request would have the same response.
const fn is_final(code: Code) -> bool {
    matches!(
        code,
        Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::DataLoss
            | Code::Unauthenticated
    )
}

/// Repeats a call until a core responds.
async fn until_responded<T, F>(call: impl Fn() -> F) -> Result<T, Status>
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    loop {
        match timeout(CALL_TIMEOUT, call()).await {
            Ok(Ok(response)) => return Ok(response.into_inner()),
            Ok(Err(status)) if is_final(status.code()) => return Err(status),
            _ => sleep(RETRY_PAUSE).await,
        }
    }
}

/// A client by its name.
struct Client<'a> {
    cluster: &'a Cluster,
    name: String,
    channel: CoreChannel,
    dice: Dice,
}

impl<'a> Client<'a> {
    fn new(cluster: &'a Cluster, name: String, seed: u64) -> Self {
        let channel = channel(&cluster.urls(), Arc::new(NodeClock::default()));
        Self { cluster, name, channel, dice: Dice(seed) }
    }

    fn note(&self, fact: Fact) -> usize {
        self.cluster.history.note(&self.name, fact)
    }

    fn responded(&self, request: usize, outcome: Result<Outcome, Status>) {
        let outcome = outcome.unwrap_or_else(|status| Outcome::Refused(status.to_string()));
        self.note(Fact::Responded(request, outcome));
    }

    fn token(&mut self) -> String {
        format!("SIM{}", self.dice.roll(TOKENS))
    }

    async fn create(&mut self, step: usize) {
        let (key, token) = (format!("{} {step}", self.name), self.token());
        let request = self.note(Fact::Requested(Request::Create { key: key.clone(), token: token.clone() }));
        let message = v1::CreateTestThesisRequest {
            handle: Some(format!("h{}", self.dice.roll(4))),
            token: Some(token),
            text: Some(text(&key)),
        };
        let created = until_responded(|| {
            let (mut client, message) = (TestDataServiceClient::new(self.channel.clone()), message.clone());
            let request = once(message, TEST_KEY, &key);
            async move { client.create_test_thesis(request).await }
        });
        let created = created.await;
        self.responded(request, created.map(|created| Outcome::Created { event: event_of(created) }));
    }

    async fn list(&mut self) {
        let token = self.token();
        let request = self.note(Fact::Requested(Request::List { token: token.clone() }));
        let message =
            v1::ListThesesRequest { token: Some(token), limit: Some(100), ..v1::ListThesesRequest::default() };
        let listed = until_responded(|| {
            let (mut client, message) = (ThesisServiceClient::new(self.channel.clone()), message.clone());
            async move { client.list_theses(with_key(message, TEST_KEY)).await }
        });
        let theses = match listed.await {
            // The first thesis creates the token.
            Err(status) if status.code() == Code::NotFound => Ok(Vec::new()),
            listed => listed.map(|listed| listed.data),
        };
        let listed = theses.map(|theses| Outcome::Listed(theses.into_iter().map(|thesis| thesis.id).collect()));
        self.responded(request, listed);
    }

    async fn observe(&mut self) {
        let several = 1 + self.dice.roll(3);
        let observations: Vec<_> = (0..several).map(|_| random_observation(&mut self.dice)).collect();
        let request = self.note(Fact::Requested(Request::Observe));
        let message = v1::IngestRequest { dataset: "live".to_owned(), observations: observations.clone() };
        let observed = until_responded(|| {
            let (mut client, message) = (IngestServiceClient::new(self.channel.clone()), message.clone());
            async move { client.ingest(of_service(message)).await }
        });
        let observed = observed.await.map(|observed| {
            let (mut theses, mut gone) = (Vec::new(), Vec::new());
            for (observation, result) in observations.into_iter().zip(observed.results) {
                match observation.observed {
                    Some(Observed::Thesis(_)) => theses.push(result.id),
                    Some(Observed::Deletion(_)) => gone.push(result.id),
                    _ => {}
                }
            }
            Outcome::Observed { theses, gone }
        });
        self.responded(request, observed);
    }

    async fn pause(&mut self, max_ms: usize) {
        let ms = self.dice.roll(max_ms);
        sleep(Duration::from_millis(ms as u64)).await;
    }

    async fn create_webhook(&self, url: String) -> Result<(), Status> {
        let key = format!("webhook {url}");
        let message = v1::CreateWebhookRequest {
            url: Some(url),
            events: (1..=6).collect(),
            ..v1::CreateWebhookRequest::default()
        };
        let created = until_responded(|| {
            let (mut client, message) = (WebhookServiceClient::new(self.channel.clone()), message.clone());
            let request = once(message, TEST_KEY, &key);
            async move { client.create_webhook(request).await }
        });
        let id = created.await?.webhook.unwrap_or_default().id;
        self.cluster.webhooks.lock().insert(id);
        Ok(())
    }

    async fn create_key(&self) -> Result<(), Status> {
        let message = v1::CreateKeyRequest {
            project_id: id::derive("prj_", &["default"]),
            environment: v1::Environment::Test.into(),
            name: "revocable".to_owned(),
            ..v1::CreateKeyRequest::default()
        };
        let created = until_responded(|| {
            let (mut client, message) = (AdminServiceClient::new(self.channel.clone()), message.clone());
            async move { client.create_key(of_service(message)).await }
        });
        let created = created.await?;
        *self.cluster.revocable.lock() = created.api_key.map(|key| (key.id, created.key));
        Ok(())
    }

    async fn revoke(&self, id: String) {
        let request = self.note(Fact::Requested(Request::Revoke));
        let revoked = until_responded(|| {
            let (mut client, id) = (AdminServiceClient::new(self.channel.clone()), id.clone());
            async move { client.revoke_key(of_service(v1::RevokeKeyRequest { id })).await }
        });
        let revoked = revoked.await;
        self.responded(request, revoked.map(|_| Outcome::Done));
    }

    async fn revoke_later(&mut self) {
        sleep(REVOKED_AFTER).await;
        self.pause(MAX_REVOKED_MS).await;
        let revocable = self.cluster.revocable.lock().clone();
        if let Some((id, _)) = revocable {
            self.revoke(id).await;
        }
    }
}

/// The text of the thesis that a key creates.
pub(super) fn text(key: &str) -> String {
    format!("by {key}")
}

fn event_of(created: v1::CreateTestThesisResponse) -> String {
    created.result.and_then(|result| result.event).unwrap_or_default().id
}

/// Writes and lists until its steps are done.
pub(super) async fn write(cluster: Arc<Cluster>, number: usize) {
    let mut client = Client::new(&cluster, format!("writer-{number}"), cluster.seed ^ (number as u64 + 1));
    for step in 0..STEPS {
        match client.dice.roll(10) {
            0..5 => client.create(step).await,
            5..8 => client.list().await,
            _ => client.observe().await,
        }
        client.pause(MAX_PAUSE_MS).await;
    }
    cluster.busy_clients.fetch_sub(1, Ordering::Relaxed);
}

/// Creates a webhook for each endpoint, the alerts, and a key, which it revokes later while it changes alerts.
pub(super) async fn operate(cluster: Arc<Cluster>, endpoints: Vec<IpAddr>) {
    let client = |seed| Client::new(&cluster, "operator".to_owned(), seed);
    let (mut client, mut changing) = (client(cluster.seed.rotate_left(7)), client(cluster.seed.rotate_left(11)));
    let request = client.note(Fact::Requested(Request::SetUp));
    let set_up = async {
        for endpoint in endpoints {
            client.create_webhook(receivers::url(endpoint)).await?;
        }
        client.create_key().await?;
        client.create_alerts().await
    };
    let (alerts, outcome) = match set_up.await {
        Ok(alerts) => (alerts, Ok(Outcome::Done)),
        Err(refused) => (Vec::new(), Err(refused)),
    };
    client.responded(request, outcome);
    tokio::join!(client.revoke_later(), changing.change_alerts(alerts));
    cluster.busy_clients.fetch_sub(1, Ordering::Relaxed);
}
