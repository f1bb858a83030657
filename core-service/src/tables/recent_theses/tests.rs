use proptest::prelude::*;

use super::*;
use crate::{
    domain::{
        dataset::{Dataset, View},
        row::Thesis,
        window::HOUR_MS,
    },
    tables::theses::{ThesisStore, creation_changes, deletion_changes},
    tests::harness::{ManualClock, memory, shared_memory},
};

const TOKEN: &str = "tk_1";

fn thesis(created_at: i64, author: u8) -> Thesis {
    Thesis {
        id: format!("th_{created_at}_{author}"),
        profile_id: format!("fp_{author}"),
        token_id: TOKEN.to_owned(),
        chain: "solana".to_owned(),
        created_at,
        ..Thesis::default()
    }
}

/// A thesis is added or removed, or the counts are read; times in quarters of an hour.
#[derive(Clone, Debug)]
enum Step {
    Write { project: bool, goes: bool, age: i64, author: u8 },
    Count { pass: i64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (any::<bool>(), prop::bool::weighted(0.3), -1..120_i64, 0..5_u8)
            .prop_map(|(project, goes, age, author)| Step::Write { project, goes, age, author }),
        1 => (-2..20_i64).prop_map(|pass| Step::Count { pass }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Theses in memory count as the rows do, whatever is written and however time passes between two looks.
    #[test]
    fn memory_counts_as_the_rows_do(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let clock = ManualClock::new();
            let kept = ThesisStore::new(memory(&clock));
            let rows = ThesisStore::new(shared_memory(&clock));
            let view = View::test("prj_1");
            let (mut now, mut version) = (100 * DAY_MS, 0);
            for step in steps {
                match step {
                    Step::Write { project, goes, age, author } => {
                        let dataset = &view.datasets()[usize::from(project)].to_string();
                        let thesis = thesis(now - age * HOUR_MS / 4, author);
                        version += 1;
                        let mut changes = Vec::new();
                        if goes {
                            deletion_changes(dataset, &thesis, version, |_, _| true, &mut changes);
                        } else {
                            creation_changes(dataset, &thesis, version, |_, _| true, &mut changes);
                        }
                        rows.apply(changes.clone()).await.unwrap();
                        kept.apply(changes).await.unwrap();
                    }
                    Step::Count { pass } => {
                        now += pass * HOUR_MS / 4;
                        let counted = kept.counts(&view, TOKEN, now, DAY_MS).await.unwrap();
                        assert_eq!(counted, rows.counts(&view, TOKEN, now, DAY_MS).await.unwrap());
                    }
                }
            }
        });
    }
}

#[test]
fn what_is_told_while_rows_are_read_is_not_missed() {
    let all = RecentTheses::default();
    let at = 10 * DAY_MS;
    let moved = |age: i64, author: Option<&str>| ThesisMove {
        key: key("live", TOKEN),
        created_at: at - age,
        id: format!("th_{age}"),
        author: author.map(str::to_owned),
    };
    let filling = all.start_fill("live", TOKEN, at).unwrap();
    assert!(all.start_fill("live", TOKEN, at).is_none(), "one at a time");
    assert!(all.get("live", TOKEN, at).is_none(), "not complete yet");
    all.apply(vec![moved(1, Some("fp_1")), moved(2, Some("fp_2")), moved(3, None)]);
    // Read before the third was removed and the second added.
    let rows = [1, 3, 4].map(|age| (at - age, format!("th_{age}"), "fp_1".to_owned())).into_iter().collect();
    drop(filling.complete(rows));
    let window = all.get("live", TOKEN, at).unwrap();
    let counts = crate::domain::derivation::count(&[&window.read().recent], at);
    assert_eq!((counts.last_24h, counts.authors_24h), (3, 2));
}

#[test]
fn theses_that_are_added_to_a_count_and_in_memory_already_count_once() {
    let at = 10 * DAY_MS;
    let theses = |ages: &[i64]| -> TokenTheses {
        ages.iter().map(|age| (at - age, format!("th_{age}"), format!("fp_{}", age % 2))).collect()
    };
    let (other, own) = (Window::read(theses(&[1])), Window::read(theses(&[2, 3, 4])));
    let day = TokenDay::new(vec![other, own], 1);
    let counts = day.counts_with(&theses(&[3, 4, 5]), at);
    assert_eq!((counts.last_24h, counts.authors_24h), (5, 2));
    assert_eq!(day.counts(at).last_24h, 4);
}

#[test]
fn a_window_that_was_not_filled_or_is_in_doubt_is_read_anew() {
    let all = RecentTheses::default();
    drop(all.start_fill("live", TOKEN, DAY_MS));
    let filling = all.start_fill("live", TOKEN, DAY_MS).unwrap();
    all.clear();
    let rows = [1, 2].map(|age| (DAY_MS - age, format!("th_{age}"), "fp_1".to_owned())).into_iter().collect();
    drop(filling.complete(rows));
    assert!(all.get("live", TOKEN, DAY_MS).is_none());
}

#[test]
fn only_the_index_of_a_token_moves_its_windows() {
    let mut changes = Vec::new();
    creation_changes(&Dataset::Live.to_string(), &thesis(5, 1), 1, |_, _| true, &mut changes);
    let moved: Vec<ThesisMove> = changes.iter().filter_map(ThesisMove::of_change).collect();
    assert!(matches!(moved.as_slice(), [ThesisMove { created_at: 5, author: Some(author), .. }] if author == "fp_1"));
}
