//! Follows a log: adds the leaves of its entries to the tree, and signs the tree.

use std::{sync::Arc, time::Duration};

use thesis_receipts::{Checkpoint, GrowingTree};
use tokio::{task::yield_now, time::sleep};
use tokio_util::sync::CancellationToken;

use super::Trees;
use crate::{
    domain::{dataset::Dataset, evidence::leaf},
    log::datasets::Datasets,
    replicas::peers::Peers,
    store::{Consistency, StoreError, StoreResult},
    tables::signed_trees::{self, SignedTree, VersionedTree},
};

/// Interval of the rounds, and so the minimum time between two checkpoints that this core signs.
const ROUND_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum time between a checkpoint of another core and the next one, in milliseconds.
const SIGNING_INTERVAL_MS: i64 = 1_000;
/// Pause after the tree contradicted its checkpoint. It is long, because no retry mends that.
const CONTRADICTION_PAUSE: Duration = Duration::from_mins(1);
/// Maximum number of entries that are read at once.
const PAGE: usize = 1_000;
/// Number of entries after which a catch-up stores the tiles, so that a later one continues there. Each write also
/// stores the unfinished tiles at the right edge, which a smaller number would do several times in a busy second.
const STORE_INTERVAL: u64 = 10_000;
/// Number of entries between two log lines of a long catch-up.
const PROGRESS_INTERVAL: u64 = 100_000;

/// The reason for which a tree does not grow.
#[derive(Debug, thiserror::Error)]
pub(super) enum TreeError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the tree of {log} has another root at size {size} than its signed checkpoint, so it is not signed again")]
    Contradiction { log: String, size: u64 },
}

/// Builds and signs the tree of a dataset while this core leads its log, until the core stops.
pub async fn follow(
    trees: Arc<Trees>,
    datasets: Arc<Datasets>,
    peers: Arc<Peers>,
    dataset: Dataset,
    stop: CancellationToken,
) {
    let following = async {
        let position = loop {
            match datasets.position(&dataset).await {
                Ok(position) => break position,
                Err(error) => tracing::debug!(%dataset, %error, "reading how far a log reaches failed, trying again"),
            }
            sleep(ROUND_INTERVAL).await;
        };
        let mut follower = TreeFollower::new(trees, dataset, PROGRESS_INTERVAL);
        loop {
            let upto = *position.borrow();
            if !peers.leads(follower.dataset.name()) {
                follower.forget();
            } else if let Err(error) = follower.advance(upto).await {
                follower.forget();
                let dataset = &follower.dataset;
                match error {
                    TreeError::Store(error) => tracing::warn!(%dataset, %error, "a tree does not grow, trying again"),
                    TreeError::Contradiction { .. } => {
                        tracing::error!(%dataset, %error, "a tree contradicts its checkpoint");
                        sleep(CONTRADICTION_PAUSE).await;
                    }
                }
            }
            sleep(ROUND_INTERVAL).await;
        }
    };
    stop.run_until_cancelled(following).await;
}

/// The tree of a dataset as far as this core knows it.
pub(super) struct TreeFollower {
    trees: Arc<Trees>,
    dataset: Dataset,
    /// None until the stored tiles are read, and after an error.
    tree: Option<GrowingTree>,
    /// The last checkpoint. None until it is read, or if there is none.
    signed: Option<VersionedTree>,
    /// True if the root in the last checkpoint is that of this tree at the same size.
    is_checked: bool,
    /// True if the last checkpoint was signed by this follower.
    is_own: bool,
    /// True if the store lists the key of this core.
    is_listed: bool,
    /// Number of entries between two log lines of a long catch-up.
    progress_interval: u64,
}

impl TreeFollower {
    pub(super) fn new(trees: Arc<Trees>, dataset: Dataset, progress_interval: u64) -> Self {
        let (is_checked, is_own, is_listed) = (false, false, false);
        Self { trees, dataset, tree: None, signed: None, is_checked, is_own, is_listed, progress_interval }
    }

    /// Forgets tree and checkpoint, since another core may continue them.
    pub(super) fn forget(&mut self) {
        (self.tree, self.signed) = (None, None);
    }

    /// Adds the entries up to `upto`, and signs the tree if it has grown. After an error, call [`Self::forget`].
    pub(super) async fn advance(&mut self, upto: u64) -> Result<(), TreeError> {
        let mut tree = match self.tree.take() {
            Some(tree) => tree,
            None => self.load_tree().await?,
        };
        self.grow(&mut tree, upto).await?;
        self.sign(&tree).await?;
        self.tree = Some(tree);
        Ok(())
    }

    async fn load_tree(&self) -> StoreResult<GrowingTree> {
        let (dataset, tiles) = (&self.dataset, &self.trees.tiles);
        let size = tiles.size(dataset).await?;
        let stored = tiles.read(dataset, &GrowingTree::tiles_of(size)).await?;
        Ok(GrowingTree::from_tiles(size, &stored).unwrap_or_else(|| {
            tracing::warn!(%dataset, size, "the tree of a log lacks tiles, so it is built again");
            GrowingTree::default()
        }))
    }

    async fn grow(&self, tree: &mut GrowingTree, upto: u64) -> StoreResult<()> {
        let (dataset, log) = (&self.dataset, &self.trees.shared.log);
        let interval = self.progress_interval;
        let is_long = upto.saturating_sub(tree.size()) >= interval;
        let mut stored = tree.size();
        while tree.size() < upto {
            let before = tree.size();
            for (seq, entry) in log.read(dataset.name(), before, upto, PAGE).await? {
                let leaf = leaf(dataset.name(), seq, &entry);
                tree.push(leaf.map_err(|error| StoreError::Damaged(format!("log entry {seq}: {error}")))?);
            }
            if tree.size() == before {
                return Err(StoreError::Unavailable(format!("log {dataset} could not be read up to {upto}")));
            }
            if tree.size() == upto || tree.size() - stored >= STORE_INTERVAL {
                self.trees.tiles.write(dataset, tree.size(), tree.take_changed()).await?;
                stored = tree.size();
            }
            if is_long && before / interval != tree.size() / interval {
                tracing::info!(%dataset, entries = tree.size(), of = upto, "building the tree of a log");
            }
            // The newest entries are in memory, where a read waits for nothing.
            yield_now().await;
        }
        Ok(())
    }

    /// Signs the tree if it has grown, unless another core signed it within a second.
    async fn sign(&mut self, tree: &GrowingTree) -> Result<(), TreeError> {
        if self.signed.is_none() {
            self.load_signed().await?;
        }
        let now_ms = self.trees.shared.clock.now_ms();
        if let Some((_, signed)) = &self.signed {
            if signed.size > tree.size() {
                // Another core is ahead and may sign more, so the next round reads its checkpoint again.
                self.signed = None;
                return Ok(());
            }
            if !self.is_checked {
                let size = signed.size;
                if self.trees.root_at(&self.dataset, size).await?[..] != signed.root[..] {
                    return Err(TreeError::Contradiction { log: self.trees.log_name(&self.dataset), size });
                }
                self.is_checked = true;
            }
            let is_recent = !self.is_own && (0..SIGNING_INTERVAL_MS).contains(&(now_ms - signed.at));
            let is_current = signed.size == tree.size() && signed.key == self.own_key();
            if is_current || is_recent {
                return Ok(());
            }
        }
        self.store_signed(tree, now_ms).await?;
        Ok(())
    }

    /// The public key of this core. After a change of the key the tree is signed again even if it has not grown, so
    /// that statements need one key only.
    fn own_key(&self) -> String {
        self.trees.verifier(&self.dataset).to_string()
    }

    async fn load_signed(&mut self) -> StoreResult<()> {
        let (backend, dataset) = (&self.trees.shared.backend, &self.dataset);
        let log = self.trees.log_name(dataset);
        // A quorum read could miss a checkpoint whose write timed out, and this core could sign another tree of its
        // size.
        self.signed = signed_trees::read(backend, dataset, &log, Consistency::Serial).await?;
        let own = self.own_key();
        let keys = signed_trees::keys(backend, dataset, &log, Consistency::Serial).await?;
        self.is_listed = keys.iter().any(|key| key.key == own);
        (self.is_checked, self.is_own) = (false, false);
        Ok(())
    }

    /// Signs the tree and stores the checkpoint in place of the last one. If another core was faster, its checkpoint is
    /// read in the next round.
    async fn store_signed(&mut self, tree: &GrowingTree, now_ms: i64) -> StoreResult<()> {
        let (trees, dataset) = (&self.trees, &self.dataset);
        let log = trees.log_name(dataset);
        let checkpoint = Checkpoint { origin: log.clone(), size: tree.size(), root: tree.root() };
        let text = checkpoint.to_string();
        let signed = SignedTree {
            size: checkpoint.size,
            root: checkpoint.root.to_vec(),
            note: format!("{text}\n{}", trees.key.sign(&log, &text)),
            key: self.own_key(),
            at: now_ms,
        };
        let before = self.signed.take().map(|(version, _)| version);
        let backend = &trees.shared.backend;
        if signed_trees::replace(backend, dataset, &log, before, &signed, !self.is_listed).await? {
            self.signed = Some((before.unwrap_or(0) + 1, signed));
            (self.is_checked, self.is_own, self.is_listed) = (true, true, true);
        }
        Ok(())
    }
}
