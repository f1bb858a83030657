//! Indexes and names, read at one core while another one writes, or the only one.

use std::collections::BTreeMap;

use super::*;
use crate::{
    domain::{
        entry::{ProfileUpdated, ThesisCreated, ThesisDeleted, Totals},
        window::DAY_MS,
    },
    tables::{
        index_scope::IndexScope,
        theses::{IndexSlice, RowReader},
    },
    tests::harness::NOON,
};

const NEWEST: IndexSlice = IndexSlice { from: i64::MIN / 2, to: i64::MAX / 2, after: None, descending: true };

/// A thesis of a random author and time, among few of each: an index has several buckets.
fn random_thesis(dice: &mut Dice, seq: u64) -> Thesis {
    let [days, ms] = [3, 1_000].map(|below| i64::try_from(dice.roll(below)).unwrap());
    Thesis {
        id: format!("th_{seq:03}"),
        profile_id: format!("fp_{}", dice.roll(8)),
        token_id: "tk_one".to_owned(),
        chain: "base".to_owned(),
        created_at: NOON - days * DAY_MS - ms,
        ..Thesis::default()
    }
}

/// A log of created and deleted theses.
fn random_log(dice: &mut Dice, length: u64) -> Vec<SequencedEntry> {
    let (mut there, mut by_author) = (Vec::new(), BTreeMap::<String, i64>::new());
    let mut totals = |author: &str, added: i64| {
        let count = by_author.entry(author.to_owned()).or_default();
        *count = (*count + added).min(Totals::MAX_BY_AUTHOR);
        Totals { by_author: *count, ..Totals::default() }
    };
    let mut kind = |seq| {
        if !there.is_empty() && dice.roll(3) == 0 {
            let gone: Thesis = there.swap_remove(usize::try_from(dice.roll(there.len() as u64)).unwrap());
            let totals = totals(&gone.profile_id, 0);
            return Kind::ThesisDeleted(ThesisDeleted { thesis: gone, totals, ..ThesisDeleted::default() });
        }
        let thesis = random_thesis(dice, seq);
        there.push(thesis.clone());
        let totals = totals(&thesis.profile_id, 1);
        Kind::ThesisCreated(ThesisCreated { thesis, totals, ..ThesisCreated::default() })
    };
    let entry = |(seq, kind)| SequencedEntry {
        seq,
        entry: Entry { id: format!("ent_{seq}"), kind: Some(kind), ..Entry::default() },
    };
    (1..=length).map(|seq| (seq, kind(seq))).map(entry).collect()
}

/// The sequence numbers of a thesis's creation and deletion.
struct Lifetime {
    thesis: Thesis,
    created: u64,
    deleted: Option<u64>,
}

fn lifetimes(log: &[SequencedEntry]) -> BTreeMap<String, Lifetime> {
    let mut all = BTreeMap::new();
    for SequencedEntry { seq, entry } in log {
        match &entry.kind {
            Some(Kind::ThesisCreated(created)) => {
                let thesis = created.thesis.clone();
                all.insert(thesis.id.clone(), Lifetime { thesis, created: *seq, deleted: None });
            }
            Some(Kind::ThesisDeleted(deleted)) => all.get_mut(&deleted.thesis.id).unwrap().deleted = Some(*seq),
            _ => {}
        }
    }
    all
}

/// Reads a random list, and compares it with the log up to a position that was projected before.
async fn check(theses: &ThesisStore, dice: &mut Dice, all: &BTreeMap<String, Lifetime>, projected: u64) {
    let author = format!("fp_{}", dice.roll(8));
    let scope = match dice.roll(4) {
        0 => IndexScope::All,
        1 => IndexScope::Token("tk_one".to_owned()),
        2 => IndexScope::Profile(author.clone()),
        _ => IndexScope::ProfileToken(author.clone(), "tk_one".to_owned()),
    };
    let is_of_author = matches!(scope, IndexScope::Profile(_) | IndexScope::ProfileToken(..));
    let limit = 1 + usize::try_from(dice.roll(12)).unwrap();
    let reader = theses.reader(&View::live()).await.unwrap();
    let rows = reader.slices(&Dataset::Live, std::slice::from_ref(&scope), &NEWEST, limit).await.unwrap();
    let listed: Vec<_> = rows.into_iter().map(|row| (row.created_at, row.id)).collect();
    assert!(listed.is_sorted_by(|a, b| a > b), "{listed:?}");
    for (_, id) in &listed {
        let gone = all[id].deleted.is_some_and(|deleted| deleted <= projected);
        assert!(!gone, "{id} is deleted at {projected}: {scope:?}");
    }
    for Lifetime { thesis, created, deleted } in all.values() {
        let stays = *created <= projected && deleted.is_none() && (!is_of_author || thesis.profile_id == author);
        let place = (thesis.created_at, thesis.id.clone());
        // A full page ends with its last row.
        let is_within = listed.len() < limit || listed.last().is_some_and(|last| *last <= place);
        assert!(!(stays && is_within) || listed.contains(&place), "{place:?} is missing at {projected}: {scope:?}");
    }
}

/// Reads lists until the whole log is projected.
async fn read(theses: &ThesisStore, mut dice: Dice, all: &BTreeMap<String, Lifetime>, projected: &AtomicU64) {
    loop {
        // A list from memory never suspends the task, so this lets the writer run.
        yield_now().await;
        let known = projected.load(Ordering::SeqCst);
        check(theses, &mut dice, all, known).await;
        if known >= LENGTH {
            return;
        }
    }
}

/// Writes a random log, and reads lists meanwhile.
async fn write_and_read(seed: u64, mut writer: OtherWriter, theses: &ThesisStore) {
    let log = random_log(&mut Dice(seed), LENGTH);
    let (all, projected) = (lifetimes(&log), AtomicU64::new(0));
    let write = async {
        let mut dice = Dice(seed);
        while writer.head < LENGTH {
            // Now and then more entries come than are applied at once.
            let max_new = if dice.roll(8) == 0 { 2 * MAX_APPLIED } else { 3 };
            let upto = (writer.head + 1 + dice.roll(max_new)).min(LENGTH);
            let [from, upto] = [writer.head, upto].map(|seq| usize::try_from(seq).unwrap());
            writer.write_entries(&log[from..upto]).await;
            projected.store(writer.head, Ordering::SeqCst);
            // Sometimes readers fill the cache.
            wait(dice.roll(40)).await;
        }
    };
    let readers = (1..6).map(|number| read(theses, Dice(1_000 * number + seed), &all, &projected));
    join(write, join_all(readers)).await;
}

#[tokio::test]
async fn a_list_is_as_new_as_the_projection_at_the_start_of_its_request() {
    for seed in 0..60 {
        let backend: SharedBackend = Slow::new(seed);
        let theses = ThesisStore::new(Arc::clone(&backend));
        write_and_read(seed, OtherWriter::new(&backend), &theses).await;
    }
}

#[tokio::test]
async fn a_list_of_the_only_core_is_as_new_as_the_projection_at_the_start_of_its_request() {
    for seed in 0..60 {
        let backend: SharedBackend = Slow::with(seed, true);
        let theses = ThesisStore::new(Arc::clone(&backend));
        write_and_read(seed, OtherWriter::of_core(&backend, theses.clone()), &theses).await;
    }
}

#[tokio::test]
async fn a_name_is_read_once_and_then_the_log_brings_its_changes() {
    let store = SharedMemory::new(&ManualClock::new());
    let backend: SharedBackend = store.clone();
    let (theses, mut writer) = (ThesisStore::new(Arc::clone(&backend)), OtherWriter::new(&backend));
    let view = View::live();
    let holders = async || {
        let reader = theses.reader(&view).await.unwrap();
        let mut found = Vec::new();
        for handle in ["ana", "@Bob"] {
            found.push(reader.profile_id_by_handle(&view, handle).await.unwrap());
        }
        found
    };
    let profile = |handle: &str| Profile { id: "fp_1".to_owned(), handle: handle.to_owned(), ..Profile::default() };
    let entry = |seq, kind| SequencedEntry {
        seq,
        entry: Entry { id: format!("ent_{seq}"), kind: Some(kind), ..Entry::default() },
    };
    writer.write_entries(&[entry(1, Kind::ProfileObserved(ProfileObserved { profile: profile("@ana") }))]).await;
    let fp_1 = || Some("fp_1".to_owned());
    assert_eq!(holders().await, [fp_1(), None]);
    let scans = store.scans(&schema::HANDLE_CLAIMS);
    assert_eq!(holders().await, [fp_1(), None]);
    let previous_handle = Some("@ana".to_owned());
    let renamed = ProfileUpdated { profile: profile("@bob"), previous_handle, ..ProfileUpdated::default() };
    writer.write_entries(&[entry(2, Kind::ProfileUpdated(renamed))]).await;
    assert_eq!(holders().await, [None, fp_1()]);
    assert_eq!(store.scans(&schema::HANDLE_CLAIMS), scans);
}

#[tokio::test]
async fn a_partition_that_was_read_while_entries_came_is_cached_with_their_changes() {
    let store = SharedMemory::new(&ManualClock::new());
    let backend: SharedBackend = store.clone();
    let (theses, mut writer) = (ThesisStore::new(Arc::clone(&backend)), OtherWriter::new(&backend));
    let log = random_log(&mut Dice(2), 6);
    writer.write_entries(&log[..2]).await;
    let view = View::live();
    let read = async |reader: &RowReader<'_>, scope: IndexScope| {
        let rows = reader.slices(&Dataset::Live, &[scope], &NEWEST, 10).await.unwrap();
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    let token = || IndexScope::Token("tk_one".to_owned());
    // The entries are applied, because something is cached.
    let early = theses.reader(&view).await.unwrap();
    read(&early, IndexScope::All).await;
    writer.write_entries(&log[2..]).await;
    theses.reader(&view).await.unwrap();
    let found = read(&early, token()).await;
    assert!(!found.is_empty());
    assert_eq!(read(&theses.direct_reader(), token()).await, found);
    let scans = || store.scans(&schema::THESIS_INDEX) + store.scans(&schema::INDEX_BUCKET);
    let before = scans();
    assert_eq!(read(&theses.reader(&view).await.unwrap(), token()).await, found);
    assert_eq!(scans(), before);
}

#[tokio::test]
async fn an_author_who_becomes_prolific_leaves_all_lists_in_the_cache() {
    let store = SharedMemory::new(&ManualClock::new());
    let backend: SharedBackend = store.clone();
    let (theses, mut writer) = (ThesisStore::new(Arc::clone(&backend)), OtherWriter::new(&backend));
    let created = |seq: u64| {
        let number = i64::try_from(seq).unwrap();
        let thesis = Thesis {
            id: format!("th_{seq}"),
            profile_id: "fp_1".to_owned(),
            token_id: "tk_one".to_owned(),
            chain: "base".to_owned(),
            created_at: NOON + number,
            ..Thesis::default()
        };
        let totals = Totals { by_author: number, ..Totals::default() };
        let kind = Some(Kind::ThesisCreated(ThesisCreated { thesis, totals, ..ThesisCreated::default() }));
        SequencedEntry { seq, entry: Entry { id: format!("ent_{seq}"), kind, ..Entry::default() } }
    };
    let list = async |scope: IndexScope| {
        let reader = theses.reader(&View::live()).await.unwrap();
        let rows = reader.slices(&Dataset::Live, &[scope], &NEWEST, 10).await.unwrap();
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    let of_author = || IndexScope::ProfileToken("fp_1".to_owned(), "tk_one".to_owned());
    let scans = || store.scans(&schema::THESIS_INDEX) + store.scans(&schema::INDEX_BUCKET);
    writer.write_entries(&[created(1), created(2)]).await;
    assert_eq!(list(IndexScope::All).await, ["th_2", "th_1"]);
    assert_eq!(list(of_author()).await, ["th_2", "th_1"]);
    // With this thesis the author becomes prolific.
    writer.write_entries(&[created(3)]).await;
    let before = scans();
    assert_eq!(list(IndexScope::All).await, ["th_3", "th_2", "th_1"]);
    assert_eq!(scans(), before);
    // The index of the author and the token is read now, with the older theses.
    assert_eq!(list(of_author()).await, ["th_3", "th_2", "th_1"]);
    writer.write_entries(&[created(4)]).await;
    let before = scans();
    assert_eq!(list(of_author()).await, ["th_4", "th_3", "th_2", "th_1"]);
    assert_eq!(scans(), before);
}
