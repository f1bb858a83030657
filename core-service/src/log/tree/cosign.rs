//! Gets the cosignatures of witnesses for the checkpoints of a log.
//!
//! The core that leads a log sends the newest checkpoint to all witnesses at the same time. It stores the checkpoint
//! with the received cosignatures in a separate row, beside the newest checkpoint. The core continues to sign while it
//! waits, so a silent witness delays no checkpoint.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use tokio::time::sleep;
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
    let mut round = CosigningRound::new(trees, dataset, witnesses);
    let working = async {
        loop {
            sleep(ROUND_INTERVAL).await;
            if !peers.leads(round.dataset.name()) {
                round.cosigned = None;
            } else if let Err(error) = round.run().await {
                round.cosigned = None;
                tracing::warn!(dataset = %round.dataset, %error, "cosignatures are not stored, trying again");
            }
        }
    };
    stop.run_until_cancelled(working).await;
}

/// The rounds of one log.
pub(super) struct CosigningRound {
    trees: Arc<Trees>,
    dataset: Dataset,
    witnesses: Vec<Witness>,
    /// The newest cosigned checkpoint, if there is one. The outer option is none until it is read.
    cosigned: Option<Option<VersionedTree>>,
}

impl CosigningRound {
    pub(super) fn new(trees: Arc<Trees>, dataset: Dataset, witnesses: Vec<WitnessSettings>) -> Self {
        Self { trees, dataset, witnesses: Witness::all(witnesses), cosigned: None }
    }

    /// Requests cosignatures of the newest checkpoint, and stores the received ones.
    pub(super) async fn run(&mut self) -> StoreResult<()> {
        let (trees, dataset): (&Trees, &Dataset) = (&self.trees, &self.dataset);
        let Some(tree) = trees.signed(dataset).await? else { return Ok(()) };
        let due = self.witnesses.iter_mut().filter(|witness| witness.is_due(tree.size));
        let requests = due.map(|witness| witness.cosign(trees, dataset, &tree));
        let cosignatures: Vec<Cosignature> = join_all(requests).await.into_iter().flatten().collect();
        if cosignatures.is_empty() {
            return Ok(());
        }
        self.store(tree, &cosignatures).await
    }

    async fn store(&mut self, tree: SignedTree, cosignatures: &[Cosignature]) -> StoreResult<()> {
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
                without_replaced(&same.note, cosignatures)
            }
            _ => tree.note,
        };
        let note = cosignatures.iter().fold(note, |note, cosignature| note + &cosignature.line);
        let tree = SignedTree { note, ..tree };
        if signed_trees::replace_cosigned(backend, dataset, &log, version, &tree).await? {
            self.cosigned = Some(Some((version.unwrap_or(0) + 1, tree)));
        }
        Ok(())
    }
}

/// A note without the cosignatures that newer ones replace.
fn without_replaced(note: &str, newer: &[Cosignature]) -> String {
    let is_replaced = |line: &str| {
        let mut witnesses = newer.iter().map(|cosignature| format!("\u{2014} {} ", cosignature.witness));
        witnesses.any(|begin| line.starts_with(&begin))
    };
    note.split_inclusive('\n').filter(|line| !is_replaced(line)).collect()
}
