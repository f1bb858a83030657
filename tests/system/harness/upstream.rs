//! An upstream in this process: the simulator, quiet until a test makes it do something.

use std::{sync::Arc, time::Duration};

use reqwest::Method;
use serde_json::{Value, json};
use thesis_net::clock::SystemClock;
use upstream_sim::{Faults, Options, Simulator};

use super::process::install_tls_provider;

/// The credential of the upstream.
pub(crate) const UPSTREAM_TOKEN: &str = "system-tests-upstream-token-0123456789";
/// Time over which the theses of the beginning are spread: less than what a first start fetches.
const HISTORY: Duration = Duration::from_secs(12 * 3_600);

/// What an upstream begins with.
#[derive(Clone, Copy)]
pub(crate) struct World {
    pub(crate) profiles: usize,
    pub(crate) tokens: usize,
    /// Theses of the last twelve hours.
    pub(crate) theses: usize,
}

/// An upstream in this process.
pub(crate) struct Upstream {
    simulator: Simulator,
    http: reqwest::Client,
}

impl Upstream {
    /// Starts an upstream without faults, in which nothing happens by itself.
    pub(crate) async fn start(world: World) -> Self {
        let options = Options {
            listen: ([127, 0, 0, 1], 0).into(),
            token: UPSTREAM_TOKEN.into(),
            seed: 1,
            profiles: world.profiles,
            tokens: world.tokens,
            rate: 0.0,
            history: HISTORY,
            history_theses: world.theses,
            faults: Faults::default(),
        };
        let simulator = Simulator::start(options, Arc::new(SystemClock)).await.unwrap();
        install_tls_provider();
        let http = super::http_client().build().unwrap();
        Self { simulator, http }
    }

    /// Its base URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.simulator.address())
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Value {
        let mut request = self.http.request(method, format!("{}/sim{path}", self.url())).bearer_auth(UPSTREAM_TOKEN);
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await.unwrap();
        let (status, text) = (answer.status().as_u16(), answer.text().await.unwrap());
        assert_eq!(status, 200, "{path}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Posts a thesis; the request names `profile_id`, `token`, `text`, `created_at` and `quiet`, each if it matters.
    pub(crate) async fn post(&self, thesis: &Value) -> Value {
        self.call(Method::POST, "/theses", Some(thesis)).await
    }

    /// Changes a thesis: `text`, `likes`, `replies`, and `quiet`.
    pub(crate) async fn edit(&self, thesis: &Value, change: &Value) -> Value {
        self.call(Method::PATCH, &format!("/theses/{}", super::text(thesis, "id")), Some(change)).await
    }

    /// Deletes a thesis; gives its tombstone.
    pub(crate) async fn delete(&self, thesis: &Value) -> Value {
        self.call(Method::DELETE, &format!("/theses/{}", super::text(thesis, "id")), None).await
    }

    /// Deletes a thesis, which the feed never tells.
    pub(crate) async fn delete_quietly(&self, thesis: &Value) -> Value {
        self.call(Method::DELETE, &format!("/theses/{}?quiet=true", super::text(thesis, "id")), None).await
    }

    /// Adds a profile, which the feed does not tell.
    pub(crate) async fn profile(&self, handle: &str) -> Value {
        let new = json!({"handle": handle, "display_name": format!("The {handle}"), "bio": "first", "quiet": true});
        self.add_profile(&new).await
    }

    /// Adds a profile: `handle`, `display_name`, `bio`, and `quiet`.
    pub(crate) async fn add_profile(&self, profile: &Value) -> Value {
        self.call(Method::POST, "/profiles", Some(profile)).await
    }

    /// Changes a profile: `handle`, `display_name`, `bio`, `verified`, and `quiet`.
    pub(crate) async fn change_profile(&self, profile: &Value, change: &Value) -> Value {
        self.call(Method::PATCH, &format!("/profiles/{}", super::text(profile, "id")), Some(change)).await
    }

    /// Replaces the wallets of a profile.
    pub(crate) async fn set_wallets(&self, profile: &Value, wallets: &Value) {
        self.call(Method::PUT, &format!("/profiles/{}/wallets", super::text(profile, "id")), Some(wallets)).await;
    }

    /// Adds a token, which the feed does not tell.
    pub(crate) async fn token(&self, chain: &str, address: &str, symbol: &str) -> Value {
        let new = json!({"chain": chain, "address": address, "symbol": symbol, "name": "A Name", "quiet": true});
        self.call(Method::POST, "/tokens", Some(&new)).await
    }

    /// Changes a token: `symbol`, `name`, and `quiet`.
    pub(crate) async fn change_token(&self, token: &Value, change: &Value) -> Value {
        let (chain, address) = (super::text(token, "chain"), super::text(token, "address"));
        self.call(Method::PATCH, &format!("/tokens/{chain}/{address}"), Some(change)).await
    }

    /// Tells a frame of the test's own; a text is sent as it is.
    pub(crate) async fn tell(&self, event: &str, data: &Value) {
        self.call(Method::POST, "/frames", Some(&json!({"event": event, "data": data}))).await;
    }

    /// Makes the follower fetch everything that changed since the beginning.
    pub(crate) async fn tell_a_gap_of_everything(&self) {
        self.tell("gap", &json!({"since": super::iso(super::now_ms() - 86_400_000)})).await;
    }

    /// Switches faults; those not named stay.
    pub(crate) async fn faults(&self, faults: &Value) {
        self.call(Method::PUT, "/faults", Some(faults)).await;
    }

    /// Ends all faults, and stops new theses.
    pub(crate) async fn calm(&self) {
        self.rate(0.0).await;
        self.faults(&serde_json::to_value(Faults::default()).unwrap()).await;
    }

    /// New theses a second from now on, with everything that happens beside them.
    pub(crate) async fn rate(&self, rate: f64) {
        self.call(Method::PUT, "/rate", Some(&json!({"rate": rate}))).await;
    }

    /// Its numbers.
    pub(crate) async fn state(&self) -> Value {
        self.call(Method::GET, "/state", None).await
    }

    /// One of its numbers.
    pub(crate) async fn number(&self, name: &str) -> u64 {
        self.state().await[name].as_u64().unwrap()
    }

    /// Look-ups of a kind so far.
    pub(crate) async fn look_ups(&self, kind: &str) -> u64 {
        self.state().await["look_ups"][kind].as_u64().unwrap()
    }

    /// Look-ups so far, but those of lists of theses: samples of busy tokens are compared at any time.
    pub(crate) async fn all_look_ups(&self) -> u64 {
        let state = self.state().await;
        let counts = state["look_ups"].as_object().unwrap().iter().filter(|(kind, _)| *kind != "theses");
        counts.map(|(_, count)| count.as_u64().unwrap()).sum()
    }

    /// All `theses`, `profiles` or `tokens` as they are.
    pub(crate) async fn truth(&self, kind: &str) -> Vec<Value> {
        let (mut all, mut after) = (Vec::new(), String::new());
        loop {
            let page = self.call(Method::GET, &format!("/{kind}?limit=5000{after}"), None).await;
            all.extend(page["data"].as_array().unwrap().iter().cloned());
            match page["next"].as_u64() {
                Some(next) => after = format!("&after={next}"),
                None => return all,
            }
        }
    }
}
