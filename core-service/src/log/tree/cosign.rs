//! Gets the cosignatures of witnesses for the checkpoints of a log.
//!
//! The core that leads a log sends the newest checkpoint to all witnesses at the same time. It stores the checkpoint
//! with its cosignatures in a separate row, beside the newest checkpoint, and adds each one when it arrives. The
//! core continues to sign while it waits, so a silent witness delays no checkpoint. Nor does it delay the others: each
//! round sends the newest checkpoint to all witnesses that have ended their last request.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{
    Trees,
    witness::{Cosignature, Witness, WitnessSettings},
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
    let mut rounds = CosigningRounds::new(trees, dataset, witnesses);
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
}

/// The rounds of one log.
pub(super) struct CosigningRounds {
    trees: Arc<Trees>,
    dataset: Dataset,
    /// The witnesses that have no request now.
    witnesses: Vec<Witness>,
    /// The requests to the others.
    responses: FuturesUnordered<BoxFuture<'static, WitnessResponse>>,
    /// The newest cosigned checkpoint, if there is one. The outer option is none until it is read.
    cosigned: Option<Option<VersionedTree>>,
}

impl CosigningRounds {
    pub(super) fn new(trees: Arc<Trees>, dataset: Dataset, witnesses: Vec<WitnessSettings>) -> Self {
        let (witnesses, responses) = (Witness::all(witnesses), FuturesUnordered::new());
        Self { trees, dataset, witnesses, responses, cosigned: None }
    }

    /// Requests cosignatures of the newest checkpoint, and stores those that arrive before the end of the round. A
    /// request that is still open then goes on, and its cosignature is stored in a later round.
    pub(super) async fn run(&mut self, round_end: Instant) -> StoreResult<()> {
        self.request().await?;
        while let Ok(Some(response)) = timeout_at(round_end, self.responses.next()).await {
            self.witnesses.push(response.witness);
            if let Some(cosignature) = response.cosignature {
                self.store(response.tree, &cosignature).await?;
            }
        }
        Ok(())
    }

    /// Sends the newest checkpoint to the witnesses that have no request now and have not cosigned it.
    async fn request(&mut self) -> StoreResult<()> {
        let Some(tree) = self.trees.signed(&self.dataset).await? else { return Ok(()) };
        for mut witness in self.witnesses.extract_if(.., |witness| witness.is_due(tree.size)) {
            let (trees, dataset, tree) = (Arc::clone(&self.trees), self.dataset.clone(), tree.clone());
            let response = async move {
                let cosignature = witness.cosign(&trees, &dataset, &tree).await;
                WitnessResponse { witness, tree, cosignature }
            };
            self.responses.push(response.boxed());
        }
        Ok(())
    }

    async fn store(&mut self, tree: SignedTree, cosignature: &Cosignature) -> StoreResult<()> {
        let (backend, dataset) = (&self.trees.shared.backend, &self.dataset);
        let log = self.trees.log_name(dataset);
        let before = match self.cosigned.take() {
            Some(before) => before,
            None => signed_trees::read_cosigned(backend, dataset, &log, Consistency::Serial).await?,
        };
        let version = before.as_ref().map(|(version, _)| *version);
        let note = match before {
            // Another core has stored a newer one.
            Some((_, newer)) if newer.size > tree.size => return Ok(()),
            Some((_, same)) if (same.size, &same.key) == (tree.size, &tree.key) => {
                without_replaced(&same.note, cosignature)
            }
            _ => tree.note,
        };
        let tree = SignedTree { note: note + &cosignature.line, ..tree };
        if signed_trees::replace_cosigned(backend, dataset, &log, version, &tree).await? {
            self.cosigned = Some(Some((version.unwrap_or(0) + 1, tree)));
        }
        Ok(())
    }
}

/// A note without the cosignature that a newer one of the same witness replaces.
fn without_replaced(note: &str, newer: &Cosignature) -> String {
    let begin = format!("\u{2014} {} ", newer.witness);
    note.split_inclusive('\n').filter(|line| !line.starts_with(&begin)).collect()
}
