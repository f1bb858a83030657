//! Gets the cosignatures of witnesses for the checkpoints of a log.
//!
//! The core that leads a log sends the newest checkpoint to all witnesses at the same time. It stores the checkpoint
//! with its cosignatures in a separate row, beside the newest checkpoint. The row changes, and the next checkpoint is
//! sent, once all healthy witnesses have answered, so a slow witness cosigns the same checkpoints as the fast ones. The
//! core continues to sign while it waits, and waits for no witness whose last request failed.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{
    Trees,
    witness::{self, Cosignature, Witness, WitnessSettings},
};
use crate::{
    domain::dataset::Dataset,
    replicas::peers::Peers,
    store::{Consistency, StoreResult},
    tables::signed_trees::{self, SignedTree, VersionedTree},
};

/// Interval of the rounds of requests.
const ROUND_INTERVAL: Duration = Duration::from_secs(1);

/// Gets cosignatures for a dataset's log while this core leads it, until the core stops.
pub async fn cosign(
    trees: Arc<Trees>,
    peers: Arc<Peers>,
    dataset: Dataset,
    witnesses: Vec<WitnessSettings>,
    stop: CancellationToken,
) {
    let mut rounds = CosigningRounds::new(trees, dataset, witnesses, witness::TIMEOUT);
    let working = async {
        loop {
            let round_end = Instant::now() + ROUND_INTERVAL;
            if !peers.leads(rounds.dataset.name()) {
                rounds.cosigned = None;
            } else if let Err(error) = rounds.run(round_end).await {
                rounds.cosigned = None;
                tracing::warn!(dataset = %rounds.dataset, %error, "cosignatures are not stored, trying again");
            }
            sleep_until(round_end).await;
        }
    };
    stop.run_until_cancelled(working).await;
}

/// The end of a request to a witness.
struct WitnessResponse {
    witness: Witness,
    /// The checkpoint that it got.
    tree: SignedTree,
    cosignature: Option<Cosignature>,
    /// True if the witness was healthy when it got the request.
    is_awaited: bool,
}

/// The rounds of one log.
pub(super) struct CosigningRounds {
    trees: Arc<Trees>,
    dataset: Dataset,
    /// The witnesses that have no request now.
    witnesses: Vec<Witness>,
    /// The requests to the others.
    responses: FuturesUnordered<BoxFuture<'static, WitnessResponse>>,
    /// Number of these requests that the next checkpoint waits for.
    awaited: usize,
    /// The checkpoint that was sent last.
    tree: Option<SignedTree>,
    /// The cosignatures of that checkpoint that are not stored yet.
    arrived: Vec<Cosignature>,
    /// The newest cosigned checkpoint, if there is one. The outer option is none until it is read.
    cosigned: Option<Option<VersionedTree>>,
}

impl CosigningRounds {
    /// Rounds in which a request may take as long as `timeout`.
    pub(super) fn new(trees: Arc<Trees>, dataset: Dataset, witnesses: Vec<WitnessSettings>, timeout: Duration) -> Self {
        let (witnesses, responses) = (Witness::all(witnesses, timeout), FuturesUnordered::new());
        Self { trees, dataset, witnesses, responses, awaited: 0, tree: None, arrived: Vec::new(), cosigned: None }
    }

    /// Requests cosignatures of the newest checkpoint, unless the last one waits for healthy witnesses. Stores the
    /// cosignatures once no healthy witness is missing; if the round ends before, a later round stores them.
    pub(super) async fn run(&mut self, round_end: Instant) -> StoreResult<()> {
        if self.awaited == 0 {
            self.request().await?;
        }
        loop {
            if self.awaited == 0 {
                self.store().await?;
            }
            match timeout_at(round_end, self.responses.next()).await {
                Ok(Some(response)) => self.collect(response),
                Ok(None) | Err(_) => return Ok(()),
            }
        }
    }

    /// Sends the newest checkpoint to the witnesses that have no request now and have not cosigned it.
    async fn request(&mut self) -> StoreResult<()> {
        let Some(tree) = self.trees.signed(&self.dataset).await? else { return Ok(()) };
        for mut witness in self.witnesses.extract_if(.., |witness| witness.is_due(tree.size)) {
            let (trees, dataset, tree) = (Arc::clone(&self.trees), self.dataset.clone(), tree.clone());
            let is_awaited = witness.is_healthy;
            self.awaited += usize::from(is_awaited);
            let response = async move {
                let cosignature = witness.cosign(&trees, &dataset, &tree).await;
                WitnessResponse { witness, tree, cosignature, is_awaited }
            };
            self.responses.push(response.boxed());
        }
        if self.tree.as_ref() != Some(&tree) {
            self.arrived.clear();
            self.tree = Some(tree);
        }
        Ok(())
    }

    fn collect(&mut self, response: WitnessResponse) {
        let WitnessResponse { witness, tree, cosignature, is_awaited } = response;
        self.witnesses.push(witness);
        self.awaited -= usize::from(is_awaited);
        // A witness that nobody waited for may have cosigned an earlier checkpoint. From now on it is healthy.
        if self.tree.as_ref() == Some(&tree) {
            self.arrived.extend(cosignature);
        }
    }

    /// Stores the cosignatures that have arrived, with their checkpoint.
    async fn store(&mut self) -> StoreResult<()> {
        let Some(tree) = self.tree.clone().filter(|_| !self.arrived.is_empty()) else { return Ok(()) };
        let (backend, dataset) = (&self.trees.shared.backend, &self.dataset);
        let log = self.trees.log_name(dataset);
        let before = match self.cosigned.take() {
            Some(before) => before,
            None => signed_trees::read_cosigned(backend, dataset, &log, Consistency::Serial).await?,
        };
        let version = before.as_ref().map(|(version, _)| *version);
        let note = match before {
            // Another core has stored a newer one.
            Some((_, newer)) if newer.size > tree.size => {
                self.arrived.clear();
                return Ok(());
            }
            Some((_, same)) if (same.size, &same.key) == (tree.size, &tree.key) => same.note,
            _ => tree.note,
        };
        let add = |note: String, new: &Cosignature| without_replaced(&note, new) + &new.line;
        let tree = SignedTree { note: self.arrived.iter().fold(note, add), ..tree };
        if signed_trees::replace_cosigned(backend, dataset, &log, version, &tree).await? {
            self.cosigned = Some(Some((version.unwrap_or(0) + 1, tree)));
            self.arrived.clear();
        }
        Ok(())
    }
}

/// A note without the cosignature that a newer one of the same witness replaces.
fn without_replaced(note: &str, newer: &Cosignature) -> String {
    let begin = format!("\u{2014} {} ", newer.witness);
    note.split_inclusive('\n').filter(|line| !line.starts_with(&begin)).collect()
}
