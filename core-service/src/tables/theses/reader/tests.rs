//! Theses are stored once where this process alone writes: their rows refer to the log.

use futures::FutureExt as _;

use super::*;
use crate::{
    domain::{
        entry::{Entry, Kind, SequencedEntry, ThesisChanged, ThesisCreated, ThesisDeleted, ThesisEdited},
        event_id::thesis_event_id,
        window::DAY_MS,
    },
    log::projection::Projector,
    store::{Consistency, SharedBackend, schema},
    tables::{
        index_scope::IndexScope,
        theses::{IndexSlice, creation_changes, logged_thesis_change},
    },
    tests::{
        faulty::{MemoryStore, Process, StoreCall},
        harness::{ManualClock, event_id_cipher, memory, shared_memory},
    },
};

const DATASETS: [&str; 2] = ["sandbox", "live"];

/// A thesis as an entry has it. Its text names the entry.
fn thesis(id: &str, sequence: Option<u64>, text: &str) -> Thesis {
    Thesis { id: id.to_owned(), profile_id: "fp_1".to_owned(), text: text.to_owned(), sequence, ..Thesis::default() }
}

/// A log that writes each thesis in another kind of entry last.
fn log(dataset: &str) -> Vec<SequencedEntry> {
    let text = |seq: u64| format!("{seq} of {dataset}");
    let created = |seq| {
        let thesis = thesis(&format!("th_{seq}"), Some(seq), &text(seq));
        (thesis_event_id(&thesis.id), Kind::ThesisCreated(ThesisCreated { thesis, ..ThesisCreated::default() }))
    };
    let changed = |seq: u64, of: u64| (format!("ent_{seq}"), thesis(&format!("th_{of}"), Some(of), &text(seq)));
    let (edited, liked, deleted) = (changed(5, 2), changed(6, 3), changed(7, 4));
    let awaited = ThesisChanged { thesis: Thesis { profile_id: String::new(), ..thesis("th_8", None, &text(8)) } };
    let kinds = [
        created(1),
        created(2),
        created(3),
        created(4),
        (edited.0, Kind::ThesisEdited(ThesisEdited { thesis: edited.1, ..ThesisEdited::default() })),
        (liked.0, Kind::Engagement(ThesisChanged { thesis: liked.1 })),
        (deleted.0, Kind::ThesisDeleted(ThesisDeleted { thesis: deleted.1, ..ThesisDeleted::default() })),
        ("ent_8".to_owned(), Kind::ThesisAwaited(awaited)),
    ];
    let entries = (1..).zip(kinds).map(|(seq, (id, kind))| {
        let entry = Entry { id, kind: Some(kind), ..Entry::default() };
        SequencedEntry { seq, entry }
    });
    entries.collect()
}

async fn write(backend: &SharedBackend) {
    for dataset in DATASETS {
        let theses = ThesisStore::new(Arc::clone(backend));
        let projector = Projector::new(Arc::clone(backend), theses, dataset.to_owned(), event_id_cipher());
        let entries = log(dataset);
        let (first, rest) = entries.split_at(6);
        projector.append_and_project(0, first).await;
        projector.append_and_project(6, rest).await;
    }
}

#[tokio::test]
async fn a_list_reads_its_rows_and_then_their_entries() {
    let clock = ManualClock::new();
    for backend in [memory(&clock), shared_memory(&clock)] {
        write(&backend).await;
        let ids: Vec<String> = [8, 4, 3, 2, 1, 9].map(|number| format!("th_{number}")).to_vec();
        let keys: Vec<(String, &str)> =
            DATASETS.iter().flat_map(|of| ids.iter().map(move |id| ((*of).to_owned(), id.as_str()))).collect();
        let process = Process::new(Arc::clone(&backend));
        process.count(true);
        let found = ThesisStore::new(process.clone()).theses(&keys).await.unwrap();
        let texts = found.iter().map(|thesis| thesis.as_ref().map(|thesis| thesis.text.clone()));
        let expected = DATASETS.iter().flat_map(|dataset| {
            let seqs = [Some(8), Some(7), Some(6), Some(5), Some(1), None];
            seqs.map(|seq| seq.map(|seq: u64| format!("{seq} of {dataset}")))
        });
        assert_eq!(texts.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        let sequences: Vec<_> = found[..5].iter().flatten().map(|thesis| thesis.sequence).collect();
        assert_eq!(sequences, [None, Some(4), Some(3), Some(2), Some(1)]);
        assert_eq!(process.calls().len(), if backend.is_exclusive() { 2 } else { 1 });
        for (dataset, id) in &keys {
            let row = backend.get(&schema::THESIS, &key![dataset, *id], Consistency::Quorum).await.unwrap();
            assert!(row.is_none_or(|row| row.body.is_empty() == backend.is_exclusive()), "{dataset} {id}");
        }
    }
}

#[tokio::test]
async fn a_row_whose_entry_does_not_have_its_thesis_is_damage() {
    let backend = memory(&ManualClock::new());
    write(&backend).await;
    let filler = SequencedEntry { seq: 9, entry: Entry::filler(9, 0) };
    let theses = ThesisStore::new(Arc::clone(&backend));
    let projector = Projector::new(Arc::clone(&backend), theses.clone(), "live".to_owned(), event_id_cipher());
    projector.append_and_project(8, &[filler]).await;
    // The creation of another thesis, an entry without one, and none.
    for version in [2, 9, 10] {
        theses.apply(vec![logged_thesis_change("live", &thesis("th_1", None, ""), version)]).await.unwrap();
        let found = theses.theses(&[("live".to_owned(), "th_1")]).await;
        assert!(matches!(found, Err(StoreError::Damaged(_))), "{found:?}");
    }
}

/// The ids of the newest live theses.
async fn newest(theses: &ThesisStore) -> Vec<String> {
    let slice = IndexSlice { from: i64::MIN / 2, to: i64::MAX / 2, after: None, descending: true };
    let reader = theses.reader(&View::live()).await.unwrap();
    let rows = reader.slices(&Dataset::Live, &[IndexScope::All], &slice, 3).await.unwrap();
    rows.into_iter().map(|row| row.id).collect()
}

#[tokio::test]
async fn a_list_of_the_only_writer_is_read_once_until_a_write() {
    let backend = memory(&ManualClock::new());
    write(&backend).await;
    let process = Process::new(backend);
    process.count(true);
    let theses = ThesisStore::new(process.clone());
    let list = async || {
        let before = process.calls().len();
        let ids = newest(&theses).await.join(" ");
        (process.calls().len() - before, ids)
    };
    // The first read lists the buckets. Later ones guess the first bucket and read its rows in the same call.
    assert_eq!(list().await, (2, "th_3 th_2 th_1".to_owned()));
    assert_eq!(list().await, (0, "th_3 th_2 th_1".to_owned()));
    let mut created = Vec::new();
    creation_changes("live", &thesis("th_5", None, ""), 9, |_, _| true, &mut created);
    theses.apply(created).await.unwrap();
    assert_eq!(list().await, (1, "th_5 th_3 th_2".to_owned()));
    assert_eq!(list().await, (0, "th_5 th_3 th_2".to_owned()));

    let writing = theses.rows.write(Vec::new());
    assert_eq!([list().await.0, list().await.0], [1, 1], "a write runs, which may change the list at any moment");
    drop(writing);
    assert_eq!([list().await.0, list().await.0], [1, 0]);
    drop(theses.rows.write(Vec::new()));
    let rows = Arc::clone(&theses.rows);
    process.set_chooser(Box::new(move |_, called| {
        if called == StoreCall::Read {
            drop(rows.write(Vec::new()));
        }
        None
    }));
    assert_eq!([list().await.0, list().await.0], [1, 1], "the list may lack what was written while it was read");
}

#[tokio::test]
async fn a_list_of_the_only_writer_shows_one_state() {
    let backend: SharedBackend = Arc::new(MemoryStore::new(true));
    let process = Process::new(Arc::clone(&backend));
    let theses = ThesisStore::new(process.clone());
    let writer = ThesisStore { backend, ..theses.clone() };
    let create = move |id: &str, created_at: i64| {
        let mut created = Vec::new();
        let thesis = Thesis { created_at, ..thesis(id, None, "") };
        creation_changes("live", &thesis, 1, |_, _| true, &mut created);
        writer.apply(created).now_or_never().expect("this store answers at once").unwrap();
    };
    create("th_1", 1);
    assert_eq!(newest(&theses).await, ["th_1"]);
    // The next list reads again, but knows the first bucket already.
    create("th_2", 2);
    let mut reads = 0;
    process.set_chooser(Box::new(move |_, _| {
        reads += 1;
        if reads == 2 {
            create("th_4", 9 * DAY_MS);
            create("th_3", 3);
        }
        None
    }));
    process.count(true);
    let list = newest(&theses).await;
    assert!(list == ["th_2", "th_1"] || list == ["th_4", "th_3", "th_2"], "th_4 came before th_3: {list:?}");
}

#[tokio::test]
async fn a_longer_list_than_the_cached_one_is_read() {
    let backend = memory(&ManualClock::new());
    let theses = ThesisStore::new(backend);
    let mut created = Vec::new();
    for number in 10..90 {
        creation_changes("live", &thesis(&format!("th_{number}"), None, ""), 1, |_, _| true, &mut created);
    }
    theses.apply(created).await.unwrap();
    let reader = theses.reader(&View::live()).await.unwrap();
    let everything = IndexSlice { from: i64::MIN / 2, to: i64::MAX / 2, after: None, descending: true };
    // Some limits are beyond the largest cached partition, and all lists but the first find cached rows.
    for limit in [5, 3, 39, 5, 41, 100, 79, 80, 81, 2] {
        let after = Some((0, "th_85".to_owned()));
        for (slice, first) in [(everything.clone(), 89), (IndexSlice { after, ..everything.clone() }, 84)] {
            let rows = reader.slices(&Dataset::Live, &[IndexScope::All], &slice, limit).await.unwrap();
            let ids: Vec<String> = rows.into_iter().map(|row| row.id).collect();
            let expected = (10..=first).rev().take(limit).map(|number| format!("th_{number}"));
            assert_eq!(ids, expected.collect::<Vec<_>>(), "{limit} from {first}");
        }
    }
}
