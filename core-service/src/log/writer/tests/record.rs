//! The log and the rows keep when a thesis was recorded and removed, the names of its author and token, and the totals
//! of the token at that time.

use super::*;
use crate::{
    domain::{
        dataset::View,
        entry::{NamedProfile, NamedToken},
        id,
        observation::{Observation, ObservedThing},
        row::IndexedThesis,
    },
    key,
    store::Scan,
    tables::theses::Bucket,
};

fn observation(revision: i64, seen: ObservedThing) -> Observation {
    Observation { observed_at: revision, revision: Some(revision), seen }
}

fn text(text: &str) -> ObservedThing {
    ObservedThing::Thesis(Box::new(observed_thesis("post", text)))
}

/// The bodies of the rows that an index of a thesis' token has: `t:` for present theses, `dt:` for deleted ones.
async fn indexed(core: &Core, dataset: &Dataset, thesis: &Thesis, prefix: &str) -> Vec<IndexedThesis> {
    let of_token = Bucket::of(thesis, false).into_iter().find(|bucket| bucket.scope.starts_with("t:"));
    let Bucket { scope, bucket } = of_token.unwrap();
    let partition = key![dataset.to_string(), scope.replacen("t:", prefix, 1), bucket];
    let rows = core.shared.backend.scan(&Scan::all(&schema::THESIS_INDEX, partition, 9)).await.unwrap();
    rows.into_iter().map(|row| prost::Message::decode(row.body).unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_thesis_says_when_it_was_recorded_and_removed() {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 1).await;
    let dataset = Dataset::of_project("times");
    let (name, view) = (dataset.to_string(), View::test("times"));
    let id = id::of_thesis(&name, "post");
    let steps = [
        observation(1, text("first")),
        observation(2, text("second")),
        observation(3, ObservedThing::Deletion("post".to_owned())),
    ];
    let mut kinds = Vec::new();
    for step in steps {
        let written = core.datasets.observe_here(&dataset, step).await.unwrap().entry.unwrap();
        assert_eq!(written.entry.salt.len(), Entry::SALT_BYTES);
        kinds.push((written.entry.created_at, written.entry.kind.unwrap()));
        let (_, thesis) = core.shared.theses.thesis(&view, &id).await.unwrap().unwrap();
        let removed_at = (kinds.len() == 3).then_some(written.entry.created_at);
        assert_eq!((thesis.recorded_at, thesis.removed_at), (kinds[0].0, removed_at));
        let row = IndexedThesis {
            profile_id: thesis.profile_id.clone(),
            recorded_at: kinds[0].0,
            removed_at,
            ..IndexedThesis::default()
        };
        let (listed, deleted) = if removed_at.is_none() { (vec![row], Vec::new()) } else { (Vec::new(), vec![row]) };
        assert_eq!(indexed(&core, &dataset, &thesis, "t:").await, listed);
        assert_eq!(indexed(&core, &dataset, &thesis, "dt:").await, deleted);
        clock.advance(1_000);
    }
    let profile = NamedProfile { id: id::of_profile(&name, "u"), handle: "@writer".to_owned() };
    let token = NamedToken {
        id: id::of_token(&name, "base", "0xa"),
        chain: "base".to_owned(),
        address: "0xa".to_owned(),
        symbol: "$RUN".to_owned(),
    };
    match &kinds[1..] {
        [(_, Kind::ThesisEdited(edited)), (_, Kind::ThesisDeleted(deleted))] => {
            assert_eq!((&edited.profile, &edited.token), (&profile, &token));
            assert_eq!((&deleted.profile, &deleted.token), (&profile, &token));
        }
        kinds => panic!("other entries: {kinds:?}"),
    }
}

#[tokio::test]
async fn a_deletion_names_the_author_and_token_of_the_sandbox() {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 1).await;
    let dataset = Dataset::of_project("shared");
    let (profile, token) = crate::sandbox::a_profile_and_token();
    let mut new = new_thesis(&dataset, 1);
    (new.thesis.sandbox_profile, new.thesis.sandbox_token) = (true, true);
    (new.thesis.profile_id, new.thesis.token_id) = (profile.id.clone(), token.id.clone());
    new.thesis.id = id::of_thesis(&dataset.to_string(), "post");
    let new = NewThesis { profile: profile.clone(), token: token.clone(), ..new };
    core.datasets.create_here(&dataset, new).await.unwrap();
    let deletion = observation(1, ObservedThing::Deletion("post".to_owned()));
    let entry = core.datasets.observe_here(&dataset, deletion).await.unwrap().entry.unwrap().entry;
    let Some(Kind::ThesisDeleted(deleted)) = &entry.kind else { panic!("no deletion: {entry:?}") };
    assert_eq!((&deleted.profile.handle, &deleted.token.symbol), (&profile.handle, &token.symbol));
}

#[tokio::test(start_paused = true)]
async fn the_totals_of_a_token_are_read_at_any_position() {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 1).await;
    let dataset = Dataset::of_project("totals");
    let name = dataset.to_string();
    let post = |number: i64| format!("post-{number}");
    for number in 0..48 {
        let seen = ObservedThing::Thesis(Box::new(observed_thesis(&post(number), "text")));
        core.datasets.observe_here(&dataset, observation(1, seen)).await.unwrap();
        // Four deletions in a row are more than the entries that are read.
        for gone in (number - 4..number).filter(|_| number % 8 == 7) {
            let deletion = observation(2, ObservedThing::Deletion(post(gone)));
            core.datasets.observe_here(&dataset, deletion).await.unwrap();
        }
        clock.advance(DERIVE_EVERY_MS);
    }
    let projected = core.datasets.refresh(&dataset).await.unwrap();
    let log = entries(&core, &dataset).await;
    let totals = |seq: u64| match &log[usize::try_from(seq - 1).unwrap()].entry.kind {
        Some(Kind::ThesisCreated(created)) => Some(created.totals),
        Some(Kind::ThesisDeleted(deleted)) => Some(deleted.totals),
        _ => None,
    };
    let token = id::of_token(&name, "base", "0xa");
    assert!(projected > 64, "a segment of the index is full");
    for position in 0..=projected {
        let found = core.shared.events.totals_at(&name, &token, position, projected).await.unwrap();
        let last = (1..=position).rev().find_map(totals);
        assert!(position == 0 || last.is_some());
        assert_eq!(found, last.unwrap_or_default(), "at {position}");
    }
}
