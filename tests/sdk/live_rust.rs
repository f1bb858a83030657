//! The scenarios of `live.py`, with the SDK for Rust.

use std::{
    env,
    error::Error as StdError,
    io::{BufRead as _, stdin},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures::TryStreamExt as _;
use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use trade_thesis_client::{
    Client, CreateTestThesis, CreateWebhook, Environment, Error, ErrorCode, EventData, EventType, ListThesesParams,
    SearchParams, StreamContent, StreamEventsParams, Subject, ThesisSort, UpdateWebhook, VerifyThesis, WebhookStatus,
    WebhookVerifier, verify_receipt,
};

type Outcome = Result<(), Box<dyn StdError>>;

struct Scenarios {
    url: String,
    key: String,
    token: String,
    client: Client,
}

impl Scenarios {
    /// Walks the quick start.
    async fn quick(&self) -> Outcome {
        let (client, token) = (&self.client, self.token.as_str());
        assert_eq!(client.get_me().await?.environment, Environment::Test);
        let params = ListThesesParams::default().token("RUN").limit(2);
        let first = client.list_theses(&params).await?;
        let second = client.list_theses(&params.clone().cursor(first.next_cursor.ok_or("no second page")?)).await?;
        let mut ids: Vec<&String> = first.data.iter().chain(&second.data).map(|thesis| &thesis.id).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 4);
        let thesis = client.get_thesis(&first.data[0].id).await?;
        assert_eq!(client.get_profile(&thesis.profile.handle).await?.id, thesis.profile.id);
        assert_eq!(client.get_token("$RUN", &Default::default()).await?.id, thesis.token.id);
        let found = client.search("sandbox", &SearchParams::default().types(["profiles", "tokens"])).await?;
        assert!(!found.profiles.is_empty());
        let before = Timestamp::now() - SignedDuration::from_secs(60);
        let own = CreateTestThesis::new("sdk", token, "My first thesis.");
        let made = client.create_test_thesis(&own).idempotency_key(token).await?;
        let again = client.create_test_thesis(&own).idempotency_key(token).await?;
        assert_eq!(again.thesis.id, made.thesis.id);
        let verdict = client.verify_thesis(&VerifyThesis::new(token, before).handle("sdk").contains("first")).await?;
        assert!(verdict.verified && verdict.thesis_id.as_ref() == Some(&made.thesis.id));
        let event = client.get_event(&made.event.id).await?;
        assert!(matches!(event.data, EventData::ThesisCreated(data) if data.thesis_id == made.thesis.id));
        self.change_webhook().await?;
        self.check_receipt().await?;
        self.check_replay(&made.thesis.id, before).await
    }

    async fn change_webhook(&self) -> Outcome {
        let body = CreateWebhook::new("http://127.0.0.1:19996/", [EventType::ThesisCreated]).description("for tests");
        let webhook = self.client.create_webhook(&body).await?;
        let change = UpdateWebhook::default().clear_description().status("disabled");
        let changed = self.client.update_webhook(&webhook.id, &change).await?;
        assert_eq!((changed.description, changed.status), (None, WebhookStatus::Disabled));
        assert!(self.client.delete_webhook(&webhook.id).await?.deleted);
        Ok(())
    }

    /// Verifies the receipt of a thesis of the sandbox.
    async fn check_receipt(&self) -> Outcome {
        let params = ListThesesParams::default().sort(ThesisSort::CreatedAtAsc).limit(1).chain("sandbox");
        let oldest = self.client.list_theses(&params).await?;
        let receipt = serde_json::to_vec(&self.client.get_receipt(&oldest.data[0].id).await?)?;
        let keys = self.client.list_log_keys().await?.data;
        let trusted: Vec<&str> = keys.iter().map(|key| key.key.as_str()).collect();
        let verified = verify_receipt(&receipt, &trusted, &[])?;
        let Subject::Recorded(evidence) = verified.subject else { return Err("no evidence".into()) };
        assert!(verified.is_trusted && evidence.thesis_id == oldest.data[0].id);
        Ok(())
    }

    /// Finds a thesis in a stream that begins before it.
    async fn check_replay(&self, id: &str, from: Timestamp) -> Outcome {
        let params = StreamEventsParams::default().token([&self.token]).types([EventType::ThesisCreated]).from(from);
        let mut stream = self.client.stream(&params);
        let message = stream.next_message().await?.ok_or("the stream ended")?;
        assert_eq!(stream.cursor(), Some(message.cursor.as_str()));
        let StreamContent::Event(event) = message.content else { return Err("a gap".into()) };
        assert!(matches!(event.data, EventData::ThesisCreated(data) if data.thesis_id == id));
        Ok(())
    }

    /// Causes an error of each class.
    async fn errors(&self) -> Outcome {
        let client = &self.client;
        let own = client.create_test_thesis(&CreateTestThesis::new("sdk", &self.token, "An own thesis.")).await?;
        let stub = Client::builder(&env::var("STUB_URL")?, &self.key).max_retries(0).build()?;
        let params = ListThesesParams::default;
        raised(Client::new(&self.url, "svc_test_wrong")?.get_me().await)?;
        raised(client.list_theses(&params().created_after("2001-01-01T00:00:00Z".parse()?)).await)?;
        raised(client.get_token("NOSUCHTOKEN", &Default::default()).await)?;
        raised(client.get_receipt(&own.thesis.id).await)?;
        raised(client.list_theses(&params().limit(0)).await)?;
        raised(client.list_theses(&params().cursor("wrong")).await)?;
        raised(stub.get_me().await)?;
        raised(stub.get_token("RUN", &Default::default()).await)
    }

    /// Reads what everybody may read, and nothing else, without a key.
    async fn keyless(&self) -> Outcome {
        let reader = Client::builder_without_key(&self.url).build()?;
        for key in reader.list_log_keys().await?.data {
            println!("{}", key.key);
        }
        raised(reader.get_me().await)
    }

    /// All rows of a token.
    async fn pages(&self) -> Outcome {
        let mut theses = self.client.iterate_theses(&ListThesesParams::default().token(&self.token).limit(100));
        while let Some(thesis) = theses.try_next().await? {
            println!("{}", thesis.id);
        }
        Ok(())
    }

    /// The events of a token.
    async fn stream(&self) -> Outcome {
        let params = StreamEventsParams::default().token([&self.token]).types([EventType::ThesisCreated]);
        let mut stream = self.client.stream(&params.from_cursor(env::var("CURSOR")?));
        while let Some(message) = stream.next_message().await? {
            let StreamContent::Event(event) = message.content else { return Err("a gap".into()) };
            println!("{}", event.id);
        }
        Ok(())
    }

    /// Calls until the service answers 429.
    async fn limited(&self) -> Outcome {
        let body = VerifyThesis::new(&self.token, Timestamp::now() - SignedDuration::from_hours(1)).handle("sdk");
        let impatient = Client::builder(&self.url, &self.key).max_retries(0).build()?;
        let error = loop {
            if let Err(error) = impatient.verify_thesis(&body).await {
                break error;
            }
        };
        assert_eq!(error.code(), Some(&ErrorCode::RateLimited));
        let seconds = error.api().and_then(|refusal| refusal.retry_after).ok_or("no Retry-After")?.as_secs();
        println!("{seconds}");
        println!("{}", Client::new(&env::var("STUB_URL")?, &self.key)?.get_checkpoint("live").await?);
        if !env::var("WAITS")?.is_empty() {
            self.client.verify_thesis(&body).await?;
        }
        Ok(())
    }
}

/// Prints the error of a call.
fn raised<T>(outcome: Result<T, Error>) -> Outcome {
    let error = outcome.err().ok_or("no error")?;
    let refusal = error.api().ok_or_else(|| error.to_string())?;
    let (kind, code) = (refusal.r#type.as_ref().ok_or("no type")?, refusal.code.as_ref().ok_or("no code")?);
    println!("{kind} {code} {}", error.request_id().ok_or("no request id")?);
    Ok(())
}

/// Verifies deliveries.
fn webhook() -> Outcome {
    for line in stdin().lock().lines() {
        let given: Value = serde_json::from_str(&line?)?;
        let mut headers = HeaderMap::new();
        for (name, value) in given["headers"].as_object().ok_or("no headers")? {
            headers.insert(name.parse::<HeaderName>()?, HeaderValue::from_str(value.as_str().ok_or("no text")?)?);
        }
        let keys = given["keys"].as_array().ok_or("no keys")?.iter().filter_map(Value::as_str);
        let body = BASE64_STANDARD.decode(given["body"].as_str().ok_or("no body")?)?;
        match WebhookVerifier::new(keys)?.verify(&headers, &body) {
            Ok(event) => println!("{}", event.id),
            Err(_) => println!("refused"),
        }
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let (url, key) = (env::var("API_URL")?, env::var("API_KEY")?);
    let client = Client::new(&url, &key)?;
    let scenarios = Scenarios { url, key, token: env::var("TOKEN")?, client };
    match env::args().nth(1).as_deref() {
        Some("quick") => scenarios.quick().await,
        Some("errors") => scenarios.errors().await,
        Some("keyless") => scenarios.keyless().await,
        Some("pages") => scenarios.pages().await,
        Some("stream") => scenarios.stream().await,
        Some("webhook") => webhook(),
        Some("limited") => scenarios.limited().await,
        other => Err(format!("there is no scenario {other:?}").into()),
    }
}
