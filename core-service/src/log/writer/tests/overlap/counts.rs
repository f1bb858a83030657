//! Counts of random batches that overlap.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::{
    domain::id,
    tables::{index_scope::IndexScope, theses::IndexSlice},
};

/// Repeatable random numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % below as u64).unwrap()
    }
}

/// Posts and deletes theses while writes of rows wait, fail and pass.
async fn history(bench: &Bench, mut dice: Dice) {
    let (mut posts, mut observations, mut observed) = (0, Vec::new(), Vec::new());
    for _ in 0..100 {
        let observation = match dice.roll(12) {
            0 => {
                bench.gate.set(RowWrites::Wait);
                continue;
            }
            1 => {
                bench.gate.set(if dice.roll(4) == 0 { RowWrites::Fail } else { RowWrites::Pass });
                continue;
            }
            2 => {
                bench.clock.advance(2_000);
                continue;
            }
            3 if posts > 0 => observation(2, ObservedThing::Deletion(format!("post {}", dice.roll(posts)))),
            _ => {
                let seen = post(&format!("post {posts}"), &format!("u{}", posts % 4), &format!("0x{}", posts % 2), "");
                posts += 1;
                let now_ms = clock_now(&bench.core);
                thesis(1, ObservedThesis { created_at: now_ms, updated_at: now_ms, ..seen })
            }
        };
        observations.push(observation.clone());
        observed.push(bench.observe(vec![observation]));
        if dice.roll(2) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    bench.gate.set(RowWrites::Pass);
    join_all(observed).await;
    // Some of them failed.
    for observed in bench.observe(observations).await.unwrap() {
        observed.unwrap();
    }
    for _ in 0..3 {
        bench.clock.advance(2 * DERIVE_EVERY_MS);
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
}

/// By id of a thesis: its token and its author.
type Theses = BTreeMap<String, (String, String)>;

/// Counts the theses on a token and their authors.
fn count(theses: &Theses, token: &str) -> (i64, i64) {
    let authors: Vec<&String> = theses.values().filter(|(on, _)| on == token).map(|(_, author)| author).collect();
    let distinct: BTreeSet<&String> = authors.iter().copied().collect();
    (i64::try_from(authors.len()).unwrap(), i64::try_from(distinct.len()).unwrap())
}

/// Compares the counts in the log with the entries before them. Returns the theses at its end.
fn recount(log: &[SequencedEntry]) -> Theses {
    let (mut theses, mut not_derived) = (Theses::new(), BTreeSet::new());
    for SequencedEntry { seq, entry } in log {
        match &entry.kind {
            Some(Kind::ThesisCreated(ThesisCreated { thesis, totals, .. })) => {
                theses.insert(thesis.id.clone(), (thesis.token_id.clone(), thesis.profile_id.clone()));
                not_derived.insert(thesis.token_id.clone());
                assert_eq!((totals.theses, totals.authors), count(&theses, &thesis.token_id), "entry {seq}");
            }
            Some(Kind::ThesisDeleted(deleted)) => {
                theses.remove(&deleted.thesis.id);
                let (thesis, totals) = (&deleted.thesis, &deleted.totals);
                assert_eq!((totals.theses, totals.authors), count(&theses, &thesis.token_id), "entry {seq}");
            }
            Some(Kind::TokenActivity(activity)) => {
                let counted = (activity.thesis_count_24h, activity.unique_authors_24h);
                assert_eq!(counted, count(&theses, &activity.token.id), "entry {seq}");
                not_derived.remove(&activity.token.id);
            }
            _ => {}
        }
    }
    assert!(not_derived.is_empty(), "derived events are lost: {not_derived:?}");
    theses
}

#[tokio::test(start_paused = true)]
async fn counts_of_overlapping_batches_equal_a_recount() {
    for seed in 0..20 {
        let bench = Bench::new(seed % 2 == 0).await;
        history(&bench, Dice(seed)).await;
        let log = entries(&bench.core, &bench.dataset).await;
        let ids: HashSet<&str> = log.iter().map(|sequenced| sequenced.entry.id.as_str()).collect();
        assert_eq!(ids.len(), log.len(), "seed {seed}: something stands in the log twice");
        assert!(bench.gate.checkpoints().is_sorted(), "seed {seed}");
        let (theses, rows, name) = (recount(&log), &bench.core.shared.theses, bench.dataset.to_string());
        let everything = IndexSlice { from: 0, to: i64::MAX / 2, after: None, descending: true };
        for address in ["0x0", "0x1"] {
            let token = id::of_token(&name, "base", address);
            let totals = rows.totals(&name, &[&token]).await.unwrap().remove(0);
            assert_eq!((totals.theses, totals.authors), count(&theses, &token), "seed {seed}");
            for author in ["u0", "u1", "u2", "u3"] {
                let author = id::of_profile(&name, author);
                let scope = IndexScope::ProfileToken(author.clone(), token.clone());
                let reader = rows.direct_reader();
                let listed = reader.slices(&bench.dataset, &[scope], &everything, 1_000).await.unwrap();
                let expected = theses.values().filter(|(on, by)| *on == token && *by == author).count();
                assert_eq!(listed.len(), expected, "seed {seed}");
            }
        }
    }
}
