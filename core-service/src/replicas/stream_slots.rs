//! Places of open streams: a project has no more open than its plan allows, over all replicas together.
//!
//! A project's row holds the places that each replica has leased, and changes only by conditional writes. A replica
//! leases places before streams open on them: one for each opening that waits, and a share in advance. So most openings
//! and closings need no store. The shares of all replicas together are an eighth of the limit. Below eight places for
//! each replica there is no share, and the limit is exact.
//!
//! The row has each replica's share beside its places, and the difference is the number of streams that are certainly
//! open: a replica with fewer gives places back. A replica refuses a stream when its own streams and those that are
//! certainly open at the others reach the limit. So it refuses none below the limit, once the places of closed streams
//! are back, and more than the limit are open only where others use their shares: at most an eighth more. A replica
//! that joins has its share at once, and the others reduce theirs with their next leases. Until then each doubling of
//! the replicas may add another eighth. One replica alone is exact.
//!
//! A lease ends with the replica's heartbeat. Others count the places of a silent replica for
//! [`GONE_MS`](super::members::GONE_MS), and the streams of a dead edge end with its session. An edge gives up a silent
//! core sooner than that.
//!
//! On the embedded store there is one replica, and its memory suffices.

#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt as _, stream};
use parking_lot::Mutex;
use thesis_proto::error::{ApiError, ErrorCode};
use tokio::{sync::Notify, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    error::{Error, Result},
    replicas::members::Members,
    store::{Consistency, SharedBackend, StoreError, StoreResult},
    tables::stream_slots::{self, CoreStreams, ProjectStreams},
};

/// Part of a limit that the replicas lease in advance, all together: an eighth.
const SHARED_PART: u32 = 8;
/// Time for which closings are gathered into one change of a row.
const GATHER_TIME: Duration = Duration::from_millis(100);
/// Interval between two tries to give places back.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum number of tries to change a row while others change it.
const MAX_TRIES: usize = 20;
/// Maximum number of rows that are changed at the same time.
const MAX_PARALLEL: usize = 32;

/// The places of a project that this replica may give to streams without the store.
#[derive(Debug, Default)]
struct Lease {
    /// Number of places, with those of open streams. The row never counts fewer.
    places: u32,
    /// How many of them may be without a stream; when more are, places go back.
    share: u32,
    /// The plan's limit when the places were leased. Another limit needs another lease.
    limit: u32,
    /// The lease ends when this is cancelled.
    term: CancellationToken,
}

#[derive(Debug, Default)]
struct Project {
    open: u32,
    lease: Lease,
    /// Number of openings that wait for their turn. The next change of the row is for them too.
    waiting: u32,
    /// Lock for one change of the row at a time.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Project {
    /// Drops places that are not needed from the lease. Returns whether there were any.
    fn drop_surplus(&mut self) -> bool {
        let (needed, Lease { places, share, .. }) = (self.open + self.waiting, &mut self.lease);
        let is_surplus = needed == 0 || needed + *share < *places;
        if is_surplus {
            // Half of the share stays, so that neither the next opening nor the next closing changes the row.
            *places = if needed == 0 { 0 } else { needed + *share / 2 };
        }
        is_surplus
    }
}

#[derive(Debug, Default)]
struct State {
    projects: HashMap<Arc<str>, Project>,
    /// Projects whose row may count more places than are leased, or whose lease is too large.
    unsettled: HashSet<Arc<str>>,
}

impl State {
    fn project(&mut self, project: &Arc<str>) -> &mut Project {
        self.projects.entry(Arc::clone(project)).or_default()
    }

    /// Removes a project that has no stream and no places here.
    fn remove_unused(&mut self, project: &str) {
        let is_unused = |held: &Project| held.open == 0 && held.lease.places == 0 && Arc::strong_count(&held.turn) == 1;
        if self.projects.get(project).is_some_and(is_unused) {
            self.projects.remove(project);
        }
    }
}

/// The outcome of an intended change of a project's row.
enum RowChange {
    /// The row has this entry for this replica.
    Written(CoreStreams),
    /// The row stays, since so many streams are open.
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

    /// Takes a place where there is no other replica.
    fn take_alone(self: &Arc<Self>, project: Arc<str>, limit: u32) -> Result<StreamSlot> {
        let mut state = self.state.lock();
        let held = state.project(&project);
        if held.open >= limit {
            let open = held.open;
            state.remove_unused(&project);
            return Err(limit_reached(limit, open));
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
        held.open += 1;
        Some(StreamSlot { slots: Arc::clone(self), project: Arc::clone(project), term: term.clone() })
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
                let held = state.project(project);
                held.open += 1;
                held.lease = Lease { places: own.places, share: own.share, limit, term: term.clone() };
                // Streams may have closed in the meantime.
                if held.drop_surplus() {
                    state.unsettled.insert(Arc::clone(project));
                    self.closed.notify_one();
                }
                Ok(StreamSlot { slots: Arc::clone(self), project: Arc::clone(project), term })
            }
            Ok(RowChange::Full { open }) => Err(limit_reached(limit, open)),
            Err(error) => {
                // The row may have changed even so.
                state.unsettled.insert(Arc::clone(project));
                self.closed.notify_one();
                Err(error.into())
            }
        }
    }

    /// The number of a project's open streams, over all replicas: exactly those of this replica, and those that are
    /// certainly open at the others. A closed stream counts until its replica has given its place back.
    pub async fn open(&self, project: &str) -> Result<u32> {
        let open = self.state.lock().projects.get(project).map_or(0, |held| held.open);
        if self.backend.is_exclusive() {
            return Ok(open);
        }
        let (_, row) = stream_slots::read(&self.backend, project, Consistency::Quorum).await?;
        let (own, others): (Vec<_>, Vec<_>) =
            row.cores.into_iter().partition(|held| held.replica == self.members.replica());
        let others = self.alive(others).await?;
        Ok(open.max(certainly_open(&own)) + certainly_open(&others))
    }

    /// Writes the places of this replica to the project's row. With a `limit` it leases them for an opening, for those
    /// that wait, and a share; without one it gives back those that have left the lease. It writes the row even without
    /// a change: an earlier write in doubt then has no effect.
    async fn change_row(&self, project: &Arc<str>, limit: Option<u32>) -> StoreResult<RowChange> {
        let mut consistency = Consistency::Quorum;
        for again in 0..MAX_TRIES {
            let (version, row) = stream_slots::read(&self.backend, project, consistency).await?;
            let is_other = |held: &&CoreStreams| held.replica != self.members.replica();
            let mut cores: Vec<CoreStreams> = row.cores.iter().filter(is_other).cloned().collect();
            let mut planned = self.plan_places(project, limit, certainly_open(&cores));
            if planned.is_err() {
                cores = self.alive(cores).await?;
                planned = self.plan_places(project, limit, certainly_open(&cores));
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

    /// The entry that this replica should have in the row, while `others` streams are certainly open at other replicas.
    /// Returns the number of open streams as the error if `limit` allows no more.
    fn plan_places(
        &self,
        project: &Arc<str>,
        limit: Option<u32>,
        others: u32,
    ) -> std::result::Result<CoreStreams, u32> {
        let replica = self.members.replica().to_owned();
        let other_cores = self.members.others();
        let cores = u32::try_from(other_cores.borrow().len() + 1).unwrap_or(u32::MAX);
        let mut state = self.state.lock();
        let held = state.project(project);
        let Some(limit) = limit else {
            return Ok(CoreStreams { replica, places: held.lease.places, share: held.lease.share });
        };
        let open = held.open.saturating_add(others);
        if open >= limit {
            return Err(open);
        }
        let share = limit / SHARED_PART.saturating_mul(cores);
        let places = held.open + (limit - open).min(1 + held.waiting + share);
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

    /// Gives back places of closed streams; never ends.
    pub async fn run(&self) {
        loop {
            let is_settled = self.state.lock().unsettled.is_empty();
            if is_settled {
                self.closed.notified().await;
            }
            sleep(if is_settled { GATHER_TIME } else { RETRY_INTERVAL }).await;
            self.settle_rows().await;
        }
    }
}

/// The number of streams that are certainly open at some replicas.
fn certainly_open(cores: &[CoreStreams]) -> u32 {
    cores.iter().map(CoreStreams::certainly_open).fold(0, u32::saturating_add)
}

fn limit_reached(limit: u32, open: u32) -> Error {
    crate::metrics::LIMITS.at("streams").increment(1);
    let message = format!("the plan allows {limit} concurrent streams per project; close one, or ask for another plan");
    let details = serde_json::json!({ "limit": limit, "open": open });
    ApiError::new(ErrorCode::StreamLimitReached, message).with_details(details).with_retry_after(5).into()
}
