//! Judges alerts: follows the logs whose theses they count, lets time go on, and appends each change of an alert's
//! progress to the log of its project and environment.
//!
//! The core that leads the shared log of an environment judges all alerts of that environment, since most of their
//! theses come through that log. What it does is a function of the logs and the times (`domain/alert/watch.rs`), and an
//! alert's log takes each revision of its progress once. So two cores that both judge for a moment do no harm: one of
//! them finds its change refused, and begins anew from the stored checkpoint.
//!
//! The checkpoint follows the appends. After a crash the entries behind it are read again, and alerts whose stored
//! progress is ahead are held until then. So each crossing is reported once, also one that a crash interrupted.

mod load;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use futures::{
    StreamExt as _,
    future::{BoxFuture, try_join_all},
    stream::FuturesUnordered,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use self::load::entry_thesis;
use crate::{
    domain::{
        alert::{Alert, AlertChange, AlertWatch, Crossing, EntryThesis},
        dataset::Dataset,
        row::Token,
        window::MINUTE_MS,
    },
    error::{Error, Result},
    log::datasets::Datasets,
    replicas::peers::Peers,
    shared::Shared,
    store::StoreError,
    tables::log::checkpoint_change,
};

/// Checkpoint: all alerts are judged by the entries up to here.
pub const JUDGED: &str = "alerts";
/// Checkpoint beside that of the shared log: alerts are judged up to this time, in unix milliseconds.
const JUDGED_AT: &str = "alerts_at";
/// Maximum number of entries that are judged before their changes are appended.
const PAGE: usize = 500;
/// A moved checkpoint is stored within this time. It is also the interval between two checks whether this core still
/// leads.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(1);
/// The time is stored at this interval while no log moves, in milliseconds. Reaching it again costs little.
const TIME_INTERVAL_MS: i64 = MINUTE_MS;
/// Pause after a failure, and while there is nothing to judge here.
const PAUSE: Duration = Duration::from_millis(500);

/// Judges the alerts of an environment whenever this core leads its shared log, until the core stops.
pub async fn follow(
    shared: Arc<Shared>,
    datasets: Arc<Datasets>,
    peers: Arc<Peers>,
    live: bool,
    stop: CancellationToken,
) {
    let following = async {
        loop {
            if is_needed(&shared, &peers, live) {
                let judge = Judge::begin(Arc::clone(&shared), Arc::clone(&datasets), live);
                let judging = async { judge.await?.run(&peers).await };
                if let Err(error) = judging.await {
                    tracing::warn!(live, %error, "judging alerts failed, trying again");
                }
            }
            sleep(PAUSE).await;
        }
    };
    stop.run_until_cancelled(following).await;
}

/// The shared dataset of an environment.
const fn shared_dataset(live: bool) -> Dataset {
    if live { Dataset::Live } else { Dataset::Sandbox }
}

fn is_needed(shared: &Shared, peers: &Peers, live: bool) -> bool {
    let has_any = shared.control.state().alerts().in_environment(live).next().is_some();
    has_any && peers.leads(shared_dataset(live).name())
}

/// Waits for the positions of logs to move. They are beside the [`Judge`], which tasks share by reference while it
/// appends: such waits cannot be shared.
type PositionMoves = FuturesUnordered<BoxFuture<'static, (Dataset, watch::Receiver<u64>, bool)>>;

struct Judge {
    shared: Arc<Shared>,
    datasets: Arc<Datasets>,
    live: bool,
    watch: AlertWatch,
    /// The followed logs, and their stored checkpoints.
    followed: BTreeMap<Dataset, u64>,
    /// The stored time.
    stored_at: i64,
    /// Logs with unread entries, and their positions.
    unread: Vec<(Dataset, watch::Receiver<u64>)>,
    /// Version of the rules and projects that are known, as numbers of changes.
    known: Option<(u64, u64)>,
    store_by: Instant,
}

impl Judge {
    /// Judges until this core leads no more, or has no alerts.
    async fn run(mut self, peers: &Peers) -> Result<()> {
        let mut control = self.shared.control.changes();
        let mut moves = PositionMoves::new();
        while is_needed(&self.shared, peers, self.live) {
            control.mark_unchanged();
            self.update_rules().await?;
            self.read_logs(&mut moves).await?;
            self.watch.advance(self.shared.clock.now_ms());
            self.append_changes().await?;
            let now = Instant::now();
            if now >= self.store_by {
                self.store_checkpoint().await?;
                self.store_by = now + CHECKPOINT_INTERVAL;
            }
            let due_in = self.watch.next_due().map(|due_at| due_at - self.shared.clock.now_ms());
            let due_in = due_in.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or_default()));
            let wait = due_in.map_or(CHECKPOINT_INTERVAL, |due_in| due_in.min(CHECKPOINT_INTERVAL));
            tokio::select! {
                Some(moved) = moves.next() => self.note_move(moved)?,
                Ok(()) = control.changed() => {}
                () = sleep(wait) => {}
            }
        }
        self.store_checkpoint().await
    }

    /// Follows the position of a log that is read up to `seq`, and whose checkpoint is `judged`.
    async fn follow_log(&mut self, dataset: &Dataset, seq: u64, judged: u64) -> Result<()> {
        let position = self.datasets.position(dataset).await?;
        self.watch.set_read(dataset.name(), seq);
        self.followed.insert(dataset.clone(), judged);
        self.unread.push((dataset.clone(), position));
        Ok(())
    }

    fn note_move(&mut self, (dataset, position, has_ended): (Dataset, watch::Receiver<u64>, bool)) -> Result<()> {
        if has_ended {
            return Err(StoreError::Unavailable(format!("log {dataset} is no longer followed")).into());
        }
        self.unread.push((dataset, position));
        Ok(())
    }

    /// Judges by the entries that the followed logs have beyond those that were read.
    async fn read_logs(&mut self, moves: &mut PositionMoves) -> Result<()> {
        while let Some((dataset, mut position)) = self.unread.pop() {
            let upto = *position.borrow_and_update();
            while self.watch.read_upto(dataset.name()) < upto {
                let after = self.watch.read_upto(dataset.name());
                let end = upto.min(after + PAGE as u64);
                let entries = self.shared.log.entries(dataset.name(), after, end).await?;
                for sequenced in &entries {
                    let thesis = entry_thesis(&sequenced.entry);
                    let thesis = thesis.as_ref().map(|(token, is_added, thesis)| EntryThesis {
                        token,
                        is_added: *is_added,
                        thesis,
                    });
                    self.watch.read(&dataset, sequenced.seq, sequenced.entry.created_at, thesis);
                }
                if entries.is_empty() {
                    return Err(StoreError::Unavailable(format!("log {dataset} ends before {end}")).into());
                }
                self.append_changes().await?;
            }
            moves.push(Box::pin(async move {
                let has_ended = position.changed().await.is_err();
                (dataset, position, has_ended)
            }));
        }
        Ok(())
    }

    /// Appends the changes that were found, and waits until they are durable and readable.
    async fn append_changes(&mut self) -> Result<()> {
        let mut changes = self.watch.take_changes();
        if changes.is_empty() {
            return Ok(());
        }
        self.refresh_tokens(&mut changes).await?;
        let appends = changes.into_iter().map(|(change, crossing)| self.append(change, crossing));
        // The changes of an alert come to its writer in order. A task without budget left would send some later.
        tokio::task::unconstrained(try_join_all(appends)).await.map(drop)
    }

    /// Puts the present rows of tokens into changes that are events: an event shows its token as it is then.
    async fn refresh_tokens(&self, changes: &mut [(AlertChange, Crossing)]) -> Result<()> {
        let mut known: HashMap<String, Token> = HashMap::new();
        for (AlertChange { alert, .. }, crossing) in changes {
            if *crossing == Crossing::None {
                continue;
            }
            if !known.contains_key(&alert.token.id) {
                let found = self.shared.theses.token(&alert.counted(), &alert.token.id).await?;
                let token = found.map_or_else(|| alert.token.clone(), |(_, token)| Arc::unwrap_or_clone(token));
                known.insert(token.id.clone(), token);
            }
            if let Some(token) = known.get(&alert.token.id) {
                alert.token.clone_from(token);
            }
        }
        Ok(())
    }

    async fn append(&self, change: AlertChange, crossing: Crossing) -> Result<()> {
        let (dataset, revision) = (change.alert.dataset(), change.progress.revision);
        let id = change.alert.id.clone();
        let is_appended = self.datasets.change_alert_here(&dataset, change, crossing).await?;
        // The log also refuses changes of an alert that was deleted meanwhile, with its progress.
        if is_appended || self.shared.control.state().alerts().get(&id).is_none() {
            return Ok(());
        }
        Err(Error::from(StoreError::Unavailable(format!("revision {revision} of {id} comes from another core"))))
    }

    /// Stores how far the alerts are judged. The time follows the positions: alerts may be judged again at earlier
    /// times with these entries, but not at later times without them.
    async fn store_checkpoint(&mut self) -> Result<()> {
        let (mut positions, at) = (Vec::new(), self.watch.at());
        for (dataset, stored) in &mut self.followed {
            let read = self.watch.read_upto(dataset.name());
            if read > *stored {
                positions.push(checkpoint_change(dataset.name(), JUDGED, read));
                *stored = read;
            }
        }
        if positions.is_empty() && at < self.stored_at.saturating_add(TIME_INTERVAL_MS) {
            return Ok(());
        }
        self.shared.backend.apply(positions).await?;
        let time = u64::try_from(at).unwrap_or_default();
        let time = checkpoint_change(shared_dataset(self.live).name(), JUDGED_AT, time);
        self.shared.backend.apply(vec![time]).await?;
        self.stored_at = at;
        Ok(())
    }

    /// The alerts of projects that may use them.
    fn wanted(&self) -> Vec<Arc<Alert>> {
        let state = self.shared.control.state();
        let is_usable = |alert: &&Arc<Alert>| {
            let project = state.project(&alert.project_id);
            project.is_some_and(|project| !project.archived && (!self.live || project.live_approved))
        };
        state.alerts().in_environment(self.live).filter(is_usable).cloned().collect()
    }
}
