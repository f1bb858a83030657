mod lists;
mod partitions;
mod reads;
mod requests;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::{join, join_all};
use prost::Message as _;
use tokio::task::yield_now;

use super::*;
use crate::{
    domain::{
        entry::{Entry, Kind, ProfileObserved, ThesisChanged, TokenObserved},
        row::{Profile, Thesis, Token},
    },
    log::projection::Projector,
    store::{Backend, Consistency, Row, Scan, SharedBackend, Table, Transaction, Value, schema},
    tables::{
        log::{AppendOutcome, checkpoint_change},
        theses::ThesisStore,
    },
    tests::{
        faulty::MemoryStore,
        harness::{ManualClock, SharedMemory, event_id_cipher},
    },
};

const NAME: &str = "live";
/// Rows of each type.
const ROWS_OF_TYPE: u64 = 3;
/// Entries of a log in the test of interleavings.
const LENGTH: u64 = 100;

/// Repeatable random numbers.
struct Dice(u64);

impl Dice {
    /// One of `0..below`.
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

async fn wait(turns: u64) {
    for _ in 0..turns {
        yield_now().await;
    }
}

/// A store whose calls take a random time, and which writes row by row.
struct Slow {
    store: MemoryStore,
    is_exclusive: bool,
    dice: Mutex<Dice>,
    /// Number of next reads of a position that fail.
    failing: AtomicU64,
    /// Number of next reads of a position that never end.
    stuck: AtomicU64,
    /// True while no log can be read.
    is_log_unreadable: AtomicBool,
}

/// Counts down, and returns whether the count was above 0.
fn take_one(remaining: &AtomicU64) -> bool {
    remaining.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

impl Slow {
    /// A store of several processes.
    fn new(seed: u64) -> Arc<Self> {
        Self::with(seed, false)
    }

    /// A store of one process if it is exclusive.
    fn with(seed: u64, is_exclusive: bool) -> Arc<Self> {
        Arc::new(Self {
            store: MemoryStore::new(false),
            is_exclusive,
            dice: Mutex::new(Dice(seed)),
            failing: AtomicU64::new(0),
            stuck: AtomicU64::new(0),
            is_log_unreadable: AtomicBool::new(false),
        })
    }

    async fn wait(&self) {
        let turns = self.dice.lock().roll(5);
        wait(turns).await;
    }

    /// Begins a read of rows, which may fail or never end.
    async fn begin_read(&self, table: &Table) -> StoreResult<()> {
        self.wait().await;
        if table.name == schema::LOG_CHECKPOINT.name {
            if take_one(&self.stuck) {
                std::future::pending::<()>().await;
            }
            if take_one(&self.failing) {
                return Err(StoreError::Unavailable("failing".to_owned()));
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Backend for Slow {
    async fn get(&self, table: &'static Table, key: &[Value], consistency: Consistency) -> StoreResult<Option<Row>> {
        self.begin_read(table).await?;
        let row = self.store.get(table, key, consistency).await;
        self.wait().await;
        row
    }

    async fn get_many(&self, table: &'static Table, keys: &[Vec<Value>]) -> StoreResult<Vec<Option<Row>>> {
        self.begin_read(table).await?;
        let rows = self.store.get_many(table, keys).await;
        self.wait().await;
        rows
    }

    async fn scan(&self, scan: &Scan) -> StoreResult<Vec<Row>> {
        self.wait().await;
        if scan.table.name == schema::EVENT_LOG.name && self.is_log_unreadable.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("unreadable".to_owned()));
        }
        let rows = self.store.scan(scan).await;
        self.wait().await;
        rows
    }

    async fn apply(&self, changes: Vec<Change>) -> StoreResult<()> {
        for change in changes {
            self.wait().await;
            self.store.apply(vec![change]).await?;
        }
        self.wait().await;
        Ok(())
    }

    async fn transact(&self, transaction: Transaction) -> StoreResult<bool> {
        self.store.transact(transaction).await
    }

    fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }

    async fn check(&self) -> StoreResult<()> {
        Ok(())
    }

    async fn sweep(&self, _: i64) -> StoreResult<()> {
        Ok(())
    }

    async fn close(&self) -> StoreResult<()> {
        Ok(())
    }
}

/// The id of a row; types are theses, profiles and tokens.
fn id(kind: usize, number: u64) -> String {
    format!("{kind}-{number}")
}

/// An entry that writes its sequence number into a row.
fn entry(seq: u64, kind: usize, number: u64) -> SequencedEntry {
    let (id, stamp) = (id(kind, number), i64::try_from(seq).unwrap());
    let kind = match kind {
        0 => Kind::Engagement(ThesisChanged { thesis: Thesis { id, likes: Some(stamp), ..Thesis::default() } }),
        1 => {
            let profile = Profile { id, updated_at: stamp, ..Profile::default() };
            Kind::ProfileObserved(ProfileObserved { profile })
        }
        _ => {
            let token = Token { id, updated_at: stamp, ..Token::default() };
            Kind::TokenObserved(TokenObserved { token, previous_symbol: None })
        }
    };
    SequencedEntry { seq, entry: Entry { id: format!("ent_{seq}"), kind: Some(kind), ..Entry::default() } }
}

/// Another core's writer, or that of the only core.
struct OtherWriter {
    log: LogStore,
    projector: Projector,
    head: u64,
}

impl OtherWriter {
    fn new(backend: &SharedBackend) -> Self {
        Self::of_core(backend, ThesisStore::new(Arc::clone(backend)))
    }

    /// The writer of the core whose store this is.
    fn of_core(backend: &SharedBackend, theses: ThesisStore) -> Self {
        let projector = Projector::new(Arc::clone(backend), theses, NAME.to_owned(), event_id_cipher());
        Self { log: LogStore::new(Arc::clone(backend)), projector, head: 0 }
    }

    async fn append(&mut self, bodies: &[Bytes]) {
        let mut batch = [0; 16];
        batch[..8].copy_from_slice(&self.head.to_be_bytes());
        assert_eq!(self.log.append(NAME, self.head, batch, bodies).await.unwrap(), AppendOutcome::Done);
        self.head += bodies.len() as u64;
    }

    /// Appends entries that change these rows, and projects them.
    async fn write(&mut self, rows: &[(usize, u64)]) {
        let entries: Vec<_> = (self.head + 1..).zip(rows).map(|(seq, row)| entry(seq, row.0, row.1)).collect();
        self.write_entries(&entries).await;
    }

    /// Appends entries and projects them.
    async fn write_entries(&mut self, entries: &[SequencedEntry]) {
        let bodies: Vec<Bytes> = entries.iter().map(|of| of.entry.stored(of.seq).into()).collect();
        self.append(&bodies).await;
        self.projector.project(entries).await.unwrap();
    }
}

/// Reads the stamps of the three rows with a number; 0 for a row that does not exist.
async fn stamps(theses: &ThesisStore, number: u64) -> StoreResult<[i64; 3]> {
    let reader = theses.reader(&View::live()).await?;
    let ids = [0, 1, 2].map(|kind| id(kind, number));
    let [thesis, profile, token] = ids.each_ref().map(|id| [(NAME.to_owned(), id.as_str())]);
    let (thesis, profile, token) =
        tokio::try_join!(reader.theses(&thesis), reader.profiles(&profile), reader.tokens(&token))?;
    Ok([
        thesis[0].as_ref().and_then(|thesis| thesis.likes).unwrap_or_default(),
        profile[0].as_ref().map_or(0, |profile| profile.updated_at),
        token[0].as_ref().map_or(0, |token| token.updated_at),
    ])
}

/// One reading core and one writing core.
struct Bench {
    backend: SharedBackend,
    theses: ThesisStore,
    /// The row that each entry changes.
    written: Mutex<Vec<(usize, u64)>>,
    projected: AtomicU64,
}

impl Bench {
    async fn write(&self, mut dice: Dice) {
        let mut writer = OtherWriter::new(&self.backend);
        while writer.head < LENGTH {
            // Now and then more entries come than are applied at once.
            let longest = if dice.roll(8) == 0 { 3 * MAX_APPLIED } else { 3 };
            let count = 1 + dice.roll(longest);
            let rows: Vec<_> =
                (0..count).map(|_| (usize::try_from(dice.roll(3)).unwrap(), dice.roll(ROWS_OF_TYPE))).collect();
            self.written.lock().extend(&rows);
            writer.write(&rows).await;
            self.projected.store(writer.head, Ordering::SeqCst);
        }
    }

    /// The last entry up to a position that changes a row; 0 if there is none.
    fn newest(&self, row: (usize, u64), projected: u64) -> i64 {
        let written = self.written.lock();
        let upto = &written[..usize::try_from(projected).unwrap()];
        upto.iter().rposition(|of| *of == row).map_or(0, |index| i64::try_from(index + 1).unwrap())
    }

    async fn read(&self, mut dice: Dice) {
        loop {
            let (projected, number) = (self.projected.load(Ordering::SeqCst), dice.roll(ROWS_OF_TYPE));
            let (gives_up, turns) = (dice.roll(4) == 0, dice.roll(12));
            tokio::select! {
                biased;
                read = stamps(&self.theses, number) => {
                    for (kind, stamp) in read.unwrap().into_iter().enumerate() {
                        let newest = self.newest((kind, number), projected);
                        assert!(stamp >= newest, "{} is of {stamp}, not of {newest}", id(kind, number));
                    }
                }
                () = wait(turns), if gives_up => {}
            }
            if projected >= LENGTH {
                return;
            }
        }
    }
}

#[tokio::test]
async fn no_row_is_older_than_the_projection_at_the_start_of_its_request() {
    for seed in 0..40 {
        let backend: SharedBackend = Slow::new(seed);
        let theses = ThesisStore::new(Arc::clone(&backend));
        let bench = Bench { backend, theses, written: Mutex::default(), projected: AtomicU64::new(0) };
        let readers = (1..6).map(|number| bench.read(Dice(1_000 * number + seed)));
        join(bench.write(Dice(seed)), join_all(readers)).await;
    }
}

#[tokio::test]
async fn entries_bring_the_rows_that_they_change() {
    let store = SharedMemory::new(&ManualClock::new());
    let backend: SharedBackend = store.clone();
    let (theses, mut writer) = (ThesisStore::new(Arc::clone(&backend)), OtherWriter::new(&backend));
    let reads = || [&schema::THESIS, &schema::PROFILE, &schema::TOKEN].map(|table| store.calls(table));
    writer.write(&[(0, 0), (1, 0), (2, 0)]).await;
    let before = reads();
    let since = || -> [usize; 3] { std::array::from_fn(|index| reads()[index] - before[index]) };
    assert_eq!(stamps(&theses, 0).await.unwrap(), [1, 2, 3]);
    assert_eq!(stamps(&theses, 0).await.unwrap(), [1, 2, 3]);
    assert_eq!(since(), [1, 1, 1], "the second request reads none");
    writer.write(&[(0, 0), (2, 0), (0, 1), (1, 1), (2, 1)]).await;
    assert_eq!(stamps(&theses, 0).await.unwrap(), [4, 2, 5]);
    assert_eq!(stamps(&theses, 1).await.unwrap(), [6, 7, 8]);
    assert_eq!(since(), [2, 2, 2], "only the writer called");
    // Many entries make all rows be read again, and so does an entry that this version does not know.
    let many = vec![(0, 0); usize::try_from(MAX_APPLIED).unwrap() + 1];
    writer.write(&many).await;
    let last = i64::try_from(writer.head).unwrap();
    assert_eq!(stamps(&theses, 0).await.unwrap(), [last, 2, 5]);
    assert_eq!(since(), [4, 3, 3]);
    let unknown = Entry { id: "ent_unknown".to_owned(), ..Entry::default() };
    writer.append(&[unknown.encode_to_vec().into()]).await;
    backend.apply(vec![checkpoint_change(NAME, ROWS, writer.head)]).await.unwrap();
    assert_eq!(stamps(&theses, 0).await.unwrap(), [last, 2, 5]);
    assert_eq!(since(), [5, 4, 4]);
}
