//! The stored usage counts of keys.

use super::{over, ready};
use crate::{
    domain::{control::ApiKey, operation::RateClass},
    tables::key_usage::{last_uses, list},
    tests::{faults::world::World, faulty::Fault},
};

/// Number of times that the counts are stored.
const ROUNDS: i64 = 3;
const CLASSES: [RateClass; 2] = [RateClass::Standard, RateClass::Heavy];

/// Only an end of the process loses counts: those that were not stored yet, or not durably before a power loss.
pub(in crate::tests::faults) async fn count_key_usage(world: &mut World) {
    let key = ApiKey { id: "key_case".to_owned(), project_id: "prj_case".to_owned(), ..ApiKey::default() };
    ready(world).await;
    let began = world.now();
    // Rounds that are surely stored, and the last one of these.
    let (mut stored, mut last) = (0, 0);
    for round in 1..=ROUNDS {
        let core = world.core().await;
        for class in CLASSES {
            core.key_usage.count(&key, class, began + round);
            core.key_usage.count_error(&key, class, began + round);
        }
        core.key_usage.flush(world.now()).await;
        (stored, last) = match world.process.ended() {
            None => (stored + 1, round),
            Some(Fault::PowerLoss) => (0, 0),
            Some(_) => (stored, last),
        };
    }
    over(world).await;
    // Counts that the store refused are stored the next time.
    let core = world.core().await;
    core.key_usage.flush(world.now()).await;
    let backend = &core.shared.backend;
    let rows = list(backend, &key.project_id, began, world.now()).await.unwrap();
    for class in CLASSES {
        let mut of_class = rows.iter().filter(|row| row.class == class.as_str());
        let row = of_class.next();
        let (requests, errors) = row.map_or((0, 0), |row| (row.requests, row.errors));
        assert!((stored..=ROUNDS).contains(&requests.cast_signed()), "{requests} of {stored} to {ROUNDS}");
        assert_eq!(errors, requests);
        assert!(of_class.next().is_none());
    }
    let used = last_uses(backend, &key.project_id).await.unwrap().get(&key.id).map_or(0, |at| at - began);
    assert!((last..=ROUNDS).contains(&used), "{used} of {last} to {ROUNDS}");
}
