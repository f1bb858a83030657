//! The index of events: its rows follow from the log alone, and together with the end of the log it lists every event.

use super::*;
use crate::{
    domain::{
        entry::{ProfileUpdated, ThesisVelocity, TokenActivity},
        row::{Profile, Token},
    },
    key,
    tables::events::{EventIndex, EventScope, SeqRange},
    tests::{
        faulty::{Fault, Process, StoreCall},
        harness::{ManualClock, SharedMemory},
    },
};

/// The last sequence number of the index's first bucket.
const BUCKET_END: u64 = 262_144;

/// An entry with the scopes that list it.
type Listed = (SequencedEntry, Vec<EventScope>);

/// An entry of a random kind.
fn random_entry(dice: &mut Dice, seq: u64) -> Listed {
    let (author, on) = (dice.roll(4), dice.roll(4));
    let profile = Profile { id: format!("fp_{author}"), handle: format!("@User{author}"), ..Profile::default() };
    let token = Token { id: format!("tk_{on}"), chain: format!("chain{}", on % 2), ..Token::default() };
    let by = EventScope::Handle(format!("user{author}"));
    let mut scopes = vec![EventScope::Token(token.id.clone()), EventScope::Chain(token.chain.clone())];
    let kind = match dice.roll(6) {
        0 | 1 => {
            scopes.push(by);
            Some(Kind::ThesisCreated(ThesisCreated { thesis: thesis(seq), profile, token, ..ThesisCreated::default() }))
        }
        2 => Some(Kind::TokenActivity(TokenActivity { token, ..TokenActivity::default() })),
        3 => Some(Kind::ThesisVelocity(ThesisVelocity { token, ..ThesisVelocity::default() })),
        4 => {
            scopes = vec![by, EventScope::ProfileUpdated];
            Some(Kind::ProfileUpdated(ProfileUpdated { profile, ..ProfileUpdated::default() }))
        }
        5 if seq.is_multiple_of(2) => {
            scopes = vec![EventScope::Deletions(token.id.clone())];
            let thesis = Thesis { token_id: token.id, ..thesis(seq) };
            Some(Kind::ThesisDeleted(ThesisDeleted { thesis, ..ThesisDeleted::default() }))
        }
        _ => {
            scopes.clear();
            None
        }
    };
    (SequencedEntry { seq, entry: Entry { kind, ..Entry::filler(seq, 0) } }, scopes)
}

fn random_log(dice: &mut Dice, after: u64, length: u64) -> Vec<Listed> {
    (after + 1..=after + length).map(|seq| random_entry(dice, seq)).collect()
}

fn entries_of(log: &[Listed]) -> Vec<SequencedEntry> {
    log.iter().map(|(entry, _)| entry.clone()).collect()
}

fn start(backend: &SharedBackend) -> Projector {
    Projector::new(backend.clone(), ThesisStore::new(backend.clone()), NAME.to_owned(), event_id_cipher())
}

/// A store with these entries in the log, and no rows.
fn store_with_log(exclusive: bool, entries: &[SequencedEntry]) -> Arc<MemoryStore> {
    let rows = entries.iter().map(|SequencedEntry { seq, entry }| {
        let (bucket, seq) = (i64::try_from((*seq - 1) / 10_000).unwrap(), i64::try_from(*seq).unwrap());
        // No id of an append.
        let mut body = vec![0_u8];
        body.extend(entry.stored(seq.unsigned_abs()));
        (key![NAME, bucket, seq], Row { clustering: Vec::new(), body: body.into(), version: seq })
    });
    let store = MemoryStore::new(exclusive);
    store.fill(&schema::EVENT_LOG, rows.collect());
    Arc::new(store)
}

/// A store whose rows are written in these parts, each by another projector.
async fn projected(exclusive: bool, entries: &[SequencedEntry], parts: &[&[SequencedEntry]]) -> Arc<MemoryStore> {
    let store = store_with_log(exclusive, entries);
    let backend: SharedBackend = store.clone();
    for part in parts {
        start(&backend).project(part).await.unwrap();
    }
    store
}

/// Compares a random read with the log up to a projected position.
async fn check(index: &EventIndex, dice: &mut Dice, log: &[Listed], projected: u64) {
    let handle = |name: &str| EventScope::Handle(name.to_owned());
    let token = |id: &str| EventScope::Token(id.to_owned());
    let mut scopes = vec![handle("user0"), handle("user3"), handle("nobody"), token("tk_0"), token("tk_1")];
    scopes.extend([EventScope::Chain("chain1".to_owned()), EventScope::ProfileUpdated]);
    scopes.extend(["tk_0", "tk_2"].map(|id| EventScope::Deletions(id.to_owned())));
    scopes.retain(|_| dice.roll(3) == 0);
    let first = log[0].0.seq;
    let bounds = [(); 2].map(|()| first - 1 + dice.roll(projected + 3 - first));
    let between = SeqRange { after: bounds[0].min(bounds[1]), before: bounds[0].max(bounds[1]), projected };
    let (newest_first, limit) = (dice.roll(2) == 0, 1 + usize::try_from(dice.roll(80)).unwrap());
    let found = index.positions(NAME, &scopes, between, newest_first, limit).await.unwrap();
    let inside = log.iter().filter(|(entry, _)| entry.seq > between.after && entry.seq < between.before);
    let listed = inside.filter(|(_, of)| of.iter().any(|scope| scopes.contains(scope)));
    let mut expected: Vec<u64> = listed.map(|(entry, _)| entry.seq).collect();
    if newest_first {
        expected.reverse();
    }
    expected.truncate(limit);
    assert_eq!(found, expected, "{scopes:?} {between:?}, newest first: {newest_first}, limit {limit}");
}

#[tokio::test]
async fn positions_equal_a_filter_of_the_log_at_every_projected_position() {
    for seed in 0..40 {
        let (mut dice, exclusive) = (Dice(seed), seed % 2 == 0);
        let after = if seed % 4 < 2 { 0 } else { BUCKET_END - 192 };
        let log = random_log(&mut dice, after, 300);
        let entries = entries_of(&log);
        let store = store_with_log(exclusive, &entries);
        let backend: SharedBackend = store.clone();
        let process = Process::new(backend.clone());
        let mut faults = Dice(!seed);
        process.set_chooser(Box::new(move |_, call: StoreCall| {
            let is_apply = matches!(call, StoreCall::Apply(_));
            let fault = if is_apply && !exclusive { Fault::Half } else { Fault::NotDone };
            (faults.roll(6) == 0).then_some(fault)
        }));
        process.count(true);
        let faulty: SharedBackend = process;
        let index = EventIndex::new(backend.clone());
        let (mut projector, mut done) = (start(&faulty), 0);
        while done < entries.len() {
            let upto = (done + 1 + usize::try_from(dice.roll(40)).unwrap()).min(entries.len());
            let part = &entries[done..upto];
            let by_other = dice.roll(4) == 0;
            if by_other {
                start(&backend).project(part).await.unwrap();
                // This projector sees them, or misses them.
                if dice.roll(2) == 0 {
                    projector.skip_entries(part);
                }
            }
            if by_other || projector.project(part).await.is_ok() {
                done = upto;
            } else if dice.roll(2) == 0 {
                projector = start(&faulty);
            }
            for _ in 0..4 {
                check(&index, &mut dice, &log, after + done as u64).await;
            }
        }
        let again = projected(exclusive, &entries, &[&entries]).await;
        assert!(store.same(&again, &schema::EVENT_INDEX), "seed {seed}");
    }
}

#[tokio::test]
async fn positions_are_right_in_any_order_of_projected_positions() {
    let log = random_log(&mut Dice(4), 0, 300);
    let entries = entries_of(&log);
    let backend: SharedBackend = projected(true, &entries, &[&entries]).await;
    let (index, mut dice) = (EventIndex::new(backend), Dice(5));
    for _ in 0..500 {
        // Often near the last one, and often in another segment.
        let position = if dice.roll(2) == 0 { 1 + dice.roll(300) } else { 290 + dice.roll(10) };
        check(&index, &mut dice, &log, position).await;
    }
}

#[tokio::test]
async fn rows_are_the_same_wherever_a_projector_starts() {
    let entries = entries_of(&random_log(&mut Dice(1), 0, 130));
    let whole = projected(true, &entries, &[&entries]).await;
    for cut in 0..=entries.len() {
        let (first, rest) = entries.split_at(cut);
        let split = projected(cut % 2 == 0, &entries, &[first, rest]).await;
        assert!(split.same(&whole, &schema::EVENT_INDEX), "split at {cut}");
        let again = projected(cut % 2 == 1, &entries, &[&entries, rest]).await;
        assert!(again.same(&whole, &schema::EVENT_INDEX), "again from {cut}");
    }
}

#[tokio::test]
async fn batches_that_are_prepared_ahead_are_written_as_one_after_the_other() {
    for seed in 0..20 {
        let (mut dice, exclusive) = (Dice(seed), seed % 2 == 0);
        let entries = entries_of(&random_log(&mut dice, 0, 200));
        let store = store_with_log(exclusive, &entries);
        let backend: SharedBackend = store.clone();
        let projector = start(&backend);
        let (mut ahead, mut done) = (Vec::new(), 0);
        while done < entries.len() {
            let upto = (done + 1 + usize::try_from(dice.roll(30)).unwrap()).min(entries.len());
            let part = &entries[done..upto];
            ahead.push((part, projector.prepare(part).await.unwrap()));
            done = upto;
            if dice.roll(3) == 0 || done == entries.len() {
                for (part, prepared) in ahead.drain(..) {
                    projector.write(part, prepared, Vec::new()).await.unwrap();
                }
            }
        }
        let again = projected(exclusive, &entries, &[&entries]).await;
        for table in [&schema::EVENT_INDEX, &schema::INDEX_BUCKET] {
            assert!(store.same(&again, table), "seed {seed}, {}", table.name);
        }
    }
}

#[tokio::test]
async fn prepared_rows_that_are_forgotten_change_nothing_in_the_index() {
    for seed in 0..20 {
        let mut dice = Dice(seed);
        let log = random_log(&mut dice, 0, 200);
        let entries = entries_of(&log);
        let store = Arc::new(MemoryStore::new(true));
        let backend: SharedBackend = store.clone();
        let (projector, index) = (start(&backend), EventIndex::new(backend.clone()));
        let mut head = 0;
        while head < entries.len() {
            let upto = (head + 1 + usize::try_from(dice.roll(30)).unwrap()).min(entries.len());
            if head > 0 && dice.roll(3) == 0 {
                drop(projector.prepare(&entries[head - 1..upto]).await.unwrap());
                projector.forget_prepared();
            }
            projector.append_and_project(head as u64, &entries[head..upto]).await;
            head = upto;
            check(&index, &mut dice, &log, head as u64).await;
        }
        let again = projected(true, &entries, &[&entries]).await;
        assert!(store.same(&again, &schema::EVENT_INDEX), "seed {seed}");
    }
}

#[tokio::test]
async fn a_page_takes_few_reads_and_only_the_first_pages_read_the_log() {
    let backend = SharedMemory::new(&ManualClock::new());
    let shared: SharedBackend = backend.clone();
    let log = random_log(&mut Dice(2), 0, 500);
    let entries = entries_of(&log);
    append(&shared, &entries).await;
    start(&shared).project(&entries).await.unwrap();
    let scopes = [EventScope::Chain("chain1".to_owned())];
    let scans = || (backend.scans(&schema::EVENT_LOG), backend.scans(&schema::EVENT_INDEX));
    let (mut before, mut found) = (501, 0);
    loop {
        let between = SeqRange { after: 0, before, projected: 500 };
        let earlier = scans();
        // The index of another request would have the end of the log in memory.
        let index = EventIndex::new(shared.clone());
        let page = index.positions(NAME, &scopes, between, true, 20).await.unwrap();
        let (logs, rows) = scans();
        // Seven segments are full.
        assert_eq!(logs - earlier.0, usize::from(before > 7 * 64 + 1), "before {before}");
        assert!(rows - earlier.1 <= 2, "before {before}");
        let Some(last) = page.last() else { break };
        (before, found) = (*last, found + page.len());
    }
    assert_eq!(found, log.iter().filter(|(_, listed)| listed.contains(&scopes[0])).count());
}

#[tokio::test]
async fn an_entry_of_a_newer_version_hides_no_other() {
    let mut log = random_log(&mut Dice(3), 0, 20);
    log[9] = (SequencedEntry { seq: 10, entry: Entry { id: "ent_newer".to_owned(), ..Entry::default() } }, Vec::new());
    let index = EventIndex::new(store_with_log(true, &entries_of(&log)));
    for seed in 0..20 {
        check(&index, &mut Dice(seed), &log, 20).await;
    }
}
