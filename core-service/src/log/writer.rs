//! The writer of one dataset's log. It knows the log up to its head; it drops what is in the log already, appends what
//! waits as one batch on the condition that the head is still that, projects it, and only then answers, so that its caller
//! reads its own write. On losing the race it takes over what was added, once its rows are made, and tries again.

mod command;
mod draft;
mod due;
mod handle;
mod observe;
#[cfg(test)]
mod tests;
mod turns;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    sync::{Notify, mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use self::{
    command::Command,
    draft::{Draft, Known, Place},
    due::Due,
    handle::Job,
    observe::{Drafted, observe},
    turns::Turns,
};
use super::projection::{Projector, ROWS};
use crate::{
    domain::{
        dataset::Dataset,
        entry::{Entry, Sequenced},
        id,
    },
    key,
    shared::Shared,
    store::{Change, Consistency, StoreError, StoreResult, schema},
    tables::log::{Appended, decode, room},
};

pub use self::{
    command::{NewThesis, Written},
    handle::WriterHandle,
};

/// Entries a batch takes.
const BATCH_ENTRIES: usize = 256;
/// Bytes a batch takes where the store limits it.
const BATCH_BYTES: usize = 90 * 1024;
/// Entries projected at once when catching up.
const CATCH_UP: usize = 500;
/// Longest time that derived events wait for theses to go into the log beside.
const COMPANY: Duration = Duration::from_millis(20);
/// How much longer this writer leaves derived events to the one that appended what they follow.
const OTHERS_FIRST_MS: i64 = 1_000;
/// How long a hint of an append is kept.
const WAKE_TTL: u32 = 3_600;
/// How long whoever appended first has for the rows of its entries before this writer makes them too.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it looks whether they are made.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Seconds whose hints stand in one partition.
const WAKE_SECONDS: i64 = 8;

struct Writer {
    shared: Arc<Shared>,
    dataset: Dataset,
    name: String,
    projector: Projector,
    position: watch::Sender<u64>,
    /// The log is projected up to here; nothing beyond is known.
    head: u64,
    last_created_at: i64,
    /// False at the start and after a failure: what stands in the log beyond `head` has to be projected first.
    current: bool,
    /// What is remembered of the state at the head.
    known: Known,
    /// Tokens that owe derived events.
    due: Due,
    /// What other writers do.
    turns: Turns,
    /// The second of the last wake row.
    woken: i64,
}

impl Writer {
    fn new(shared: Arc<Shared>, dataset: Dataset, position: watch::Sender<u64>) -> Self {
        let name = dataset.to_string();
        Self {
            projector: Projector::new(Arc::clone(&shared.backend), shared.theses.clone(), name.clone()),
            due: Due::new(Arc::clone(&shared), name.clone()),
            turns: Turns::new(Arc::clone(&shared), name.clone()),
            shared,
            dataset,
            name,
            position,
            head: 0,
            last_created_at: 0,
            current: false,
            known: Known::new(),
            woken: 0,
        }
    }

    async fn run(mut self, mut waiting: mpsc::Receiver<Job>, look_again: Arc<Notify>, stop: CancellationToken) {
        let mut jobs: Vec<Job> = Vec::new();
        loop {
            if !self.current
                && let Err(error) = self.catch_up().await
            {
                tracing::warn!(dataset = self.name, %error, "catching up with the log failed, trying again");
                for job in jobs.drain(..) {
                    drop(job.answer.send(Err(StoreError::Unavailable(error.to_string()).into())));
                }
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(200)) => {}
                    () = stop.cancelled() => return,
                }
                while let Ok(job) = waiting.try_recv() {
                    jobs.push(job);
                }
                continue;
            }
            let mut derives = !self.joins_derived();
            if jobs.is_empty() {
                let next_due = self.due.wait().map(|wait| if derives { wait } else { wait + COMPANY });
                let derive = async {
                    match next_due {
                        Some(wait) => tokio::time::sleep(wait).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    received = waiting.recv_many(&mut jobs, BATCH_ENTRIES) => if received == 0 { return },
                    () = derive => derives = true,
                    () = look_again.notified() => {
                        self.current = false;
                        continue;
                    }
                    () = stop.cancelled() => return,
                }
            }
            // Whoever gave up waiting was told so, and asks again if it is to be done.
            jobs.retain(|job| !job.answer.is_closed());
            let batch = self.take_batch(&mut jobs);
            if !batch.is_empty() {
                self.write(batch).await;
            }
            derives |= self.due.is_overdue(COMPANY);
            if self.current
                && derives
                && let Err(error) = self.derive().await
            {
                tracing::warn!(dataset = self.name, %error, "deriving events failed, trying again");
                self.current = false;
            }
        }
    }

    /// Whether derived events go into the log beside the next theses: where a write costs the same however much it writes.
    fn joins_derived(&self) -> bool {
        self.shared.backend.is_exclusive()
    }

    fn take_batch(&self, jobs: &mut Vec<Job>) -> Vec<Job> {
        let limit = if self.shared.backend.is_exclusive() { BATCH_BYTES * 16 } else { BATCH_BYTES };
        let (mut bytes, mut entries) = (0, 0);
        let fits = jobs.iter().take_while(|job| {
            bytes += job.command.size();
            entries += job.command.entries();
            bytes <= limit && entries <= BATCH_ENTRIES.min(room(self.head))
        });
        let count = fits.count().max(usize::from(!jobs.is_empty()));
        jobs.drain(..count).collect()
    }

    /// Starts from the checkpoint, or after a failure from what is known, and follows the log to its head.
    async fn catch_up(&mut self) -> StoreResult<()> {
        let log = &self.shared.log;
        let projected = log.checkpoint(&self.name, ROWS).await?;
        if self.head == 0 {
            self.head = projected;
            if let Some(body) = log.get(&self.name, self.head).await? {
                self.last_created_at = decode(body)?.created_at;
            }
        }
        self.due.load().await?;
        let head = log.head(&self.name, self.head, Consistency::Serial).await?;
        self.follow(head, projected, Vec::new()).await
    }

    /// Follows what another writer has appended; tells whether it had. `lost` says that it certainly has.
    async fn follow_others(&mut self, lost: bool) -> StoreResult<bool> {
        if !lost && self.shared.backend.is_exclusive() {
            return Ok(false);
        }
        // Only a serial read sees an append that was begun and left; it gets in the way of those under way.
        let mut head = self.shared.log.head(&self.name, self.head, Consistency::Quorum).await?;
        if lost && head <= self.head {
            head = self.shared.log.head(&self.name, self.head, Consistency::Serial).await?;
        }
        if head <= self.head {
            return Ok(false);
        }
        self.turns.share();
        if lost {
            self.turns.lost(head).await;
        }
        let (projected, first) = tokio::try_join!(self.projected(head), self.entries_after(self.head, head))?;
        self.current = false;
        self.follow(head, projected, first).await?;
        Ok(true)
    }

    /// Lets a writer go first that lost to this one.
    async fn give_way(&mut self) -> StoreResult<()> {
        self.turns.give(self.head);
        let until = Instant::now() + turns::GIVE_WAY;
        while !self.follow_others(false).await? && Instant::now() < until {
            tokio::time::sleep(turns::LOOK_EVERY).await;
        }
        Ok(())
    }

    async fn entries_after(&self, after: u64, head: u64) -> StoreResult<Vec<Sequenced>> {
        let rows = self.shared.log.read(&self.name, after, head, CATCH_UP).await?;
        rows.into_iter().map(|(seq, body)| Ok(Sequenced { seq, entry: decode(body)? })).collect()
    }

    /// Takes over what stands in the log beyond what is known, of which the first may have been read, and makes the rows
    /// beyond `projected`.
    async fn follow(&mut self, head: u64, projected: u64, mut entries: Vec<Sequenced>) -> StoreResult<()> {
        while self.head < head {
            if entries.is_empty() {
                entries = self.entries_after(self.head, head).await?;
            }
            if entries.is_empty() {
                return Err(StoreError::Unavailable(format!("log {} ends before its head {head}", self.name)));
            }
            let missing = entries.partition_point(|entry| entry.seq <= projected);
            self.projector.pass(&entries[..missing]);
            self.projector.project(&entries[missing..]).await?;
            self.learn(&entries, OTHERS_FIRST_MS).await?;
            entries.clear();
        }
        self.turns.followed(head);
        self.current = true;
        self.position.send_if_modified(|position| advance(position, self.head));
        Ok(())
    }

    /// How far the rows are made, once they are up to `head` or whoever appended that has had the time.
    async fn projected(&self, head: u64) -> StoreResult<u64> {
        let until = Instant::now() + PATIENCE;
        loop {
            let projected = self.shared.log.checkpoint(&self.name, ROWS).await?;
            if projected >= head || Instant::now() >= until {
                return Ok(projected);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Takes over what projected entries tell; what they owe is due so much later than for the writer that appended them.
    async fn learn(&mut self, entries: &[Sequenced], later_ms: i64) -> StoreResult<()> {
        let Some(last) = entries.last() else { return Ok(()) };
        self.due.take(entries, later_ms).await?;
        self.head = last.seq;
        self.last_created_at = self.last_created_at.max(last.entry.created_at);
        for sequenced in entries {
            self.known.learn(&sequenced.entry);
        }
        Ok(())
    }

    async fn write(&mut self, jobs: Vec<Job>) {
        match self.carry_out(&jobs).await {
            Ok(written) => {
                for (job, written) in jobs.into_iter().zip(written) {
                    drop(job.answer.send(Ok(written)));
                }
            }
            Err(error) => {
                self.current = false;
                let why = error.to_string();
                tracing::warn!(dataset = self.name, error = why, "an append failed");
                for job in jobs {
                    drop(job.answer.send(Err(StoreError::Unavailable(why.clone()).into())));
                }
            }
        }
    }

    /// Drafts what the commands add to the log and appends it; answers what became of each, in order.
    async fn carry_out(&mut self, jobs: &[Job]) -> StoreResult<Vec<Written>> {
        // An append that loses costs both writers more than looking first.
        if self.turns.is_shared() {
            self.follow_others(false).await?;
            if self.turns.is_anothers().await {
                self.give_way().await?;
            }
        }
        loop {
            let mut entries = Vec::new();
            if self.joins_derived() {
                let taken: usize = jobs.iter().map(|job| job.command.entries()).sum();
                // What cannot be derived now shall not fail the theses; it is tried, and told, apart.
                entries = self.derived_entries(room(self.head).saturating_sub(taken) / 2).await.unwrap_or_default();
            }
            let mut draft = Draft::new(&self.shared, &self.name, &self.known, self.last_created_at, entries);
            draft.look_up(jobs.iter().map(|job| &job.command)).await?;
            let mut drafted = Vec::with_capacity(jobs.len());
            for job in jobs {
                drafted.push(match &job.command {
                    Command::Create(new) => {
                        let event_id = thesis_event_id(&new.thesis.id);
                        let place = match draft.place(&event_id) {
                            Some(place) => place,
                            None => draft.create(event_id.clone(), new).await?,
                        };
                        Drafted { id: new.thesis.id.clone(), place, event_id: Some(event_id), refused: None }
                    }
                    Command::Observe(observation) => observe(&mut draft, observation).await?,
                });
            }
            if draft.entries.len() > room(self.head) {
                // One command's entries do not fit into what is left of the bucket, and a batch never spans two.
                self.fill().await?;
                continue;
            }
            let entries = draft.entries;
            if entries.is_empty() {
                // What it found may be another's, of which not all rows are made yet.
                self.follow_others(false).await?;
                self.turns.needs_none().await;
            }
            let Some(appended) = self.append(entries).await? else { continue };
            let mut written = Vec::with_capacity(drafted.len());
            for Drafted { id, place, event_id, refused } in drafted {
                let entry = match place {
                    Place::New(index) => Some(appended[index].clone()),
                    Place::Logged(seq) => Some(self.entry_at(seq).await?),
                    Place::Nowhere => None,
                };
                written.push(Written { id, entry, applied: matches!(place, Place::New(_)), event_id, refused });
            }
            return Ok(written);
        }
    }

    /// Fills what is left of a bucket.
    async fn fill(&mut self) -> StoreResult<()> {
        let created_at = self.shared.clock.now_ms().max(self.last_created_at);
        let fillers = (0..room(self.head) as u64).map(|number| Entry {
            id: format!("fill_{}", self.head + 1 + number),
            created_at,
            test: false,
            kind: None,
        });
        let fillers = fillers.collect();
        self.append(fillers).await.map(|_| ())
    }

    async fn entry_at(&self, seq: u64) -> StoreResult<Sequenced> {
        let body = self.shared.log.get(&self.name, seq).await?;
        let body = body.ok_or_else(|| StoreError::Damaged(format!("log {} has no entry {seq}", self.name)))?;
        Ok(Sequenced { seq, entry: decode(body)? })
    }

    /// Appends entries computed from the state at the head, and projects them. None when another writer was faster: the
    /// state has moved on then, and the entries have to be computed anew.
    async fn append(&mut self, entries: Vec<Entry>) -> StoreResult<Option<Vec<Sequenced>>> {
        if entries.is_empty() {
            return Ok(Some(Vec::new()));
        }
        self.wake().await?;
        let entries: Vec<Sequenced> =
            (self.head + 1..).zip(entries).map(|(seq, entry)| Sequenced { seq, entry }).collect();
        let mut batch = [0; 16];
        self.shared.ids.fill(&mut batch);
        self.current = false;
        if self.projector.append(&self.shared.log, self.head, batch, &entries).await? == Appended::Lost {
            self.follow_others(true).await?;
            self.current = true;
            return Ok(None);
        }
        self.turns.had_one();
        self.learn(&entries, 0).await?;
        self.current = true;
        self.position.send_if_modified(|position| advance(position, self.head));
        metrics::counter!("log_entries_appended_total").increment(entries.len() as u64);
        Ok(Some(entries))
    }

    /// Tells the other replicas, before the append: a hint may be false, never missing. Looks, as seldom, for their writers.
    async fn wake(&mut self) -> StoreResult<()> {
        let second = self.shared.clock.now_ms().div_euclid(1_000);
        if self.shared.backend.is_exclusive() || self.woken == second {
            return Ok(());
        }
        let change = Change {
            table: &schema::WAKE,
            key: key![wake_bucket(second), &self.name],
            version: second,
            body: Some(Bytes::new()),
            ttl: Some(WAKE_TTL),
        };
        let (told, ()) = tokio::join!(self.shared.backend.apply(vec![change]), self.turns.look());
        told?;
        self.woken = second;
        Ok(())
    }
}

/// The id of the event that a thesis causes.
#[must_use]
pub fn thesis_event_id(thesis_id: &str) -> String {
    id::derive("evt_", &["thesis.created", thesis_id])
}

/// The partition of the hints of a second; a hint's version is its dataset's last second with an append.
#[must_use]
pub const fn wake_bucket(second: i64) -> i64 {
    second.div_euclid(WAKE_SECONDS)
}

/// Moves a position forward; it never goes back.
pub fn advance(position: &mut u64, to: u64) -> bool {
    let moves = to > *position;
    *position = to.max(*position);
    moves
}
