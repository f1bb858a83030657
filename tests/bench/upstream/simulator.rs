//! The simulator of the upstream, and what it is told to do.

use std::{net::SocketAddr, path::Path, time::Duration};

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    Failure,
    connection::{Connection, get, post, with_body},
    process::{Service, UPSTREAM_TOKEN, live_key},
};

/// Time limit until the service follows the feed.
const FOLLOW_TIMEOUT: Duration = Duration::from_mins(1);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Theses of a page of its truth.
const PAGE: usize = 10_000;

/// A running simulator.
pub(super) struct Simulator {
    process: Service,
    address: SocketAddr,
}

impl Simulator {
    /// Starts it at rest and without theses.
    pub(super) async fn start(dir: &Path) -> Result<Self, Failure> {
        let process = Service::upstream_sim(dir).await?;
        let address = process.address("http")?;
        Ok(Self { process, address })
    }

    /// The settings of a service that follows it, and has a live key.
    pub(super) fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            ("SVC_UPSTREAM_URL", format!("http://{}", self.address)),
            ("SVC_UPSTREAM_TOKEN", UPSTREAM_TOKEN.to_owned()),
            ("SVC_UPSTREAM_BACKFILL", "0s".to_owned()),
            ("SVC_BOOTSTRAP_LIVE_KEY", live_key()),
        ]
    }

    /// The address of its feed.
    pub(super) fn feed(&self) -> String {
        format!("http://{}/feed", self.address)
    }

    /// The processor time it has used.
    pub(super) fn cpu_seconds(&self) -> f64 {
        self.process.cpu_seconds()
    }

    async fn ask(&self, request: &[u8]) -> Result<Value, Failure> {
        let mut connection = Connection::open(self.address).await?;
        let answer = connection.ask_ok(request).await?;
        let value = serde_json::from_slice(answer.body)?;
        Ok(value)
    }

    /// Waits until the service follows the feed.
    pub(super) async fn is_followed(&self) -> Result<(), Failure> {
        let started = Instant::now();
        while self.ask(&get("/sim/state", UPSTREAM_TOKEN)).await?["feed_connections"] == 0 {
            if started.elapsed() > FOLLOW_TIMEOUT {
                return Err("the service does not follow the feed".into());
            }
            sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Makes new theses as fast as it can; all are in the feed afterwards.
    pub(super) async fn burst(&self, theses: u64) -> Result<(), Failure> {
        let body = json!({ "theses": theses }).to_string();
        self.ask(&post("/sim/burst", UPSTREAM_TOKEN, &body)).await?;
        Ok(())
    }

    /// Makes a new thesis with a text; gives its upstream id.
    pub(super) async fn post(&self, text: &str) -> Result<String, Failure> {
        let body = json!({ "text": text }).to_string();
        let made = self.ask(&post("/sim/theses", UPSTREAM_TOKEN, &body)).await?;
        Ok(made["id"].as_str().ok_or("a thesis has no id")?.to_owned())
    }

    /// Makes so many new theses a second from now on.
    pub(super) async fn set_rate(&self, rate: u32) -> Result<(), Failure> {
        let body = json!({ "rate": rate }).to_string();
        self.ask(&with_body("PUT", "/sim/rate", UPSTREAM_TOKEN, &body)).await?;
        Ok(())
    }

    /// The upstream ids of the theses behind the first ones, in the order of their creation.
    pub(super) async fn ids_behind(&self, first: u64) -> Result<Vec<String>, Failure> {
        let page = self.page(first.checked_sub(1)).await?;
        Ok(page["data"].as_array().into_iter().flatten().filter_map(|thesis| text_of(thesis, "id")).collect())
    }

    /// The texts of all theses, in the order of their creation.
    pub(super) async fn texts(&self) -> Result<Vec<String>, Failure> {
        let (mut texts, mut after) = (Vec::new(), None);
        loop {
            let page = self.page(after).await?;
            texts.extend(page["data"].as_array().into_iter().flatten().filter_map(|thesis| text_of(thesis, "text")));
            after = page["next"].as_u64();
            if after.is_none() {
                return Ok(texts);
            }
        }
    }

    async fn page(&self, after: Option<u64>) -> Result<Value, Failure> {
        let after = after.map(|after| format!("&after={after}")).unwrap_or_default();
        self.ask(&get(&format!("/sim/theses?limit={PAGE}{after}"), UPSTREAM_TOKEN)).await
    }

    /// Stops it.
    pub(super) async fn stop(self) -> Result<(), Failure> {
        self.process.stop().await?;
        Ok(())
    }
}

fn text_of(thesis: &Value, field: &str) -> Option<String> {
    thesis[field].as_str().map(str::to_owned)
}
