//! The writer of one dataset's log. It knows the log up to its head, because it has projected it; it drops what is in the
//! log already, appends what waits as one batch on the condition that the head is still that, projects it, and only then
//! answers, so that its caller reads its own write. On losing the race it projects what was added and tries again.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use prost::Message as _;
use quick_cache::sync::Cache;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::{
    core::Shared,
    error::{Error, Result},
    projection::{Projector, ROWS, derive_slot},
};
use crate::{
    domain::{
        dataset::Dataset,
        derivation::DERIVE_EVERY_MS,
        entry::{Entry, Kind, Sequenced, ThesisCreated},
        id,
        row::{Profile, Thesis, Token},
    },
    key,
    store::{
        Change, Consistency, Scan, StoreError, StoreResult,
        log::{Appended, room},
        tables,
    },
};

/// Jobs that may wait for a writer.
const WAITING: usize = 4_096;
/// Entries a batch takes.
const BATCH_ENTRIES: usize = 256;
/// Bytes a batch takes where the store limits it.
const BATCH_BYTES: usize = 90 * 1024;
/// Entries projected at once when catching up.
const CATCH_UP: usize = 500;
/// Tokens whose derived events go into one batch.
const DERIVE_BATCH: usize = 32;
/// How long a hint of an append is kept.
const WAKE_TTL: u32 = 3_600;

/// A thesis to be put into the log, with its author and token as they are now.
#[derive(Clone, Debug)]
pub struct NewThesis {
    /// The thesis.
    pub thesis: Thesis,
    /// Its author.
    pub profile: Profile,
    /// Its token.
    pub token: Token,
    /// Generated through the API for a test.
    pub test: bool,
    /// The event's time, when that is not the time of the append.
    pub at: Option<i64>,
}

struct Job {
    new: NewThesis,
    answer: oneshot::Sender<Result<Sequenced>>,
}

/// Where jobs for a dataset's writer are left.
#[derive(Clone)]
pub struct WriterHandle {
    jobs: mpsc::Sender<Job>,
}

impl WriterHandle {
    /// Starts the writer of a dataset. `position` is moved as entries are projected.
    pub fn start(shared: Arc<Shared>, dataset: Dataset, position: watch::Sender<u64>, stop: CancellationToken) -> Self {
        let (jobs, waiting) = mpsc::channel(WAITING);
        let name = dataset.to_string();
        let writer = Writer {
            projector: Projector::new(Arc::clone(&shared.backend), name.clone()),
            shared,
            dataset,
            name,
            position,
            head: 0,
            last_created_at: 0,
            current: false,
            introduced: Cache::new(65_536),
            due: BTreeMap::new(),
            woken: 0,
        };
        tokio::spawn(writer.run(waiting, stop));
        Self { jobs }
    }

    /// Puts a thesis into the log, or finds it there. Answers once its rows can be read.
    ///
    /// # Errors
    /// When the store does not answer; whether it was written is then unknown, and doing it again is safe.
    pub async fn create_thesis(&self, new: NewThesis) -> Result<Sequenced> {
        let (answer, answered) = oneshot::channel();
        let gone = || Error::from(StoreError::Unavailable("the writer has stopped".to_owned()));
        self.jobs.send(Job { new, answer }).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

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
    /// Profiles and tokens known to have rows.
    introduced: Cache<String, ()>,
    /// Tokens that owe derived events, with the sequence number of their newest thesis and the time they are due.
    due: BTreeMap<String, (u64, i64)>,
    /// The second of the last wake row.
    woken: i64,
}

impl Writer {
    async fn run(mut self, mut waiting: mpsc::Receiver<Job>, stop: CancellationToken) {
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
            if jobs.is_empty() {
                let now = self.shared.clock.now_ms();
                let next_due = self.due.values().map(|(_, at)| (*at - now).max(0)).min();
                let derive = async {
                    match next_due {
                        Some(wait) => tokio::time::sleep(Duration::from_millis(wait.unsigned_abs())).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    received = waiting.recv_many(&mut jobs, BATCH_ENTRIES) => if received == 0 { return },
                    () = derive => {}
                    () = stop.cancelled() => return,
                }
            }
            let batch = self.take_batch(&mut jobs);
            if !batch.is_empty() {
                self.write(batch).await;
            }
            if self.current
                && let Err(error) = self.derive().await
            {
                tracing::warn!(dataset = self.name, %error, "deriving events failed, trying again");
                self.current = false;
            }
        }
    }

    fn take_batch(&self, jobs: &mut Vec<Job>) -> Vec<Job> {
        let limit = if self.shared.backend.is_exclusive() { BATCH_BYTES * 16 } else { BATCH_BYTES };
        let mut bytes = 0;
        let fits = jobs.iter().take(BATCH_ENTRIES.min(room(self.head))).take_while(|job| {
            bytes += 400 + job.new.thesis.encoded_len() + job.new.profile.encoded_len() + job.new.token.encoded_len();
            bytes <= limit
        });
        let count = fits.count().max(usize::from(!jobs.is_empty()));
        jobs.drain(..count).collect()
    }

    /// Projects what stands in the log beyond what is known.
    async fn catch_up(&mut self) -> StoreResult<()> {
        let log = self.shared.log.clone();
        let started = self.head > 0;
        if !started {
            self.head = log.checkpoint(&self.name, ROWS).await?;
            if let Some(body) = log.get(&self.name, self.head).await? {
                self.last_created_at = decode(body)?.created_at;
            }
            self.load_due().await?;
        }
        let head = log.head(&self.name, self.head, Consistency::Serial).await?;
        while self.head < head {
            let entries: Vec<Sequenced> = log
                .read(&self.name, self.head, head, CATCH_UP)
                .await?
                .into_iter()
                .map(|(seq, body)| Ok(Sequenced { seq, entry: decode(body)? }))
                .collect::<StoreResult<_>>()?;
            if entries.is_empty() {
                return Err(StoreError::Unavailable(format!("log {} ends before its head {head}", self.name)));
            }
            self.project(&entries).await?;
        }
        self.current = true;
        self.position.send_if_modified(|position| advance(position, self.head));
        Ok(())
    }

    async fn load_due(&mut self) -> StoreResult<()> {
        let mut scan = Scan::all(&tables::DERIVE_DUE, key![derive_slot(&self.name)], 10_000);
        scan.from = std::ops::Bound::Included(key![&self.name]);
        scan.to = std::ops::Bound::Included(key![&self.name]);
        for row in self.shared.backend.scan(&scan).await? {
            if let [_, token] = row.clustering.as_slice() {
                self.due.insert(token.text().to_owned(), (row.version.unsigned_abs(), self.shared.clock.now_ms()));
            }
        }
        Ok(())
    }

    async fn project(&mut self, entries: &[Sequenced]) -> StoreResult<()> {
        self.projector.project(entries).await?;
        let Some(last) = entries.last() else { return Ok(()) };
        self.head = last.seq;
        self.last_created_at = self.last_created_at.max(last.entry.created_at);
        let mut owed: HashMap<&str, (u64, i64)> = HashMap::new();
        for sequenced in entries {
            match &sequenced.entry.kind {
                Some(Kind::ThesisCreated(created)) => {
                    self.introduced.insert(created.profile.id.clone(), ());
                    self.introduced.insert(created.token.id.clone(), ());
                    owed.insert(&created.token.id, (sequenced.seq, sequenced.entry.created_at));
                }
                Some(Kind::TokenActivity(activity)) => {
                    owed.remove(activity.token.id.as_str());
                    self.due.remove(&activity.token.id);
                }
                _ => {}
            }
        }
        for (token, (seq, created_at)) in owed {
            match self.due.get_mut(token) {
                Some((newest, _)) => *newest = seq,
                None => {
                    let last = self.derived_at(token).await?;
                    let now = self.shared.clock.now_ms();
                    // What lies back comes in numbers, and must not have to follow an event of now.
                    let back = if created_at < now - DERIVE_EVERY_MS { DERIVE_EVERY_MS } else { 0 };
                    let at = (now + back).max(last + DERIVE_EVERY_MS);
                    self.due.insert(token.to_owned(), (seq, at));
                }
            }
        }
        Ok(())
    }

    async fn derived_at(&self, token: &str) -> StoreResult<i64> {
        let row = self.shared.backend.get(&tables::DERIVED, &key![&self.name, token], Consistency::Quorum).await?;
        let bytes: Option<[u8; 8]> = row.and_then(|row| row.body.as_ref().try_into().ok());
        Ok(bytes.map_or(i64::MIN / 2, i64::from_be_bytes))
    }

    async fn write(&mut self, jobs: Vec<Job>) {
        let news: Vec<&NewThesis> = jobs.iter().map(|job| &job.new).collect();
        match self.append_theses(&news).await {
            Ok(written) => {
                for (job, sequenced) in jobs.into_iter().zip(written) {
                    drop(job.answer.send(Ok(sequenced)));
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

    /// Appends what is not in the log yet; answers with where each stands, in order.
    async fn append_theses(&mut self, news: &[&NewThesis]) -> StoreResult<Vec<Sequenced>> {
        let ids: Vec<String> = news.iter().map(|new| thesis_event_id(&new.thesis.id)).collect();
        loop {
            let known = self.known(&ids).await?;
            let mut fresh: BTreeMap<&str, usize> = BTreeMap::new();
            let mut entries = Vec::new();
            let mut places = Vec::new();
            for ((new, id), known) in news.iter().zip(&ids).zip(&known) {
                places.push(match (known, fresh.get(id.as_str())) {
                    (Some(seq), _) => Err(*seq),
                    (None, Some(index)) => Ok(*index),
                    (None, None) => {
                        fresh.insert(id, entries.len());
                        entries.push(self.thesis_entry(id, new, &entries).await?);
                        Ok(entries.len() - 1)
                    }
                });
            }
            let Some(appended) = self.append(entries).await? else { continue };
            let mut written = Vec::with_capacity(places.len());
            for place in places {
                written.push(match place {
                    Ok(index) => appended[index].clone(),
                    Err(seq) => self.entry_at(seq).await?,
                });
            }
            return Ok(written);
        }
    }

    async fn entry_at(&self, seq: u64) -> StoreResult<Sequenced> {
        let body = self.shared.log.get(&self.name, seq).await?;
        let body = body.ok_or_else(|| StoreError::Damaged(format!("log {} has no entry {seq}", self.name)))?;
        Ok(Sequenced { seq, entry: decode(body)? })
    }

    /// Where the entries with these ids stand, if they are in the log.
    async fn known(&self, ids: &[String]) -> StoreResult<Vec<Option<u64>>> {
        let keys: Vec<_> = ids.iter().map(|id| key![&self.name, id]).collect();
        let rows = self.shared.backend.get_many(&tables::EVENT, &keys).await?;
        Ok(rows.into_iter().map(|row| row.map(|row| row.version.unsigned_abs())).collect())
    }

    async fn thesis_entry(&self, id: &str, new: &NewThesis, before: &[Entry]) -> StoreResult<Entry> {
        let floor = before.last().map_or(self.last_created_at, |entry| entry.created_at);
        let created_at = new.at.unwrap_or_else(|| self.shared.clock.now_ms()).max(floor);
        let brought = |wanted: &str| {
            before.iter().any(|entry| match &entry.kind {
                Some(Kind::ThesisCreated(other)) => other.profile.id == wanted || other.token.id == wanted,
                _ => false,
            })
        };
        let (profile, token) = (&new.profile.id, &new.token.id);
        let own_profile = !new.thesis.sandbox_profile && !brought(profile);
        let own_token = !new.thesis.sandbox_token && !brought(token);
        Ok(Entry {
            id: id.to_owned(),
            created_at,
            test: new.test,
            kind: Some(Kind::ThesisCreated(ThesisCreated {
                thesis: new.thesis.clone(),
                profile: new.profile.clone(),
                token: new.token.clone(),
                introduces_profile: own_profile && self.is_new(&tables::PROFILE, profile).await?,
                introduces_token: own_token && self.is_new(&tables::TOKEN, token).await?,
            })),
        })
    }

    async fn is_new(&self, table: &'static crate::store::Table, id: &str) -> StoreResult<bool> {
        if self.introduced.get(id).is_some() {
            return Ok(false);
        }
        let row = self.shared.backend.get(table, &key![&self.name, id], Consistency::Quorum).await?;
        if row.is_some() {
            self.introduced.insert(id.to_owned(), ());
        }
        Ok(row.is_none())
    }

    /// Appends entries computed from the state at the head, and projects them. None when another writer was faster: the
    /// state has moved on then, and the entries have to be computed anew.
    async fn append(&mut self, entries: Vec<Entry>) -> StoreResult<Option<Vec<Sequenced>>> {
        if entries.is_empty() {
            return Ok(Some(Vec::new()));
        }
        self.wake().await?;
        let bodies: Vec<Bytes> = entries.iter().map(|entry| entry.encode_to_vec().into()).collect();
        let mut batch = [0; 16];
        self.shared.ids.fill(&mut batch);
        self.current = false;
        if self.shared.log.append(&self.name, self.head, batch, &bodies).await? == Appended::Lost {
            self.catch_up().await?;
            return Ok(None);
        }
        let entries: Vec<Sequenced> =
            (self.head + 1..).zip(entries).map(|(seq, entry)| Sequenced { seq, entry }).collect();
        self.project(&entries).await?;
        self.current = true;
        self.position.send_if_modified(|position| advance(position, self.head));
        metrics::counter!("log_entries_appended_total").increment(entries.len() as u64);
        Ok(Some(entries))
    }

    /// Tells the other replicas, before the append: a hint may be false, never missing.
    async fn wake(&mut self) -> StoreResult<()> {
        let second = self.shared.clock.now_ms().div_euclid(1_000);
        if self.shared.backend.is_exclusive() || self.woken == second {
            return Ok(());
        }
        let change = Change {
            table: &tables::WAKE,
            key: key![second, &self.name],
            version: second,
            body: Some(Bytes::new()),
            ttl: Some(WAKE_TTL),
        };
        self.shared.backend.apply(vec![change]).await?;
        self.woken = second;
        Ok(())
    }

    /// Appends the derived events of tokens that are due.
    async fn derive(&mut self) -> StoreResult<()> {
        loop {
            let now = self.shared.clock.now_ms();
            let ready: Vec<(String, u64)> = self
                .due
                .iter()
                .filter(|(_, (_, at))| *at <= now)
                .take(DERIVE_BATCH.min(room(self.head) / 2).max(1))
                .map(|(token, (seq, _))| (token.clone(), *seq))
                .collect();
            if ready.is_empty() {
                return Ok(());
            }
            if room(self.head) < 2 {
                // One entry is left in this bucket and a pair must not be split; the next thesis fills it.
                let created_at = now.max(self.last_created_at);
                let filler = Entry { id: format!("fill_{}", self.head + 1), created_at, test: false, kind: None };
                self.append(vec![filler]).await?;
                continue;
            }
            let mut entries = Vec::with_capacity(ready.len() * 2);
            for (token, seq) in &ready {
                let at = now.max(self.last_created_at);
                match super::derive::entries(&self.shared, &self.dataset, token, *seq, at).await? {
                    Some(pair) => entries.extend(pair),
                    None => drop(self.due.remove(token)),
                }
            }
            self.append(entries).await?;
        }
    }
}

/// The id of the event that a thesis causes.
#[must_use]
pub fn thesis_event_id(thesis_id: &str) -> String {
    id::derive("evt_", &["thesis.created", thesis_id])
}

/// Reads an entry's stored form.
///
/// # Errors
/// When it is damaged.
pub fn decode(body: Bytes) -> StoreResult<Entry> {
    Entry::decode(body).map_err(|error| StoreError::Damaged(format!("log entry: {error}")))
}

#[cfg(test)]
mod tests;

/// Moves a position forward; it never goes back.
pub fn advance(position: &mut u64, to: u64) -> bool {
    let moves = to > *position;
    *position = to.max(*position);
    moves
}
