//! Events are found by their ids, and a thesis by the place of its creation.

use secrecy::SecretBox;
use thesis_proto::v1::EventType;

use super::*;
use crate::{
    convert::entry::event_type,
    domain::{
        id,
        observation::{Observation, ObservedEngagement, ObservedThing},
    },
    key,
    tests::harness::{ids, settings},
};

fn thesis(name: &str, text: &str) -> ObservedThing {
    ObservedThing::Thesis(Box::new(observed_thesis(name, text)))
}

fn like(name: &str, likes: i64) -> ObservedThing {
    ObservedThing::Engagement(ObservedEngagement { upstream_id: name.to_owned(), likes: Some(likes), replies: None })
}

async fn observe(core: &Arc<Core>, dataset: &Dataset, revision: i64, seen: ObservedThing) {
    let observation = Observation { observed_at: revision, revision: Some(revision), seen };
    assert!(core.datasets.observe_here(dataset, observation).await.unwrap().applied);
}

/// Writes a log with events of every type, one of them of a deleted thesis. All are projected.
async fn log_of_all_types(core: &Arc<Core>, dataset: &Dataset) -> Vec<SequencedEntry> {
    observe(core, dataset, 1, thesis("kept", "text")).await;
    observe(core, dataset, 2, thesis("gone", "text")).await;
    let renamed =
        ObservedProfile { upstream_id: "u".to_owned(), handle: "renamed".to_owned(), ..ObservedProfile::default() };
    observe(core, dataset, 3, ObservedThing::Profile(Box::new(renamed))).await;
    observe(core, dataset, 4, ObservedThing::Deletion("gone".to_owned())).await;
    let log = until_derived(core, dataset, 1).await;
    // The rows of an acknowledged entry are written, and so are all before them.
    observe(core, dataset, 5, thesis("last", "text")).await;
    let events: HashSet<_> = log.iter().filter_map(|sequenced| event_type(&sequenced.entry)).collect();
    assert_eq!(events.len(), 4, "{events:?}");
    log
}

/// Checks that each event is found by its id, and that only the events of these types have a row for that.
async fn are_found(core: &Core, dataset: &Dataset, log: &[SequencedEntry], with_row: &[EventType]) {
    let name = dataset.to_string();
    for SequencedEntry { seq, entry } in log {
        let of_type = event_type(entry);
        let position = core.shared.event_positions.position_of(&name, &entry.id).await.unwrap();
        assert_eq!(position, of_type.map(|_| *seq), "{entry:?}");
        let row = core.shared.backend.get(&schema::EVENT, &key![&name, &entry.id], Consistency::Quorum).await.unwrap();
        assert_eq!(row.is_some(), of_type.is_some_and(|of_type| with_row.contains(&of_type)), "{entry:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_an_id_that_does_not_say_where_its_event_is_has_a_row() {
    let clock = ManualClock::new();
    for backend in [memory(&clock), shared_memory(&clock)] {
        let core = core(backend, &clock, 1).await;
        let dataset = Dataset::of_project("found");
        let log = log_of_all_types(&core, &dataset).await;
        are_found(&core, &dataset, &log, &[EventType::ProfileUpdated]).await;

        // Another store, and another project of the same store, get rows for what they cannot read.
        let other = self::core(memory(&clock), &clock, 2).await;
        let with_row = [EventType::ProfileUpdated, EventType::TokenActivity, EventType::TokenThesisVelocity];
        for (core, dataset) in [(&other, dataset), (&core, Dataset::of_project("copy"))] {
            let mark = ImportMark { entries: log.len() as u64, sha256: [3; 32] };
            let entries = log.iter().map(|sequenced| sequenced.entry.clone()).collect();
            let imported = core.datasets.import_here(&dataset, Import { mark, after: 0, entries }).await.unwrap();
            assert_eq!(imported, None);
            are_found(core, &dataset, &log, &with_row).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn events_are_found_after_the_secret_key_was_replaced() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let first = core(Arc::clone(&backend), &clock, 1).await;
    let dataset = Dataset::of_project("replaced");
    let log = log_of_all_types(&first, &dataset).await;
    let mut settings = settings();
    settings.secret_key = SecretBox::new(Box::new([8; 32]));
    let next = Core::start(backend, settings, clock.clone(), ids(2)).await.unwrap();
    are_found(&next, &dataset, &log, &[EventType::ProfileUpdated]).await;
}

#[tokio::test]
async fn a_thesis_keeps_the_place_of_its_creation() {
    let clock = ManualClock::new();
    for backend in [memory(&clock), shared_memory(&clock)] {
        let core = core(backend, &clock, 1).await;
        let dataset = Dataset::of_project("kept");
        let name = dataset.to_string();
        let row = async |upstream_id: &str| {
            let id = id::of_thesis(&name, upstream_id);
            core.shared.theses.theses(&[(name.clone(), id.as_str())]).await.unwrap().pop().flatten().unwrap()
        };
        observe(&core, &dataset, 1, like("one", 1)).await;
        assert_eq!(row("one").await.sequence, None, "no entry has created it");
        let together = [
            (2, thesis("one", "created")),
            (3, thesis("one", "edited")),
            (4, like("one", 4)),
            (5, thesis("two", "created")),
        ];
        let written = together.into_iter().map(|(revision, seen)| observe(&core, &dataset, revision, seen));
        tokio::task::unconstrained(join_all(written)).await;
        for last in [like("one", 6), ObservedThing::Deletion("one".to_owned())] {
            observe(&core, &dataset, 6, last).await;
            for upstream_id in ["one", "two"] {
                let row = row(upstream_id).await;
                let log = entries(&core, &dataset).await;
                let created = &log[usize::try_from(row.sequence.unwrap()).unwrap() - 1].entry;
                assert_eq!((&created.id, theses_of(&log).len()), (&thesis_event_id(&row.id), 2));
            }
        }
    }
}

#[tokio::test]
async fn another_core_finds_the_creation_of_a_deleted_thesis() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let cores = [core(Arc::clone(&backend), &clock, 1).await, core(backend, &clock, 2).await];
    let dataset = Dataset::of_project("again");
    let mut new = new_thesis(&dataset, 1);
    new.thesis.upstream_id = "post".to_owned();
    new.thesis.id = id::of_thesis(&dataset.to_string(), "post");
    let first = cores[0].datasets.create_here(&dataset, new.clone()).await.unwrap();
    observe(&cores[0], &dataset, 1, ObservedThing::Deletion("post".to_owned())).await;
    let again = cores[1].datasets.create_here(&dataset, new).await.unwrap();
    assert_eq!((again.seq, &again.entry.id), (first.seq, &first.entry.id));
}
