//! Places of open streams: a project never has more open than its plan allows, over all replicas together.
//!
//! A project's row says how many streams each replica has open, and moves by conditions only. A place is taken in the
//! row before a stream opens and given back after it closes. A replica shows by a beat that it lives. If it could not
//! beat for [`LEASE_MS`], it ends its streams; later, after [`GONE_MS`], others no longer count them. The others judge
//! by how long they see the same beat, so clocks need not agree. An edge gives up a silent core sooner than either.
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
use thesis_net::clock::SharedClock;
use thesis_proto::error::{ApiError, ErrorCode};
use tokio::{
    sync::Notify,
    time::{MissedTickBehavior, interval, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::{
    error::{Error, Result},
    store::{Consistency, SharedBackend, StoreError, StoreResult},
    tables::{
        members::{self, BEAT_KEPT, Beat, Service},
        stream_places::{self, Held, Places},
    },
};

/// How often a replica beats.
const BEAT_EVERY: Duration = Duration::from_secs(3);
/// Longest time without a beat; then a replica ends its streams.
const LEASE_MS: i64 = 9_000;
/// Longest age of a beat for a new stream: later it might have to end at once.
const LATE_MS: i64 = 4_000;
/// How often it looks whether streams must end.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Longest time that a beat stands still; then its replica has no streams.
const GONE_MS: i64 = 11_000;
/// Most tries to move a row while others move it.
const TRIES: usize = 20;
/// Most rows moved at once.
const PARALLEL: usize = 32;

#[derive(Debug, Default)]
struct Project {
    open: u32,
    /// One move of the row at a time.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// Another replica's beat, and since when it is seen unchanged.
#[derive(Clone, Copy, Debug)]
struct Seen {
    beat: i64,
    since: i64,
    gone: bool,
}

#[derive(Debug, Default)]
struct State {
    projects: HashMap<Arc<str>, Project>,
    /// Projects whose row may say more streams than are open here.
    unsettled: HashSet<Arc<str>>,
    others: HashMap<String, Seen>,
    beat: i64,
    /// When the last beat that surely arrived was sent.
    beat_at: Option<i64>,
    /// Cancelled when streams must end because this replica could not beat.
    term: CancellationToken,
}

/// The places of open streams.
pub struct StreamSlots {
    backend: SharedBackend,
    clock: SharedClock,
    replica: String,
    state: Mutex<State>,
    closed: Notify,
}

/// A stream's place among the open ones; given back when dropped.
pub struct StreamSlot {
    slots: Arc<StreamSlots>,
    project: Arc<str>,
    term: CancellationToken,
}

impl StreamSlot {
    /// Whether the place is lost and the stream must end.
    #[must_use]
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
    /// Places of this replica. It has to beat before any is taken.
    #[must_use]
    pub fn new(backend: SharedBackend, clock: SharedClock, replica: String) -> Arc<Self> {
        Arc::new(Self { backend, clock, replica, state: Mutex::default(), closed: Notify::new() })
    }

    /// Takes a place if fewer than `limit` of the project are open.
    ///
    /// # Errors
    /// `STREAM_LIMIT_REACHED`, or when the store does not answer.
    pub async fn take(self: &Arc<Self>, project: &str, limit: u32) -> Result<StreamSlot> {
        // In its own task, so that it is completed even when the caller has gone.
        let taking = Arc::clone(self).take_place(project.into(), limit);
        tokio::spawn(taking).await.map_err(Error::internal)?
    }

    async fn take_place(self: Arc<Self>, project: Arc<str>, limit: u32) -> Result<StreamSlot> {
        let turn = Arc::clone(&self.state.lock().projects.entry(Arc::clone(&project)).or_default().turn);
        let _turn = turn.lock().await;
        if self.is_late() {
            self.beat().await?;
        }
        let term = self.state.lock().term.clone();
        let moved = self.move_row(&project, Some(limit)).await;
        let mut state = self.state.lock();
        if moved.is_err() {
            // Even so, the row may have been moved.
            state.unsettled.insert(Arc::clone(&project));
            self.closed.notify_one();
        }
        if let Some(open) = moved? {
            let message = format!("the plan allows {limit} concurrent streams per project");
            let details = serde_json::json!({ "limit": limit, "open": open });
            let error = ApiError::new(ErrorCode::StreamLimitReached, message).with_details(details);
            return Err(error.with_retry_after(5).into());
        }
        state.projects.entry(Arc::clone(&project)).or_default().open += 1;
        drop(state);
        Ok(StreamSlot { slots: self, project, term })
    }

    /// How many of a project's places are taken, over all replicas. A closed stream's place counts until every replica
    /// can give it to another.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn open(&self, project: &str) -> Result<u32> {
        if self.backend.is_exclusive() {
            return Ok(self.own(project));
        }
        let (_, places) = stream_places::read(&self.backend, project, Consistency::Quorum).await?;
        let own = places.held.iter().find(|held| held.replica == self.replica).map_or(0, |held| held.open);
        let others = self.others_alive(places).await?;
        Ok(own + others.iter().map(|held| held.open).sum::<u32>())
    }

    fn own(&self, project: &str) -> u32 {
        self.state.lock().projects.get(project).map_or(0, |project| project.open)
    }

    fn is_late(&self) -> bool {
        let now_ms = self.clock.now_ms();
        !self.backend.is_exclusive() && self.state.lock().beat_at.is_none_or(|at| now_ms - at >= LATE_MS)
    }

    /// Sets the project's row to the streams open here, and one more when `limit` allows it; else tells how many are
    /// open. It is moved even if it says so already: an earlier move in doubt then has no effect any more.
    async fn move_row(&self, project: &str, limit: Option<u32>) -> StoreResult<Option<u32>> {
        if self.backend.is_exclusive() {
            let open = self.own(project);
            return Ok(limit.filter(|limit| open >= *limit).map(|_| open));
        }
        let mut consistency = Consistency::Quorum;
        for again in 0..TRIES {
            let (version, places) = stream_places::read(&self.backend, project, consistency).await?;
            let mut others: Vec<Held> =
                places.held.iter().filter(|held| held.replica != self.replica).cloned().collect();
            let mut want = self.own(project);
            if let Some(limit) = limit {
                let full = |others: &[Held]| {
                    let open = want + others.iter().map(|held| held.open).sum::<u32>();
                    (open >= limit).then_some(open)
                };
                if full(&others).is_some() {
                    others = self.others_alive(Places { held: others }).await?;
                    if let Some(open) = full(&others) {
                        return Ok(Some(open));
                    }
                }
                want += 1;
            }
            if want > 0 {
                others.push(Held { replica: self.replica.clone(), open: want });
            }
            others.sort_unstable_by(|one, other| one.replica.cmp(&other.replica));
            if again > 0 && others == places.held {
                return Ok(None);
            }
            match stream_places::replace(&self.backend, project, version, &Places { held: others }).await {
                Ok(true) => return Ok(None),
                // Only this replica writes its entry, so the row itself tells whether a write in doubt was done.
                Ok(false) | Err(StoreError::InDoubt(_)) => consistency = Consistency::Serial,
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::Unavailable("a project's stream slots are in too much demand".to_owned()))
    }

    /// Entries of other replicas that live now.
    async fn others_alive(&self, places: Places) -> StoreResult<Vec<Held>> {
        let mut others: Vec<Held> = places.held.into_iter().filter(|held| held.replica != self.replica).collect();
        if others.is_empty() {
            return Ok(others);
        }
        self.look(others.iter().map(|held| &held.replica)).await?;
        let now_ms = self.clock.now_ms();
        let state = self.state.lock();
        others.retain(|held| {
            let seen = state.others.get(&held.replica);
            seen.is_none_or(|seen| !seen.gone && now_ms - seen.since < GONE_MS)
        });
        Ok(others)
    }

    /// Looks which beats have moved. A missing beat stands still.
    async fn look(&self, named: impl Iterator<Item = &String>) -> StoreResult<()> {
        let beats = members::beats(&self.backend, Service::Core).await?;
        let now_ms = self.clock.now_ms();
        let mut state = self.state.lock();
        state.others.retain(|_, seen| now_ms - seen.since < i64::from(BEAT_KEPT) * 1_000);
        for Beat { replica, number, gone } in beats {
            let new = Seen { beat: number, since: now_ms, gone };
            let seen = state.others.entry(replica).or_insert(new);
            if seen.beat != new.beat {
                *seen = new;
            }
        }
        for replica in named {
            state.others.entry(replica.clone()).or_insert(Seen { beat: 0, since: now_ms, gone: false });
        }
        Ok(())
    }

    /// Ends streams if this replica could not beat in time.
    fn end_lapsed(&self) {
        let now_ms = self.clock.now_ms();
        let mut state = self.state.lock();
        if state.beat_at.is_some_and(|at| now_ms - at >= LEASE_MS) {
            tracing::warn!("this replica's beat did not arrive for too long: its streams end");
            state.beat_at = None;
            std::mem::take(&mut state.term).cancel();
        }
    }

    /// Shows that this replica lives.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn beat(&self) -> StoreResult<()> {
        self.write_beat(false).await
    }

    async fn write_beat(&self, gone: bool) -> StoreResult<()> {
        if self.backend.is_exclusive() {
            return Ok(());
        }
        let sent_at = self.clock.now_ms();
        let number = {
            let mut state = self.state.lock();
            state.beat += 1;
            state.beat
        };
        members::write_beat(&self.backend, Service::Core, Beat { replica: self.replica.clone(), number, gone }).await?;
        // Streams from before a lapse end, however late it is noticed.
        self.end_lapsed();
        let mut state = self.state.lock();
        state.beat_at = state.beat_at.max(Some(sent_at));
        Ok(())
    }

    /// Corrects every row that may say more than is open here.
    async fn settle(&self) {
        let unsettled = std::mem::take(&mut self.state.lock().unsettled);
        let settling = stream::iter(unsettled).for_each_concurrent(PARALLEL, |project| async move {
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

    /// Beats, looks at the others' beats, gives back places of closed streams; never ends.
    pub async fn run(&self) {
        if self.backend.is_exclusive() {
            return;
        }
        let every = |period| {
            let mut every = interval(period);
            every.set_missed_tick_behavior(MissedTickBehavior::Delay);
            every
        };
        let (mut beats, mut looks) = (every(BEAT_EVERY), every(LOOK_EVERY));
        let beating = async {
            loop {
                beats.tick().await;
                let beaten = async {
                    self.beat().await?;
                    self.look(std::iter::empty()).await
                };
                if let Err(error) = beaten.await {
                    tracing::warn!(%error, "this replica's beat did not arrive");
                    beats.reset_after(LOOK_EVERY);
                }
            }
        };
        // Separate, since a beat may take long to fail.
        let watching = async {
            loop {
                looks.tick().await;
                self.end_lapsed();
            }
        };
        let settling = async {
            loop {
                self.settle().await;
                if self.state.lock().unsettled.is_empty() {
                    self.closed.notified().await;
                } else {
                    sleep(LOOK_EVERY).await;
                }
            }
        };
        tokio::join!(beating, watching, settling);
    }

    /// Tells the other replicas that this one has no open streams any more.
    pub async fn leave(&self) {
        if let Err(error) = self.write_beat(true).await {
            tracing::debug!(%error, "leaving was not told; others will notice");
        }
    }
}
