//! A batch is drafted and appended while the rows of the one before it are written.

mod counts;
mod gate;
mod waits;

use tokio::task::JoinHandle;

use self::gate::{Gate, RowWrites, Written};
use super::*;
use crate::{
    domain::{
        dataset::View,
        observation::{Observation, ObservedEngagement, ObservedThing},
    },
    error::Result,
    store::SharedBackend,
    tests::{faulty::MemoryStore, harness::NOON},
};

const PROJECT: &str = "overlap";

/// A core whose rows can be held up.
struct Bench {
    clock: Arc<ManualClock>,
    store: SharedBackend,
    gate: Arc<Gate>,
    core: Arc<Core>,
    dataset: Dataset,
}

impl Bench {
    async fn new(exclusive: bool) -> Self {
        let (clock, dataset) = (ManualClock::new(), Dataset::of_project(PROJECT));
        let store: SharedBackend = Arc::new(MemoryStore::new(exclusive));
        let gate = Gate::on(&store, &dataset);
        let core = core(gate.clone(), &clock, 1).await;
        Self { clock, store, gate, core, dataset }
    }

    /// A thesis whose derived events are not due before the clock moves. The first three have different authors.
    fn thesis(&self, number: u32) -> NewThesis {
        NewThesis { at: Some(NOON - 2 * DERIVE_EVERY_MS), ..new_thesis(&self.dataset, number) }
    }

    fn create(&self, number: u32) -> JoinHandle<Result<SequencedEntry>> {
        let (core, dataset, new) = (Arc::clone(&self.core), self.dataset.clone(), self.thesis(number));
        tokio::spawn(async move { core.datasets.create_here(&dataset, new).await })
    }

    /// Appends the first theses, each in its own batch, whose rows wait.
    async fn create_held(&self, theses: u32) -> Vec<JoinHandle<Result<SequencedEntry>>> {
        self.gate.set(RowWrites::Wait);
        let mut created = Vec::new();
        for number in 1..=theses {
            created.push(self.create(number));
            until(|| self.gate.appends() == created.len()).await;
        }
        created
    }

    /// Hands observations to the writer at once.
    fn observe(&self, observations: Vec<Observation>) -> JoinHandle<Vec<Result<CommandOutcome>>> {
        let (core, dataset) = (Arc::clone(&self.core), self.dataset.clone());
        tokio::spawn(async move {
            let observed = observations.into_iter().map(|seen| core.datasets.observe_here(&dataset, seen));
            tokio::task::unconstrained(join_all(observed)).await
        })
    }

    /// Observes a thesis of one author and waits for its derived events. The next ones are not due before the clock
    /// moves.
    async fn observe_first(&self) {
        drop(self.observe(vec![thesis(1, post("one", "u", "0xa", "text"))]).await.unwrap());
        until_derived(&self.core, &self.dataset, 1).await;
        until(|| self.gate.checkpoints().last() == Some(&3)).await;
    }

    async fn has_row(&self, number: u32) -> bool {
        let id = self.thesis(number).thesis.id;
        self.core.shared.theses.thesis(&View::test(PROJECT), &id).await.unwrap().is_some()
    }
}

async fn until(mut holds: impl FnMut() -> bool) {
    for _ in 0..1_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it never came");
}

async fn pass_time() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_appended_while_the_rows_of_the_last_one_are_written() {
    for exclusive in [false, true] {
        let bench = Bench::new(exclusive).await;
        let mut created = bench.create_held(2).await;
        created.push(bench.create(3));
        pass_time().await;
        assert_eq!(bench.gate.written(), [Written::Log(1), Written::Log(2)], "a third batch waits");
        assert!(created.iter().all(|created| !created.is_finished()));
        assert_eq!(bench.core.datasets.refresh(&bench.dataset).await.unwrap(), 0);
        assert!(!bench.has_row(1).await);

        bench.gate.set(RowWrites::Pass);
        for (number, created) in (1..).zip(created) {
            assert_eq!(created.await.unwrap().unwrap().seq, u64::from(number));
            assert!(bench.core.datasets.refresh(&bench.dataset).await.unwrap() >= u64::from(number));
            assert!(bench.has_row(number).await);
        }
        assert_eq!(bench.gate.written()[2], Written::Rows(1));
        assert_eq!(bench.gate.checkpoints(), [1, 2, 3]);
    }
}

#[tokio::test(start_paused = true)]
async fn rows_that_cannot_be_written_fail_the_batches_behind_them_and_are_written_later() {
    for exclusive in [false, true] {
        let bench = Bench::new(exclusive).await;
        let created = bench.create_held(2).await;
        bench.gate.set(RowWrites::Fail);
        for created in created {
            created.await.unwrap().unwrap_err();
        }
        tokio::time::sleep(3 * RETRY_DELAY).await;
        assert_eq!(bench.gate.written(), [Written::Log(1), Written::Log(2)]);

        bench.gate.set(RowWrites::Pass);
        for number in 1..=3 {
            assert_eq!(bench.create(number).await.unwrap().unwrap().seq, u64::from(number));
            assert!(bench.has_row(number).await);
        }
        assert_eq!(bench.gate.checkpoints(), [2, 3]);
        assert_eq!(theses_of(&entries(&bench.core, &bench.dataset).await).len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn batches_whose_rows_a_crash_prevents_are_projected_by_the_next_core() {
    for exclusive in [false, true] {
        let mut bench = Bench::new(exclusive).await;
        drop(bench.create_held(2).await);
        bench.core.stop.cancel();
        bench.gate = Gate::on(&bench.store, &bench.dataset);
        bench.core = core(bench.gate.clone(), &bench.clock, 2).await;
        assert_eq!(bench.create(1).await.unwrap().unwrap().seq, 1);
        assert_eq!(bench.gate.written(), [Written::Rows(2)]);
        assert!(bench.has_row(1).await && bench.has_row(2).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeat_of_a_thesis_under_way_adds_no_entry_and_waits_for_its_rows() {
    for exclusive in [false, true] {
        let bench = Bench::new(exclusive).await;
        let mut created = bench.create_held(1).await;
        created.push(bench.create(1));
        pass_time().await;
        assert!(bench.gate.appends() == 1 && created.iter().all(|created| !created.is_finished()));
        created.push(bench.create(2));
        until(|| bench.gate.appends() == 2).await;
        bench.gate.set(RowWrites::Pass);
        for (created, seq) in created.into_iter().zip([1, 1, 2]) {
            assert_eq!(created.await.unwrap().unwrap().seq, seq);
        }
        assert_eq!(theses_of(&entries(&bench.core, &bench.dataset).await).len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn an_append_that_is_lost_while_rows_are_written_is_drafted_again() {
    let bench = Bench::new(false).await;
    let mut created = bench.create_held(1).await;
    let other = core(Arc::clone(&bench.store), &bench.clock, 2).await;
    assert_eq!(other.datasets.create_here(&bench.dataset, bench.thesis(2)).await.unwrap().seq, 2);
    created.push(bench.create(3));
    pass_time().await;
    assert!(created.iter().all(|created| !created.is_finished()));
    bench.gate.set(RowWrites::Pass);
    for (created, seq) in created.into_iter().zip([1, 3]) {
        assert_eq!(created.await.unwrap().unwrap().seq, seq);
    }
    let log = entries(&bench.core, &bench.dataset).await;
    let in_dataset = log.iter().map(|sequenced| match &sequenced.entry.kind {
        Some(Kind::ThesisCreated(created)) => created.totals.in_dataset.map(|totals| totals.theses),
        _ => None,
    });
    assert_eq!(in_dataset.collect::<Vec<_>>(), [Some(1), Some(2), Some(3)]);
}

/// A thesis by an author about a token.
fn post(name: &str, author: &str, address: &str, text: &str) -> ObservedThesis {
    let mut seen = observed_thesis(name, text);
    (seen.profile.upstream_id, seen.profile.handle) = (author.to_owned(), author.to_owned());
    seen.token.address = address.to_owned();
    seen
}

fn observation(revision: i64, seen: ObservedThing) -> Observation {
    Observation { observed_at: revision, revision: Some(revision), seen }
}

fn thesis(revision: i64, seen: ObservedThesis) -> Observation {
    observation(revision, ObservedThing::Thesis(Box::new(seen)))
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_drafted_on_the_entries_under_way() {
    for exclusive in [false, true] {
        let bench = Bench::new(exclusive).await;
        bench.observe_first().await;
        bench.gate.set(RowWrites::Wait);
        let appends = bench.gate.appends();
        let first = bench.observe(vec![thesis(2, post("two", "u", "0xa", "text"))]);
        until(|| bench.gate.appends() == appends + 1).await;
        let liked = ObservedEngagement { upstream_id: "two".to_owned(), likes: Some(7), replies: None };
        let second = bench.observe(vec![
            thesis(3, post("two", "u", "0xa", "edited")),
            observation(4, ObservedThing::Engagement(liked)),
            thesis(5, post("three", "v", "0xa", "text")),
        ]);
        until(|| bench.gate.appends() == appends + 2).await;
        bench.gate.set(RowWrites::Pass);
        for observed in [first.await.unwrap(), second.await.unwrap()].into_iter().flatten() {
            assert!(observed.unwrap().applied);
        }
        let log = entries(&bench.core, &bench.dataset).await;
        let kinds: Vec<_> = log[3..].iter().map(|sequenced| sequenced.entry.kind.as_ref().unwrap()).collect();
        let created = |index: usize| match kinds[index] {
            Kind::ThesisCreated(created) => created,
            other => panic!("no thesis: {other:?}"),
        };
        let (two, three) = (created(0), created(3));
        let (Kind::ThesisEdited(edited), Kind::Engagement(liked)) = (kinds[1], kinds[2]) else { panic!("{kinds:?}") };
        let counts = |of: &Totals| [of.theses, of.authors, of.of_author, of.by_author];
        assert_eq!((counts(&two.totals), counts(&three.totals)), ([2, 1, 2, 2], [3, 2, 1, 1]));
        let introduced = [two, three].map(|created| (created.introduces_profile, created.introduces_token));
        assert_eq!(introduced, [(false, false), (true, false)]);
        assert_eq!((edited.thesis.sequence, edited.thesis.text.as_str()), (Some(4), "edited"));
        assert_eq!((liked.thesis.likes, liked.thesis.text.as_str()), (Some(7), "edited"));
        assert_eq!(edited.profile.handle, "@u");
    }
}
