mod segments;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;

use super::*;
use crate::{
    domain::{
        dataset::Dataset,
        entry::{Entry, ThesisCreated, ThesisDeleted, Totals},
        row::Thesis,
        window::DAY_MS,
    },
    store::{Backend, Consistency, Row, Scan, Table, Transaction, Value, schema},
    tables::{
        index_scope::IndexScope,
        log::AppendOutcome,
        theses::{IndexSlice, creation_changes},
    },
    tests::{faulty::MemoryStore, harness::event_id_cipher},
};

const NAME: &str = "project/x";

impl Projector {
    /// Appends entries to the log and writes their rows.
    pub(crate) async fn append_and_project(&self, head: u64, entries: &[SequencedEntry]) {
        let batch = u128::from(head).to_be_bytes();
        let appended = self.log.append(&self.dataset, head, batch, &bodies(entries)).await.unwrap();
        assert_eq!(appended, AppendOutcome::Done);
        self.project(entries).await.unwrap();
    }
}

fn bodies(entries: &[SequencedEntry]) -> Vec<Bytes> {
    entries.iter().map(|of| of.entry.stored(of.seq).into()).collect()
}

/// Repeatable random numbers.
struct Dice(u64);

impl Dice {
    /// One of `0..below`.
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// A store whose calls take a random time, so that those of two cores come in any order.
struct Slow {
    store: Arc<MemoryStore>,
    dice: Mutex<Dice>,
}

impl Slow {
    async fn wait(&self) {
        let turns = self.dice.lock().roll(6);
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    }
}

#[async_trait]
impl Backend for Slow {
    async fn get(&self, table: &'static Table, key: &[Value], consistency: Consistency) -> StoreResult<Option<Row>> {
        self.wait().await;
        let row = self.store.get(table, key, consistency).await;
        self.wait().await;
        row
    }

    async fn get_many(&self, table: &'static Table, keys: &[Vec<Value>]) -> StoreResult<Vec<Option<Row>>> {
        self.store.get_many(table, keys).await
    }

    async fn scan(&self, scan: &Scan) -> StoreResult<Vec<Row>> {
        self.wait().await;
        let rows = self.store.scan(scan).await;
        self.wait().await;
        rows
    }

    async fn apply(&self, changes: Vec<Change>) -> StoreResult<()> {
        // Row by row, as on a cluster.
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
        self.store.is_exclusive()
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

fn thesis(number: u64) -> Thesis {
    Thesis {
        id: format!("th_{number:03}"),
        profile_id: format!("fp_{}", number % 2),
        token_id: format!("tk_{}", number % 3),
        chain: "base".to_owned(),
        // Few buckets, so that they become empty and are filled again.
        created_at: i64::try_from(number % 3).unwrap() * 100 * DAY_MS + i64::try_from(number).unwrap(),
        ..Thesis::default()
    }
}

/// The totals of an entry that adds this number of theses of an author.
fn totals(by_author: &mut BTreeMap<String, i64>, author: &str, added: i64) -> Totals {
    let count = by_author.entry(author.to_owned()).or_default();
    *count = (*count + added).min(Totals::MAX_BY_AUTHOR);
    Totals { by_author: *count, ..Totals::default() }
}

/// A log of created and deleted theses; also gives the theses left.
fn log(dice: &mut Dice, length: u64) -> (Vec<SequencedEntry>, BTreeSet<String>) {
    let (mut entries, mut there, mut by_author) = (Vec::new(), Vec::new(), BTreeMap::new());
    for seq in 1..=length {
        let goes = !there.is_empty() && dice.roll(2) == 0;
        let kind = if goes {
            let gone: Thesis = there.swap_remove(usize::try_from(dice.roll(there.len() as u64)).unwrap());
            let totals = totals(&mut by_author, &gone.profile_id, 0);
            Kind::ThesisDeleted(ThesisDeleted { thesis: gone, totals, ..ThesisDeleted::default() })
        } else {
            there.push(thesis(seq));
            let totals = totals(&mut by_author, &thesis(seq).profile_id, 1);
            Kind::ThesisCreated(ThesisCreated { thesis: thesis(seq), totals, ..ThesisCreated::default() })
        };
        let entry = Entry { id: format!("ent_{seq}"), kind: Some(kind), ..Entry::default() };
        entries.push(SequencedEntry { seq, entry });
    }
    (entries, there.into_iter().map(|thesis| thesis.id).collect())
}

async fn append(backend: &SharedBackend, entries: &[SequencedEntry]) {
    let appended = LogStore::new(backend.clone()).append(NAME, 0, [0; 16], &bodies(entries)).await.unwrap();
    assert_eq!(appended, AppendOutcome::Done);
}

fn projector(backend: &SharedBackend, theses: ThesisStore) -> Projector {
    Projector::new(Arc::clone(backend), theses, NAME.to_owned(), event_id_cipher())
}

/// A core: follows the log in steps, makes the rows beyond its checkpoint, and sometimes starts again.
async fn follow(backend: SharedBackend, entries: &[SequencedEntry], mut dice: Dice) {
    let log = LogStore::new(Arc::clone(&backend));
    let start = || projector(&backend, ThesisStore::new(Arc::clone(&backend)));
    let (mut projector, mut head) = (start(), 0);
    while head < entries.len() {
        let projected = usize::try_from(log.checkpoint(NAME, ROWS).await.unwrap()).unwrap();
        if dice.roll(8) == 0 {
            (projector, head) = (start(), projected);
            continue;
        }
        // With longer steps, another core has often done the work.
        let upto = (head + 1 + usize::try_from(dice.roll(4)).unwrap()).min(entries.len());
        let missing = projected.clamp(head, upto);
        projector.skip_entries(&entries[head..missing]);
        projector.project(&entries[missing..upto]).await.unwrap();
        head = upto;
    }
}

/// Pairs of scope and bucket.
type Buckets = BTreeSet<(String, i64)>;

fn buckets(store: &MemoryStore) -> (Buckets, Buckets) {
    let (mut listed, mut filled) = (Buckets::new(), Buckets::new());
    store.each(&schema::INDEX_BUCKET, |partition, clustering, _| {
        listed.insert((partition[1].text().to_owned(), clustering[0].int()));
    });
    for index in [&schema::THESIS_INDEX, &schema::EVENT_INDEX] {
        store.each(index, |partition, _, _| {
            filled.insert((partition[1].text().to_owned(), partition[2].int()));
        });
    }
    (listed, filled)
}

/// The theses of prolific authors are in both indexes of these authors, and no others are.
fn assert_indexes_of_prolific(store: &MemoryStore, entries: &[SequencedEntry], message: &str) {
    let prolific: BTreeSet<&str> = entries
        .iter()
        .filter_map(|sequenced| match &sequenced.entry.kind {
            Some(Kind::ThesisCreated(created)) if created.totals.is_prolific() => Some(&*created.thesis.profile_id),
            _ => None,
        })
        .collect();
    let mut found: BTreeMap<String, BTreeSet<(String, String)>> = BTreeMap::new();
    store.each(&schema::THESIS_INDEX, |partition, clustering, _| {
        let mut scope = partition[1].text().split(':');
        if let (Some(kind), Some(author)) = (scope.next(), scope.next()) {
            let row = (author.to_owned(), clustering[1].text().to_owned());
            found.entry(kind.to_owned()).or_default().insert(row);
        }
    });
    let mut theses = found.remove("p").unwrap_or_default();
    theses.retain(|(author, _)| prolific.contains(author.as_str()));
    for kind in ["pt", "pc"] {
        assert_eq!(found.remove(kind).unwrap_or_default(), theses, "{message}: {kind}");
    }
}

#[tokio::test]
async fn older_theses_are_indexed_though_later_ones_are_stored() {
    let (mut by_author, author) = (BTreeMap::new(), "fp_0");
    let entries: Vec<SequencedEntry> = (1..=12)
        .map(|seq| {
            let thesis = Thesis { profile_id: author.to_owned(), ..thesis(seq) };
            let totals = totals(&mut by_author, author, 1);
            let kind = Kind::ThesisCreated(ThesisCreated { thesis, totals, ..ThesisCreated::default() });
            SequencedEntry { seq, entry: Entry { id: format!("ent_{seq}"), kind: Some(kind), ..Entry::default() } }
        })
        .collect();
    let store = Arc::new(MemoryStore::new(false));
    let backend: SharedBackend = store.clone();
    append(&backend, &entries).await;
    // The rows of a restored snapshot are newer than its checkpoint.
    for SequencedEntry { seq, entry } in &entries[6..] {
        let Some(Kind::ThesisCreated(created)) = &entry.kind else { continue };
        let mut changes = Vec::new();
        creation_changes(NAME, &created.thesis, i64::try_from(*seq).unwrap(), |_, _| true, &mut changes);
        backend.apply(changes).await.unwrap();
    }
    let projector = projector(&backend, ThesisStore::new(backend.clone()));
    for batch in entries.chunks(1) {
        projector.project(batch).await.unwrap();
    }
    assert_indexes_of_prolific(&store, &entries, "restored");
}

async fn listed(backend: SharedBackend) -> BTreeSet<String> {
    let all = IndexSlice { from: 0, to: i64::MAX / 2, after: None, descending: true };
    let dataset = Dataset::parse(NAME).unwrap();
    let rows = ThesisStore::new(backend).slice(&dataset, &IndexScope::All, &all, 1_000).await.unwrap();
    rows.into_iter().map(|row| row.id).collect()
}

#[tokio::test]
async fn a_bucket_is_listed_while_a_thesis_is_in_it_whoever_projects_when() {
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let (entries, there) = log(&mut dice, 40);
        for cores in [1, 2, 3] {
            // A single core may have its own store, which remembers no deletions.
            let store = Arc::new(MemoryStore::new(cores == 1 && seed % 2 == 0));
            let backend: SharedBackend = Arc::new(Slow { store: store.clone(), dice: Mutex::new(Dice(!seed)) });
            append(&backend, &entries).await;
            let following = (0..cores).map(|core| follow(backend.clone(), &entries, Dice(seed * 7 + core)));
            futures::future::join_all(following).await;
            let (listed_buckets, filled) = buckets(&store);
            assert_eq!(listed_buckets, filled, "seed {seed}, {cores} cores");
            assert_eq!(listed(backend.clone()).await, there, "seed {seed}, {cores} cores");
            assert_indexes_of_prolific(&store, &entries, &format!("seed {seed}, {cores} cores"));
            if store.is_exclusive() {
                continue;
            }
            // A core that was away makes old rows again.
            let theses = ThesisStore::new(backend.clone());
            projector(&backend, theses).project(&entries[..20]).await.unwrap();
            assert_eq!(buckets(&store), (filled.clone(), filled), "seed {seed}, {cores} cores, again");
            assert_indexes_of_prolific(&store, &entries, &format!("seed {seed}, {cores} cores, again"));
        }
    }
}

#[tokio::test]
async fn a_thesis_lists_the_bucket_again_that_another_core_has_emptied() {
    let store = Arc::new(MemoryStore::new(false));
    let backend: SharedBackend = store.clone();
    let start = || projector(&backend, ThesisStore::new(backend.clone()));
    let (one, other) = (start(), start());
    let sequenced = |seq, kind| {
        let entry = Entry { id: format!("ent_{seq}"), kind: Some(kind), ..Entry::default() };
        SequencedEntry { seq, entry }
    };
    let created = |seq| {
        let thesis = Thesis { id: format!("th_{seq}"), ..thesis(0) };
        sequenced(seq, Kind::ThesisCreated(ThesisCreated { thesis, ..ThesisCreated::default() }))
    };
    let deleted = |seq, gone| {
        let thesis = Thesis { id: format!("th_{gone}"), ..thesis(0) };
        sequenced(seq, Kind::ThesisDeleted(ThesisDeleted { thesis, ..ThesisDeleted::default() }))
    };
    let log = [created(1), deleted(2, 1), created(3), deleted(4, 3), created(5), deleted(6, 5), created(7)];
    append(&backend, &log).await;
    one.project(&log[..1]).await.unwrap();
    other.project(&log[1..2]).await.unwrap();
    let of_deleted =
        |buckets: Buckets| buckets.into_iter().all(|(scope, _)| scope.starts_with("d:") || scope.starts_with("dt:"));
    assert!(of_deleted(buckets(&store).0), "all others are empty");
    // `one` follows, and knows the bucket from before.
    one.skip_entries(&log[1..2]);
    one.project(&log[2..3]).await.unwrap();
    assert_eq!(listed(backend.clone()).await, BTreeSet::from(["th_3".to_owned()]));
    let versions: BTreeMap<String, i64> = {
        let mut versions = BTreeMap::new();
        store.each(&schema::INDEX_BUCKET, |partition, _, version| {
            versions.insert(partition[1].text().to_owned(), version);
        });
        versions
    };
    assert_eq!(versions["all"], 3);
    // In one batch, too.
    one.project(&log[3..]).await.unwrap();
    assert_eq!(listed(backend).await, BTreeSet::from(["th_7".to_owned()]));
}

#[tokio::test]
async fn a_stretch_is_bounded_by_its_lowest_time_and_by_the_row_it_goes_on_after() {
    let (mut entries, _) = log(&mut Dice(1), 40);
    entries.retain(|SequencedEntry { entry, .. }| matches!(entry.kind, Some(Kind::ThesisCreated(_))));
    let backend: SharedBackend = Arc::new(MemoryStore::new(true));
    let theses = ThesisStore::new(Arc::clone(&backend));
    projector(&backend, theses.clone()).project(&entries).await.unwrap();
    let read = async |from, after: Option<&(i64, String)>, descending| {
        let slice = IndexSlice { from, to: i64::MAX / 2, after: after.cloned(), descending };
        let rows = theses.slice(&Dataset::parse(NAME).unwrap(), &IndexScope::All, &slice, 1_000).await.unwrap();
        rows.into_iter().map(|row| (row.created_at, row.id)).collect::<Vec<_>>()
    };
    let all = read(i64::MIN / 2, None, false).await;
    assert!(all.len() > 5 && all.is_sorted());
    for (from, _) in &all {
        // The row to continue after may be of a dataset that reaches further back.
        for after in &all {
            let later = all.iter().filter(|row| row.0 >= *from && *row > after);
            assert_eq!(read(*from, Some(after), false).await, later.cloned().collect::<Vec<_>>());
            let earlier = all.iter().rev().filter(|row| row.0 >= *from && *row < after);
            assert_eq!(read(*from, Some(after), true).await, earlier.cloned().collect::<Vec<_>>());
        }
    }
}
