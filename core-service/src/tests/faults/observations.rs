//! Observations of an upstream.

use thesis_proto::{
    time::from_millis,
    v1::{self, observation::Observed},
};

use crate::tests::harness::NOON;

pub(super) fn observation(revision: i64, observed: Observed) -> v1::Observation {
    v1::Observation {
        observed_at: Some(from_millis(NOON + revision)),
        revision: Some(revision),
        observed: Some(observed),
    }
}

pub(super) fn author(handle: &str) -> v1::ProfileObservation {
    v1::ProfileObservation {
        upstream_user_id: "author".to_owned(),
        handle: handle.to_owned(),
        ..v1::ProfileObservation::default()
    }
}

pub(super) fn coin(symbol: &str) -> v1::TokenObservation {
    v1::TokenObservation {
        chain: "solana".to_owned(),
        address: "So1".to_owned(),
        symbol: symbol.to_owned(),
        ..v1::TokenObservation::default()
    }
}

/// A thesis as it is seen upstream.
pub(super) fn thesis(upstream_id: &str, revision: i64) -> v1::Observation {
    let seen = v1::ThesisObservation {
        upstream_id: upstream_id.to_owned(),
        profile: Some(author("author")),
        token: Some(coin("COIN")),
        text: format!("{upstream_id} {revision}"),
        created_at: Some(from_millis(NOON + 1)),
        ..v1::ThesisObservation::default()
    };
    observation(revision, Observed::Thesis(seen))
}

pub(super) fn likes(upstream_id: &str, revision: i64) -> v1::Observation {
    let seen =
        v1::EngagementObservation { upstream_id: upstream_id.to_owned(), likes: Some(revision), replies: Some(1) };
    observation(revision, Observed::Engagement(seen))
}

pub(super) fn deletion(upstream_id: &str) -> v1::Observation {
    observation(9, Observed::Deletion(v1::DeletionObservation { upstream_id: upstream_id.to_owned() }))
}
