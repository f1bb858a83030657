//! An author and a token beside a thesis.

use super::*;
use crate::domain::{
    dataset::View,
    id,
    observation::{Observation, ObservedThing},
};

/// A thesis whose author and token are named after the time and their revision.
fn observation(number: i64, observed_at: i64, revision: Option<i64>) -> Observation {
    let name = Some(format!("{observed_at} {revision:?}"));
    let seen = observed_thesis(&format!("post {number}"), "text");
    let seen = ObservedThesis {
        profile: ObservedProfile { bio: name.clone(), revision, ..seen.profile },
        token: ObservedToken { name, revision, ..seen.token },
        created_at: 1_000 + number,
        updated_at: 1_000 + number,
        ..seen
    };
    Observation { observed_at, revision: Some(number), seen: ObservedThing::Thesis(Box::new(seen)) }
}

#[tokio::test]
async fn they_count_by_their_own_revision_where_they_have_one() {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 1).await;
    let dataset = Dataset::of_project("beside");
    let (name, view) = (dataset.to_string(), View::test("beside"));
    let (author, on) = (id::of_profile(&name, "u"), id::of_token(&name, "base", "0xa"));
    for (number, observed_at, revision, shown) in [
        (1, 10, None, "10 None"),
        (2, 20, None, "20 None"),
        (3, 15, Some(5), "15 Some(5)"),
        (4, 30, Some(4), "15 Some(5)"),
        (5, 40, None, "15 Some(5)"),
        (6, 1, Some(6), "1 Some(6)"),
    ] {
        let written = core.datasets.observe_here(&dataset, observation(number, observed_at, revision)).await.unwrap();
        assert!(written.applied && written.refused.is_none());
        let (_, profile) = core.shared.theses.profile(&view, &author).await.unwrap().unwrap();
        let (_, token) = core.shared.theses.token(&view, &on).await.unwrap().unwrap();
        assert_eq!((profile.bio.as_deref(), token.name.as_deref()), (Some(shown), Some(shown)), "{number}");
    }
}
