//! Commands and counts beside batches under way: which of them wait for the rows.

use super::*;
use crate::{
    domain::id,
    tables::{index_scope::IndexScope, theses::IndexSlice},
};

/// Waits for observations, each of which adds an entry.
async fn expect_applied(observed: impl IntoIterator<Item = JoinHandle<Vec<Result<CommandOutcome>>>>) {
    for observed in observed {
        for outcome in observed.await.unwrap() {
            assert!(outcome.unwrap().applied);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_count_in_memory_does_not_wait_for_rows_under_way() {
    let bench = Bench::new(false).await;
    let (token, at) = (bench.thesis(2).token.id, 100);
    let count = async || {
        let counts = bench.core.datasets.count_here(&bench.dataset, &token, at).await.unwrap();
        counts.expect("what is projected is in memory").last_24h
    };
    // All are on one token.
    for number in [2, 4] {
        bench.create(number).await.unwrap().unwrap();
    }
    bench.gate.set(RowWrites::Wait);
    let created = bench.create(6);
    until(|| bench.gate.appends() == 3).await;
    assert_eq!(count().await, 2);
    bench.gate.set(RowWrites::Pass);
    created.await.unwrap().unwrap();
    assert_eq!(count().await, 3);
}

#[tokio::test(start_paused = true)]
async fn repeats_of_a_thesis_under_way_wait_in_bounded_number() {
    for exclusive in [false, true] {
        let bench = Bench::new(exclusive).await;
        let mut created = bench.create_held(1).await;
        // Each is a batch without entries.
        for _ in 0..8 {
            created.push(bench.create(1));
            pass_time().await;
        }
        created.push(bench.create(2));
        pass_time().await;
        assert_eq!(bench.gate.appends(), 1);
        bench.gate.set(RowWrites::Pass);
        let seqs = join_all(created).await.into_iter().map(|created| created.unwrap().unwrap().seq);
        assert_eq!(seqs.collect::<Vec<_>>(), [1, 1, 1, 1, 1, 1, 1, 1, 1, 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_finds_a_thesis_under_way_and_nothing_is_appended_before_its_rows_are_written() {
    for exclusive in [false, true] {
        let bench = Bench::new(exclusive).await;
        bench.observe_first().await;
        let appends = bench.gate.appends();
        let delete =
            |revision, name: &str| bench.observe(vec![observation(revision, ObservedThing::Deletion(name.to_owned()))]);
        bench.gate.set(RowWrites::Wait);
        let created = bench.observe(vec![thesis(2, post("two", "u", "0xa", "text"))]);
        until(|| bench.gate.appends() == appends + 1).await;
        let deleted = delete(3, "two");
        until(|| bench.gate.appends() == appends + 2).await;
        pass_time().await;
        assert!(!created.is_finished() && !deleted.is_finished());
        bench.gate.set(RowWrites::Pass);
        expect_applied([created, deleted]).await;

        bench.gate.set(RowWrites::Wait);
        let deleted = delete(4, "one");
        until(|| bench.gate.appends() == appends + 3).await;
        let created = bench.observe(vec![thesis(5, post("three", "v", "0xa", "text"))]);
        pass_time().await;
        assert_eq!(bench.gate.appends(), appends + 3);
        bench.gate.set(RowWrites::Pass);
        expect_applied([deleted, created]).await;

        let log = entries(&bench.core, &bench.dataset).await;
        let counts = log[3..].iter().map(|sequenced| match &sequenced.entry.kind {
            Some(Kind::ThesisCreated(created)) => (true, created.totals.theses, created.totals.authors),
            Some(Kind::ThesisDeleted(deleted)) => (false, deleted.totals.theses, deleted.totals.authors),
            other => panic!("no thesis: {other:?}"),
        });
        assert_eq!(counts.collect::<Vec<_>>(), [(true, 2, 1), (false, 1, 1), (false, 0, 0), (true, 1, 1)]);
        let name = bench.dataset.to_string();
        for (upstream_id, is_deleted) in [("one", true), ("two", true), ("three", false)] {
            let id = id::of_thesis(&name, upstream_id);
            let row = bench.core.shared.theses.theses(&[(&name, id.as_str())]).await.unwrap().remove(0).unwrap();
            assert_eq!(row.deleted_at.is_some(), is_deleted, "{upstream_id}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_index_of_a_new_prolific_author_has_the_theses_under_way() {
    for exclusive in [false, true] {
        let bench = Bench::new(exclusive).await;
        bench.observe_first().await;
        let appends = bench.gate.appends();
        bench.gate.set(RowWrites::Wait);
        let second = bench.observe(vec![thesis(2, post("two", "u", "0xa", "text"))]);
        until(|| bench.gate.appends() == appends + 1).await;
        // With this thesis the author becomes prolific.
        let third = bench.observe(vec![thesis(3, post("three", "u", "0xa", "text"))]);
        until(|| bench.gate.appends() == appends + 2).await;
        bench.gate.set(RowWrites::Pass);
        expect_applied([second, third]).await;
        let name = bench.dataset.to_string();
        let scope = IndexScope::ProfileToken(id::of_profile(&name, "u"), id::of_token(&name, "base", "0xa"));
        let everything = IndexSlice { from: 0, to: i64::MAX / 2, after: None, descending: true };
        let rows = bench.core.shared.theses.slice(&bench.dataset, &scope, &everything, 10).await.unwrap();
        assert_eq!(rows.len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_part_of_an_import_is_appended_while_the_rows_of_the_one_before_are_written() {
    for exclusive in [false, true] {
        let bench = Bench::new(exclusive).await;
        let source = Dataset::of_project("source");
        for number in 1..=4 {
            let new = NewThesis { at: bench.thesis(number).at, ..new_thesis(&source, number) };
            bench.core.datasets.create_here(&source, new).await.unwrap();
        }
        let log: Vec<Entry> = entries(&bench.core, &source).await.into_iter().map(|of| of.entry).collect();
        assert_eq!(log.len(), 4);
        let mark = ImportMark { entries: 4, sha256: [3; 32] };
        let import = |after: usize, upto: usize| {
            let (core, dataset) = (Arc::clone(&bench.core), bench.dataset.clone());
            let part = Import { mark, after: after as u64, entries: log[after..upto].to_vec() };
            tokio::spawn(async move { core.datasets.import_here(&dataset, part).await })
        };
        bench.gate.set(RowWrites::Wait);
        let mut imported = vec![import(0, 2)];
        until(|| bench.gate.appends() == 1).await;
        // A write is refused at once, and a repeat of the part waits for its rows.
        let refused = bench.create(9).await.unwrap().unwrap_err();
        assert!(refused.api.message.contains("is being imported"), "{refused}");
        imported.push(import(0, 2));
        pass_time().await;
        imported.push(import(2, 4));
        until(|| bench.gate.appends() == 2).await;
        pass_time().await;
        assert!(imported.iter().all(|imported| !imported.is_finished()));
        assert_eq!(bench.gate.written(), [Written::Log(2), Written::Log(4)]);
        bench.gate.set(RowWrites::Pass);
        for imported in imported {
            assert_eq!(imported.await.unwrap().unwrap(), None);
        }
        assert_eq!(bench.create(9).await.unwrap().unwrap().seq, 5);
        let copy = entries(&bench.core, &bench.dataset).await;
        assert!(copy.iter().zip(&log).all(|(copy, entry)| copy.entry == *entry));
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_stops_waits_for_its_rows() {
    for exclusive in [false, true] {
        let bench = Bench::new(exclusive).await;
        let has_writer = || {
            let progress = bench.core.datasets.progress();
            progress.iter().any(|of| of.dataset == bench.dataset && of.fanned_out.is_some())
        };
        let created = bench.create_held(1).await.remove(0);
        bench.core.stop.cancel();
        pass_time().await;
        assert!(has_writer() && !created.is_finished());
        bench.gate.set(RowWrites::Pass);
        until(|| !has_writer()).await;
        assert!(bench.has_row(1).await);
        assert_eq!(created.await.unwrap().unwrap().seq, 1);
    }
}
