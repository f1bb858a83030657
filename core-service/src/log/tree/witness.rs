//! Requests the cosignature of a checkpoint from one witness (C2SP `tlog-witness`).

use std::time::Duration;

use reqwest::{Client, Response, StatusCode, redirect::Policy, retry};
use rustls::RootCertStore;
use thesis_net::{backoff::Backoff, failure_log::FailureLog, tls::client_config};
use thesis_receipts::{AddCheckpoint, Note, ProofPlan, VerifierKey};
use tokio::time::Instant;
use url::Url;

use super::Trees;
use crate::{domain::dataset::Dataset, tables::signed_trees::SignedTree};

/// Time limit of a request. It is short, because no witness gets a newer checkpoint before.
pub(super) const TIMEOUT: Duration = Duration::from_secs(3);
/// Limits of the pause after a failure, so that a silent witness costs few requests.
const MIN_PAUSE: Duration = Duration::from_secs(10);
const MAX_PAUSE: Duration = Duration::from_mins(5);
/// Maximum size of a response.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// A witness that the operator has chosen.
#[derive(Clone, Debug)]
pub struct WitnessSettings {
    /// Its public key.
    pub key: VerifierKey,
    /// The prefix of its addresses.
    pub url: Url,
}

/// A cosignature with the name of its witness.
pub(super) struct Cosignature {
    pub(super) witness: String,
    /// The signature line for the note of the checkpoint.
    pub(super) line: String,
}

/// A witness as this core knows it.
pub(super) struct Witness {
    key: VerifierKey,
    url: String,
    http: Client,
    /// Size of the last checkpoint that it cosigned, as far as this core knows.
    cosigned_size: u64,
    /// True if its last request succeeded.
    pub(super) is_healthy: bool,
    backoff: Backoff,
    failure_log: FailureLog,
    /// It gets no request before this time.
    paused_until: Option<Instant>,
}

impl Witness {
    /// Creates clients of the witnesses, which share connections and trust the public certificate authorities.
    pub(super) fn all(settings: Vec<WitnessSettings>, timeout: Duration) -> Vec<Self> {
        let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        let http = Client::builder()
            .user_agent("trade-thesis")
            .tls_backend_preconfigured(client_config(roots))
            .redirect(Policy::none())
            .retry(retry::never())
            .referer(false)
            .no_proxy()
            .timeout(timeout)
            .build()
            .expect("its authorities are compiled in");
        let witness = |WitnessSettings { key, url }: WitnessSettings| Self {
            key,
            url: format!("{}/add-checkpoint", url.as_str().trim_end_matches('/')),
            http: http.clone(),
            cosigned_size: 0,
            is_healthy: false,
            backoff: Backoff::new(MIN_PAUSE, MAX_PAUSE),
            failure_log: FailureLog::default(),
            paused_until: None,
        };
        settings.into_iter().map(witness).collect()
    }

    /// True if a request for a tree of this size is due.
    pub(super) fn is_due(&self, size: u64) -> bool {
        self.cosigned_size != size && self.paused_until.is_none_or(|until| until <= Instant::now())
    }

    /// Requests a cosignature. After a failure the witness gets no request for a while.
    pub(super) async fn cosign(&mut self, trees: &Trees, dataset: &Dataset, tree: &SignedTree) -> Option<Cosignature> {
        let name = self.key.name().to_owned();
        let answer = self.ask(trees, dataset, tree).await;
        self.is_healthy = answer.is_ok();
        match answer {
            Ok(line) => {
                self.backoff.reset();
                self.paused_until = None;
                if self.failure_log.note_success() {
                    tracing::info!(%dataset, witness = name, "a witness cosigns again");
                }
                Some(Cosignature { witness: name, line })
            }
            Err(error) => {
                self.paused_until = Some(Instant::now() + self.backoff.next(trees.shared.ids.as_ref()));
                if self.failure_log.note_failure() {
                    tracing::warn!(%dataset, witness = name, error, "a witness does not cosign");
                }
                None
            }
        }
    }

    async fn ask(&mut self, trees: &Trees, dataset: &Dataset, tree: &SignedTree) -> Result<String, String> {
        let mut answer = self.send(trees, dataset, tree).await?;
        if answer.0 == StatusCode::CONFLICT {
            // The response names the size that the witness cosigned last, at the request of another core.
            self.cosigned_size = answer.1.trim().parse().map_err(|_| "it names no size".to_owned())?;
            answer = self.send(trees, dataset, tree).await?;
        }
        let (status, text) = answer;
        if status != StatusCode::OK {
            let reason: String = text.trim().chars().take(200).collect();
            return Err(format!("it answers {}: {reason}", status.as_u16()));
        }
        let line = text.lines().find(|line| self.is_cosignature(tree, line));
        let line = line.ok_or_else(|| "its answer has no cosignature by its key".to_owned())?;
        self.cosigned_size = tree.size;
        Ok(format!("{line}\n"))
    }

    async fn send(&self, trees: &Trees, dataset: &Dataset, tree: &SignedTree) -> Result<(StatusCode, String), String> {
        let old = self.cosigned_size;
        let plan = ProofPlan::consistency(old, tree.size);
        let plan = plan.ok_or_else(|| format!("it has cosigned {old} entries, and the log has {}", tree.size))?;
        let tiles = trees.tiles.read(dataset, &plan.tiles()).await.map_err(|error| error.to_string())?;
        let proof = plan.hashes(&tiles).ok_or_else(|| format!("the tree of {dataset} lacks tiles"))?;
        let body = AddCheckpoint { old, proof, checkpoint: tree.note.clone() }.to_string();
        let sent = self.http.post(&self.url).body(body).send().await;
        let response = sent.map_err(|error| error.to_string())?;
        let status = response.status();
        Ok((status, read(response).await?))
    }

    fn is_cosignature(&self, tree: &SignedTree, line: &str) -> bool {
        let Ok(signed) = Note::parse(&tree.note) else { return false };
        let note = format!("{}\n{line}\n", signed.text());
        Note::parse(&note).is_ok_and(|note| matches!(note.cosigned_at(&self.key), Ok(Some(_))))
    }
}

/// Reads a response up to a limit.
async fn read(mut response: Response) -> Result<String, String> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| error.to_string())? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MAX_RESPONSE_BYTES {
            return Err(format!("it answers with more than {MAX_RESPONSE_BYTES} bytes"));
        }
    }
    String::from_utf8(bytes).map_err(|_| "its answer is no text".to_owned())
}
