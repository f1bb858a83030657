//! A core that does not own `live` and gets no commands for it does no work, although the log grows.

use std::{ops::Range, time::Duration};

use tokio::time::sleep;

use super::{
    links::Links,
    world::World,
    world_store::{Dice, StoreKind},
};
use crate::{
    domain::dataset::Dataset,
    service::Core,
    tables::unfinished,
    tests::{
        faulty::{Fault, StoreCall},
        harness::new_thesis,
    },
};

/// Two linked cores. The first one owns `live`.
async fn linked() -> (World, World) {
    let base = World::base(StoreKind::Shared).await;
    let mut one = base.copy();
    let mut two = one.beside();
    let links = Links::new(Dice(1));
    links.calm();
    one.link(&links, "http://one:1").await;
    two.link(&links, "http://two:1").await;
    // They have read each other's heartbeats, and the links work.
    sleep(Duration::from_secs(5)).await;
    let owns = one.core().await.datasets.owns(&Dataset::Live);
    assert_ne!(owns, two.core().await.datasets.owns(&Dataset::Live));
    if owns { (one, two) } else { (two, one) }
}

/// Appends a thesis to `live` at a core that may or may not own the log. Two tokens take turns.
async fn post(core: &Core, number: u32) {
    let mut new = new_thesis(&Dataset::Live, number);
    new.thesis.created_at = core.shared.clock.now_ms();
    core.datasets.create_here(&Dataset::Live, new).await.unwrap();
}

/// Appends two theses a second.
async fn post_all(core: &Core, numbers: Range<u32>) {
    for number in numbers {
        post(core, number).await;
        sleep(Duration::from_millis(500)).await;
    }
}

/// Returns whether a core has a writer of `live`.
fn writes(core: &Core) -> bool {
    let progress = core.datasets.progress();
    progress.iter().any(|progress| progress.dataset == Dataset::Live && progress.fanned_out.is_some())
}

/// True if a row says that a core's work on `live` is not done.
async fn is_unfinished(core: &Core) -> bool {
    let rows = unfinished::list_all(&core.shared.backend).await.unwrap();
    rows.iter().any(|row| row.dataset == "live" && row.replica == core.shared.replica)
}

#[tokio::test(start_paused = true)]
async fn ten_minutes_after_its_last_command_only_the_owner_works_on_live() {
    let (mut owner, mut other) = linked().await;
    let (owning, resting) = (owner.core().await, other.core().await);
    post_all(&owning, 0..4).await;
    // This is the state at its start, before it reaches the owner.
    post(&resting, 4).await;
    assert!(writes(&resting));
    post_all(&owning, 5..1_205).await;
    assert!(writes(&owning) && !writes(&resting));
    assert!(!is_unfinished(&resting).await);
    // It does the same in a minute with 120 theses and in one without.
    let before = other.process.busy().0;
    post_all(&owning, 1_205..1_325).await;
    let busy = other.process.busy().0 - before;
    sleep(Duration::from_mins(1)).await;
    let idle = other.process.busy().0 - before - busy;
    assert!(busy < idle + 60, "{busy} calls of the store, {idle} while nobody writes");
    owner.settle().await;
    owner.stop();
    other.stop();
}

#[tokio::test(start_paused = true)]
async fn the_owner_finds_the_work_that_a_resting_core_could_not_do() {
    let (mut owner, mut other) = linked().await;
    let (owning, resting) = (owner.core().await, other.core().await);
    // Its events are derived immediately, those of the next thesis on the token five seconds later.
    post(&owning, 0).await;
    sleep(Duration::from_secs(2)).await;
    post(&resting, 2).await;
    other.process.set_chooser(Box::new(|_, called| (called == StoreCall::Transact).then_some(Fault::NotDone)));
    other.process.count(false);
    sleep(Duration::from_secs(50)).await;
    assert!(!writes(&resting));
    other.process.rest();
    assert!(is_unfinished(&resting).await);
    owner.settle().await;
    // The owner goes idle too, and removes the row.
    sleep(Duration::from_secs(90)).await;
    assert!(!writes(&owning) && !is_unfinished(&resting).await);
    owner.stop();
    other.stop();
}
