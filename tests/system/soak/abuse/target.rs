//! The service as an attack sees it, and the results of the attack's requests.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};

use futures::{StreamExt as _, future::ready, stream};
use reqwest::RequestBuilder;
use tonic::{
    Status,
    transport::{Channel, Endpoint},
};

use crate::harness::{Client, Service};

/// Words of the searching project. The prefixes of one search may match 10,000.
const WORDS: usize = 7_500;
/// Theses over which these words are spread. Each word is in one thesis only: a search counts it in every part of the
/// index that has it. The number is no multiple of three, so that each thesis has words with every first letter.
const THESES_WITH_WORDS: usize = 32;
/// First letters of the words. Few words of the sandbox, which the key sees too, begin with one of them.
const INITIALS: [&str; 3] = ["j", "q", "z"];

/// Counts of requests by their result.
#[derive(Clone, Default)]
pub(super) struct Outcomes(Arc<Mutex<BTreeMap<String, u64>>>);

impl Outcomes {
    pub(super) fn add(&self, outcome: &str, count: u64) {
        *self.0.lock().unwrap().entry(outcome.to_owned()).or_default() += count;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().unwrap().is_empty()
    }
}

impl fmt::Display for Outcomes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcomes = self.0.lock().unwrap();
        let texts: Vec<String> = outcomes.iter().map(|(outcome, count)| format!("{count} {outcome}")).collect();
        formatter.write_str(&texts.join(", "))
    }
}

/// The service, the account that an attack is aimed at, and the attacker's own keys and account.
#[derive(Clone)]
pub(super) struct Target {
    /// Base URL of REST.
    pub(super) http: String,
    /// Base URL of gRPC.
    pub(super) grpc: String,
    /// Connections that the attacker may have.
    pub(super) connections: u64,
    /// A test key whose project has many words.
    pub(super) searcher: Client,
    /// A test key whose plan keeps five theses.
    pub(super) writer: Client,
    /// The attacker's own account: e-mail and password.
    pub(super) account: (String, String),
    /// The e-mail of the customer's account.
    pub(super) victim: String,
    pub(super) outcomes: Outcomes,
}

impl Target {
    /// Gives the attacker keys, an account, and a project with many words.
    pub(super) async fn prepare(service: &Service, connections: u64) -> Self {
        let searcher = service.project_on("week").await.test().await;
        let word = |number: usize| format!("x {}{:04} ", INITIALS[number % 3], number / 3);
        for part in 0..THESES_WITH_WORDS {
            let words: String = (part..WORDS).step_by(THESES_WITH_WORDS).map(word).collect();
            searcher.thesis("searcher", "WORDS", &words).await;
        }
        let writer = service.project_on("five").await.test().await;
        let person = service.owner().await.0;
        Self {
            http: service.http.clone(),
            grpc: service.grpc.clone(),
            connections,
            searcher,
            writer,
            account: (person.email, person.password),
            victim: String::new(),
            outcomes: Outcomes::default(),
        }
    }

    /// A copy for an attack beside a customer with this account, without results.
    pub(super) fn on(&self, victim: &str) -> Self {
        Self { victim: victim.to_owned(), outcomes: Outcomes::default(), ..self.clone() }
    }

    /// One connection over gRPC.
    pub(super) fn connect(&self) -> Channel {
        Endpoint::from_shared(self.grpc.clone()).unwrap().connect_lazy()
    }

    /// Sends requests until it is dropped, `at_once` at a time.
    pub(super) async fn keep_sending(&self, at_once: usize, request: impl Fn(u64) -> RequestBuilder) {
        let sending = stream::iter(0_u64..).map(|number| send(request(number))).buffer_unordered(at_once);
        sending.for_each(|outcome| async move { self.outcomes.add(&outcome, 1) }).await;
    }

    /// Makes calls until it is dropped, `at_once` at a time, and keeps their answers open.
    pub(super) async fn keep_calling<T, F>(&self, at_once: usize, call: impl Fn() -> F)
    where
        F: Future<Output = Result<T, Status>>,
    {
        let mut open = Vec::new();
        let calling = stream::iter(std::iter::repeat_with(call)).buffer_unordered(at_once);
        let keep = |answer: Result<T, Status>| {
            let code = answer.as_ref().err().map(|status| format!("{:?}", status.code()));
            self.outcomes.add(code.as_deref().unwrap_or("open"), 1);
            open.extend(answer);
            ready(())
        };
        calling.for_each(keep).await;
    }
}

/// Sends a request and reads its answer, so that the connection can carry another; gives the status.
async fn send(request: RequestBuilder) -> String {
    let Ok(answer) = request.send().await else { return "without an answer".to_owned() };
    let status = answer.status().as_u16();
    let _body = answer.bytes().await;
    status.to_string()
}
