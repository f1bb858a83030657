//! Entries that are no events.

use super::*;
use crate::{
    convert::entry::event_type,
    domain::observation::{Observation, ObservedEngagement, ObservedThing},
};

#[tokio::test]
async fn a_like_writes_no_position_and_is_still_applied_once() {
    let clock = ManualClock::new();
    for backend in [memory(&clock), shared_memory(&clock)] {
        let core = core(backend, &clock, 1).await;
        let dataset = Dataset::of_project("liked");
        let observe = async |revision, seen| {
            let observation = Observation { observed_at: 1, revision: Some(revision), seen };
            core.datasets.observe_here(&dataset, observation).await.unwrap().applied
        };
        let liked = |likes| {
            let upstream_id = "post".to_owned();
            ObservedThing::Engagement(ObservedEngagement { upstream_id, likes: Some(likes), replies: None })
        };
        assert!(observe(0, ObservedThing::Thesis(Box::new(observed_thesis("post", "text")))).await);
        for likes in 1..=5 {
            assert!(observe(likes, liked(likes)).await);
            assert!(!observe(likes, liked(likes)).await, "applied twice");
        }
        let projected = core.datasets.refresh(&dataset).await.unwrap();
        let mut entries = entries(&core, &dataset).await;
        // The derived events may come at any time.
        entries.retain(|entry| entry.seq <= projected);
        for SequencedEntry { seq, entry } in &entries {
            let position = core.shared.event_positions.position_of(&dataset.to_string(), &entry.id).await.unwrap();
            assert_eq!(position, event_type(entry).map(|_| *seq), "{entry:?}");
        }
        let is_like = |sequenced: &&SequencedEntry| matches!(sequenced.entry.kind, Some(Kind::Engagement(_)));
        assert_eq!(entries.iter().filter(is_like).count(), 5);
    }
}
