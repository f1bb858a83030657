//! Places of open streams: a project never has more open than its plan allows, over all replicas together.
//!
//! A project's row holds the number of open streams of each replica, and changes only by conditional writes. A replica
//! takes a place in the row before a stream opens, and gives it back after the stream closes. Places of replicas
//! without a heartbeat do not count. An edge gives up a silent core sooner than that.
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

/// Interval between two tries to give places back.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum number of tries to change a row while others change it.
const MAX_TRIES: usize = 20;
/// Maximum number of rows that are changed at the same time.
const MAX_PARALLEL: usize = 32;

#[derive(Debug, Default)]
struct Project {
    open: u32,
    /// Lock for one change of the row at a time.
    turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct State {
    projects: HashMap<Arc<str>, Project>,
    /// Projects whose row may count more streams than are open here.
    unsettled: HashSet<Arc<str>>,
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
        let State { projects, unsettled, .. } = &mut *state;
        if let Some(project) = projects.get_mut(&self.project) {
            project.open = project.open.saturating_sub(1);
            if !self.slots.backend.is_exclusive() {
                unsettled.insert(Arc::clone(&self.project));
                self.slots.closed.notify_one();
            } else if project.open == 0 && Arc::strong_count(&project.turn) == 1 {
                projects.remove(&self.project);
            }
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
        // In its own task, so that it is completed even when the caller has gone.
        let taking = Arc::clone(self).take_place(project.into(), limit);
        tokio::spawn(taking).await.map_err(Error::internal)?
    }

    async fn take_place(self: Arc<Self>, project: Arc<str>, limit: u32) -> Result<StreamSlot> {
        let turn = Arc::clone(&self.state.lock().projects.entry(Arc::clone(&project)).or_default().turn);
        let _turn = turn.lock().await;
        if self.members.is_late() {
            self.members.send_heartbeat().await?;
        }
        let term = self.members.term();
        let moved = self.move_row(&project, Some(limit)).await;
        let mut state = self.state.lock();
        if moved.is_err() {
            // The row may have changed even so.
            state.unsettled.insert(Arc::clone(&project));
            self.closed.notify_one();
        }
        if let Some(open) = moved? {
            crate::metrics::LIMITS.at("streams").increment(1);
            let message =
                format!("the plan allows {limit} concurrent streams per project; close one, or ask for another plan");
            let details = serde_json::json!({ "limit": limit, "open": open });
            let error = ApiError::new(ErrorCode::StreamLimitReached, message).with_details(details);
            return Err(error.with_retry_after(5).into());
        }
        state.projects.entry(Arc::clone(&project)).or_default().open += 1;
        drop(state);
        Ok(StreamSlot { slots: self, project, term })
    }

    /// The number of a project's taken places, over all replicas. A closed stream's place counts until every replica
    /// can give it to another stream.
    pub async fn open(&self, project: &str) -> Result<u32> {
        if self.backend.is_exclusive() {
            return Ok(self.own(project));
        }
        let (_, places) = stream_slots::read(&self.backend, project, Consistency::Quorum).await?;
        let own = places.cores.iter().find(|held| held.replica == self.members.replica()).map_or(0, |held| held.open);
        let others = self.others_alive(places).await?;
        Ok(own + others.iter().map(|held| held.open).sum::<u32>())
    }

    fn own(&self, project: &str) -> u32 {
        self.state.lock().projects.get(project).map_or(0, |project| project.open)
    }

    /// Sets the project's row to the number of streams open here, and one more if `limit` allows it; otherwise returns
    /// the number of open streams. It writes the row even without a change: an earlier write in doubt then has no
    /// effect.
    async fn move_row(&self, project: &str, limit: Option<u32>) -> StoreResult<Option<u32>> {
        if self.backend.is_exclusive() {
            let open = self.own(project);
            return Ok(limit.filter(|limit| open >= *limit).map(|_| open));
        }
        let mut consistency = Consistency::Quorum;
        for again in 0..MAX_TRIES {
            let (version, places) = stream_slots::read(&self.backend, project, consistency).await?;
            let mut others: Vec<CoreStreams> =
                places.cores.iter().filter(|held| held.replica != self.members.replica()).cloned().collect();
            let mut want = self.own(project);
            if let Some(limit) = limit {
                let full = |others: &[CoreStreams]| {
                    let open = want + others.iter().map(|held| held.open).sum::<u32>();
                    (open >= limit).then_some(open)
                };
                if full(&others).is_some() {
                    others = self.others_alive(ProjectStreams { cores: others }).await?;
                    if let Some(open) = full(&others) {
                        return Ok(Some(open));
                    }
                }
                want += 1;
            }
            if want > 0 {
                others.push(CoreStreams { replica: self.members.replica().to_owned(), open: want });
            }
            others.sort_unstable_by(|one, other| one.replica.cmp(&other.replica));
            if again > 0 && others == places.cores {
                return Ok(None);
            }
            match stream_slots::replace(&self.backend, project, version, &ProjectStreams { cores: others }).await {
                Ok(true) => return Ok(None),
                // Only this replica writes its entry, so the row shows whether a write in doubt was done.
                Ok(false) | Err(StoreError::InDoubt(_)) => consistency = Consistency::Serial,
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::Unavailable("a project's stream slots are in too much demand".to_owned()))
    }

    /// Entries of other replicas that live now.
    async fn others_alive(&self, places: ProjectStreams) -> StoreResult<Vec<CoreStreams>> {
        let mut others: Vec<CoreStreams> =
            places.cores.into_iter().filter(|held| held.replica != self.members.replica()).collect();
        if others.is_empty() {
            return Ok(others);
        }
        self.members.read_beats(others.iter().map(|held| &held.replica)).await?;
        others.retain(|held| self.members.may_live(&held.replica));
        Ok(others)
    }

    /// Corrects every row that may count more streams than are open here.
    async fn settle_rows(&self) {
        let unsettled = std::mem::take(&mut self.state.lock().unsettled);
        let settling = stream::iter(unsettled).for_each_concurrent(MAX_PARALLEL, |project| async move {
            let turn = {
                let mut state = self.state.lock();
                Arc::clone(&state.projects.entry(Arc::clone(&project)).or_default().turn)
            };
            let own_turn = turn.lock().await;
            let moved = self.move_row(&project, None).await;
            drop(own_turn);
            drop(turn);
            let mut state = self.state.lock();
            if let Err(error) = moved {
                tracing::debug!(%error, %project, "giving back stream slots failed, trying again");
                state.unsettled.insert(project);
            } else if let Some(settled) = state.projects.get(&project)
                && settled.open == 0
                && Arc::strong_count(&settled.turn) == 1
            {
                state.projects.remove(&project);
            }
        });
        settling.await;
    }

    /// Gives back places of closed streams; never ends.
    pub async fn run(&self) {
        loop {
            self.settle_rows().await;
            if self.state.lock().unsettled.is_empty() {
                self.closed.notified().await;
            } else {
                sleep(RETRY_INTERVAL).await;
            }
        }
    }
}
