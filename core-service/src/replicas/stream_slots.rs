//! Places of open streams: a project has no more open than its plan allows, over all replicas together.
//!
//! A project's row holds the places that each replica has leased, and changes only by conditional writes. A replica
//! leases places before streams open on them: one for each opening that waits, and a block. So most openings and
//! closings need no store.
//!
//! Of the L places of a plan, each of N replicas may keep a share of L/8N without a stream, rounded down. The others
//! leave out as many when they count its places. A replica that leases has at most L places less those that it counts
//! at the others, so all have at most L + (N-1)·L/8N together. That is less than an eighth above L, and exactly L for
//! plans of fewer than 8N places. N counts the replicas that live, or those that the row names if these are more: of
//! two that do not know of each other yet, the second one finds the first one in the row, and leaves out the smaller
//! share.
//!
//! A block is larger than the share while many places are left, so that many streams come back with few leases. Its
//! rest goes back within two seconds after the last opening, and ten seconds after the lease at the latest. Until
//! then, and until the places of closed streams and of reduced shares are back, a replica may refuse a stream below
//! the limit.
//!
//! A lease ends with the replica's heartbeat. Others count the places of a silent replica for
//! [`GONE_MS`](super::members::GONE_MS), and the streams of a dead edge end with its session. An edge gives up a silent
//! core sooner than that. On the embedded store there is one replica, and its memory suffices.
//!
//! Replays of a project also take slots of a second kind, which a separate row counts.

mod lease;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use parking_lot::Mutex;
use thesis_proto::error::{ApiError, ErrorCode};
use tokio::{
    sync::{Notify, watch},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use self::lease::{Lease, State, share_of};
use crate::{
    error::{Error, Result},
    replicas::members::Members,
    store::{Consistency, SharedBackend, StoreError, StoreResult},
    tables::stream_slots::{self, CoreStreams, ProjectStreams},
};

/// Time for which closings are gathered into one change of a row.
const GATHER_TIME: Duration = Duration::from_millis(100);
/// Interval between two tries to give places back.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// Interval between two trims of leases.
const TRIM_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of tries to change a row while others change it.
const MAX_TRIES: usize = 20;
/// Maximum number of rows that are changed at the same time.
const MAX_PARALLEL: usize = 32;
/// Slots for streams per slot for a replay.
const STREAMS_PER_REPLAY: u32 = 4;
/// Suffix of a project's name in the row that counts the slots of its replays.
const REPLAYS: &str = "/replays";
/// Suffix of a project's name in the row that counts the live views of its members. Their limit is that of its keys.
pub const LIVE_VIEWS: &str = "/console";

/// The outcome of an intended change of a project's row.
enum RowChange {
    /// The row has this entry for this replica.
    Written(CoreStreams),
    /// The row does not change: the limit is reached.
    Full { open: u32 },
}

pub struct StreamSlots {
    backend: SharedBackend,
    members: Arc<Members>,
    state: Mutex<State>,
    closed: Notify,
}

/// The place of an open stream. Dropping it gives the place back.
pub struct StreamSlot {
    slots: Arc<StreamSlots>,
    project: Arc<str>,
    term: CancellationToken,
}

impl StreamSlot {
    /// True if the place is lost and the stream must end.
    pub fn is_lost(&self) -> bool {
        self.term.is_cancelled()
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut state = self.slots.state.lock();
        let Some(held) = state.projects.get_mut(&self.project) else { return };
        held.open = held.open.saturating_sub(1);
        if self.slots.backend.is_exclusive() {
            state.remove_unused(&self.project);
        } else if held.drop_surplus() {
            state.unsettled.insert(Arc::clone(&self.project));
            self.slots.closed.notify_one();
        }
    }
}

impl StreamSlots {
    /// Creates the places of this replica. It must write a heartbeat before it takes one.
    pub fn new(backend: SharedBackend, members: Arc<Members>) -> Arc<Self> {
        Arc::new(Self { backend, members, state: Mutex::default(), closed: Notify::new() })
    }

    /// Takes a place if fewer than `limit` of the project are open.
    pub async fn take_slot(self: &Arc<Self>, project: &str, limit: u32) -> Result<StreamSlot> {
        let project: Arc<str> = project.into();
        if self.backend.is_exclusive() {
            return self.take_alone(project, limit);
        }
        if let Some(slot) = self.take_leased(&project, limit) {
            return Ok(slot);
        }
        // In its own task, so that it is completed even when the caller has gone.
        let taking = Arc::clone(self).take_or_lease(project, limit);
        tokio::spawn(taking).await.map_err(Error::internal)?
    }

    /// Takes a slot for a replay of a project that may have this many streams.
    pub async fn take_replay_slot(self: &Arc<Self>, project: &str, streams: u32) -> Result<StreamSlot> {
        self.take_slot(&format!("{project}{REPLAYS}"), replay_limit(streams)).await
    }

    /// Takes a place where there is no other replica.
    fn take_alone(self: &Arc<Self>, project: Arc<str>, limit: u32) -> Result<StreamSlot> {
        let mut state = self.state.lock();
        let held = state.project(&project);
        if held.open >= limit {
            let open = held.open;
            state.remove_unused(&project);
            return Err(limit_reached(&project, limit, open));
        }
        held.open += 1;
        Ok(StreamSlot { slots: Arc::clone(self), project, term: self.members.term() })
    }

    /// Takes a place of the lease; none if it has none left, or must be renewed.
    fn take_leased(self: &Arc<Self>, project: &Arc<str>, limit: u32) -> Option<StreamSlot> {
        if self.members.is_late() {
            return None;
        }
        let mut state = self.state.lock();
        let held = state.projects.get_mut(project)?;
        let Lease { places, term, limit: leased_for, .. } = &held.lease;
        if held.open >= *places || *leased_for != limit || term.is_cancelled() {
            return None;
        }
        let term = term.clone();
        held.open += 1;
        held.lease.is_busy = true;
        Some(StreamSlot { slots: Arc::clone(self), project: Arc::clone(project), term })
    }

    async fn take_or_lease(self: Arc<Self>, project: Arc<str>, limit: u32) -> Result<StreamSlot> {
        let turn = {
            let mut state = self.state.lock();
            let held = state.project(&project);
            held.waiting += 1;
            Arc::clone(&held.turn)
        };
        let turn = turn.lock_owned().await;
        self.state.lock().project(&project).waiting -= 1;
        let taken = match self.take_leased(&project, limit) {
            Some(slot) => Ok(slot),
            None => self.lease_and_take(&project, limit).await,
        };
        drop(turn);
        if taken.is_err() {
            self.state.lock().remove_unused(&project);
        }
        taken
    }

    async fn lease_and_take(self: &Arc<Self>, project: &Arc<str>, limit: u32) -> Result<StreamSlot> {
        if self.members.is_late() {
            self.members.send_heartbeat().await?;
        }
        let term = self.members.term();
        let changed = self.change_row(project, Some(limit)).await;
        let mut state = self.state.lock();
        match changed {
            Ok(RowChange::Written(own)) => {
                state.project(project).open += 1;
                // A replica may have joined in the meantime.
                let share = own.share.min(share_of(limit, self.replicas(0)));
                let (places, own_term) = (own.places, term.clone());
                let lease = Lease { places, share, limit, is_busy: true, term: own_term, ..Lease::default() };
                if state.begin_lease(project, lease) {
                    self.closed.notify_one();
                }
                Ok(StreamSlot { slots: Arc::clone(self), project: Arc::clone(project), term })
            }
            Ok(RowChange::Full { open }) => Err(limit_reached(project, limit, open)),
            Err(error) => {
                // The row may have changed even so.
                state.unsettled.insert(Arc::clone(project));
                self.closed.notify_one();
                Err(error.into())
            }
        }
    }

    /// The number of a project's open streams, over all replicas. Of the others it counts the places without their
    /// shares. A closed stream counts until its replica has given its place back.
    pub async fn open(&self, project: &str) -> Result<u32> {
        let (open, is_settled) = {
            let state = self.state.lock();
            (state.projects.get(project).map_or(0, |held| held.open), !state.unsettled.contains(project))
        };
        if self.backend.is_exclusive() {
            return Ok(open);
        }
        let (_, row) = stream_slots::read(&self.backend, project, Consistency::Quorum).await?;
        let (own, others): (Vec<_>, Vec<_>) =
            row.cores.into_iter().partition(|held| held.replica == self.members.replica());
        let others = self.alive(others).await?;
        let own = if is_settled { open } else { open.max(counted(&own, u32::MAX)) };
        Ok(own + counted(&others, u32::MAX))
    }

    /// Writes the places of this replica to the project's row. With a `limit` it leases them for an opening, for those
    /// that wait, and a block; without one it gives back those that have left the lease. It writes the row even without
    /// a change: an earlier write in doubt then has no effect.
    async fn change_row(&self, project: &Arc<str>, limit: Option<u32>) -> StoreResult<RowChange> {
        let mut consistency = Consistency::Quorum;
        for again in 0..MAX_TRIES {
            let (version, row) = stream_slots::read(&self.backend, project, consistency).await?;
            let is_other = |held: &&CoreStreams| held.replica != self.members.replica();
            let mut cores: Vec<CoreStreams> = row.cores.iter().filter(is_other).cloned().collect();
            if limit.is_some() && cores.len() > self.members.others().borrow().len() {
                // Entries of dead replicas would make the share smaller.
                cores = self.alive(cores).await?;
            }
            let mut planned = self.plan_places(project, limit, &cores);
            if planned.is_err() {
                cores = self.alive(cores).await?;
                planned = self.plan_places(project, limit, &cores);
            }
            let own = match planned {
                Ok(own) => own,
                Err(open) => return Ok(RowChange::Full { open }),
            };
            if own.places > 0 {
                cores.push(own.clone());
            }
            cores.sort_unstable_by(|one, other| one.replica.cmp(&other.replica));
            if again > 0 && cores == row.cores {
                return Ok(RowChange::Written(own));
            }
            match stream_slots::replace(&self.backend, project, version, &ProjectStreams { cores }).await {
                Ok(true) => return Ok(RowChange::Written(own)),
                // Only this replica writes its entry, so the row shows whether a write in doubt was done.
                Ok(false) | Err(StoreError::InDoubt(_)) => consistency = Consistency::Serial,
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::Unavailable("a project's stream slots are in too much demand".to_owned()))
    }

    /// The number of replicas, if the row names all others.
    fn replicas(&self, others_in_row: usize) -> u32 {
        let others = self.members.others().borrow().len().max(others_in_row);
        u32::try_from(others).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// The entry that this replica should have in the row, beside those of the `others`. Returns the number of open
    /// streams as the error if `limit` allows no more.
    fn plan_places(
        &self,
        project: &Arc<str>,
        limit: Option<u32>,
        others: &[CoreStreams],
    ) -> std::result::Result<CoreStreams, u32> {
        let (replica, replicas) = (self.members.replica().to_owned(), self.replicas(others.len()));
        let mut state = self.state.lock();
        let held = state.project(project);
        let Some(limit) = limit else {
            return Ok(CoreStreams { replica, places: held.lease.places, share: held.lease.share });
        };
        let share = share_of(limit, replicas);
        let open = held.open.saturating_add(counted(others, share));
        if open >= limit {
            return Err(open);
        }
        let left = limit - open;
        // If each replica takes such a part in turn, a third of the places is left. One that has streams takes half as
        // much again, so that fewer leases fill a plan.
        let part = left / replicas.saturating_add(1);
        let part = if held.open == 0 { part } else { part + part / 2 };
        let block = if share == 0 { 0 } else { share.max(part) };
        let places = held.open + left.min(1 + held.waiting + block);
        // Places leave the lease before they leave the row, and enter it afterwards.
        held.lease.places = held.lease.places.min(places - 1);
        Ok(CoreStreams { replica, places, share })
    }

    /// Of the entries of other replicas, those of replicas that live now.
    async fn alive(&self, mut others: Vec<CoreStreams>) -> StoreResult<Vec<CoreStreams>> {
        if !others.is_empty() {
            self.members.read_beats(others.iter().map(|held| &held.replica)).await?;
            others.retain(|held| self.members.may_live(&held.replica));
        }
        Ok(others)
    }

    /// Gives back places of every project that has too many of them.
    async fn settle_rows(&self) {
        let unsettled = std::mem::take(&mut self.state.lock().unsettled);
        let settling = stream::iter(unsettled).for_each_concurrent(MAX_PARALLEL, |project| async move {
            let turn = Arc::clone(&self.state.lock().project(&project).turn);
            let turn = turn.lock_owned().await;
            let changed = self.change_row(&project, None).await;
            drop(turn);
            let mut state = self.state.lock();
            if let Err(error) = changed {
                tracing::debug!(%error, %project, "giving back stream slots failed, trying again");
                state.unsettled.insert(project);
            } else {
                state.remove_unused(&project);
            }
        });
        settling.await;
    }

    /// Reduces the shares of leases after the number of replicas or a plan has changed.
    fn reduce_shares(&self, limit_of: impl Fn(&str) -> Option<u32>) {
        let projects: Vec<Arc<str>> = self.state.lock().projects.keys().cloned().collect();
        let replicas = self.replicas(0);
        for project in projects {
            let replays_of = project.strip_suffix(REPLAYS);
            let name = replays_of.unwrap_or(&project);
            let limit = limit_of(name.strip_suffix(LIVE_VIEWS).unwrap_or(name));
            let limit = if replays_of.is_some() { limit.map(replay_limit) } else { limit };
            if let Some(limit) = limit {
                self.state.lock().reduce_share(&project, share_of(limit, replicas));
            }
        }
    }

    /// Gives back places of closed streams and the rests of blocks; never ends. `changes` are changes of plans, and
    /// `limit_of` returns the limit of a project that has one.
    pub async fn run(&self, mut changes: watch::Receiver<u64>, limit_of: impl Fn(&str) -> Option<u32>) {
        let settling = async {
            loop {
                let is_settled = self.state.lock().unsettled.is_empty();
                if is_settled {
                    self.closed.notified().await;
                }
                sleep(if is_settled { GATHER_TIME } else { RETRY_INTERVAL }).await;
                self.settle_rows().await;
            }
        };
        let trimming = async {
            let mut others = self.members.others();
            loop {
                sleep(TRIM_INTERVAL).await;
                let have_changed = others.has_changed().unwrap_or(false) || changes.has_changed().unwrap_or(false);
                others.mark_unchanged();
                changes.mark_unchanged();
                if have_changed {
                    self.reduce_shares(&limit_of);
                }
                let mut state = self.state.lock();
                state.trim_blocks();
                if !state.unsettled.is_empty() {
                    self.closed.notify_one();
                }
            }
        };
        tokio::join!(settling, trimming);
    }
}

/// The number of places at some replicas of which each may keep `share` without a stream.
fn counted(cores: &[CoreStreams], share: u32) -> u32 {
    let places = cores.iter().map(|held| held.places.saturating_sub(held.share.min(share)));
    places.fold(0, u32::saturating_add)
}

/// Returns the number of slots for replays of a project that may have this many streams: a quarter, and at least one.
fn replay_limit(streams: u32) -> u32 {
    (streams / STREAMS_PER_REPLAY).max(1)
}

fn limit_reached(project: &str, limit: u32, open: u32) -> Error {
    crate::metrics::LIMITS.at("streams").increment(1);
    let what = if project.ends_with(REPLAYS) { "replays" } else { "streams" };
    let message = format!("the plan allows {limit} concurrent {what} per project; close one, or ask for another plan");
    let details = serde_json::json!({ "limit": limit, "open": open });
    ApiError::new(ErrorCode::StreamLimitReached, message).with_details(details).with_retry_after(5).into()
}
