use super::*;
use crate::{
    operations::Core,
    tables::log::checkpoint_change,
    testing::{ManualClock, core, shared_memory},
};

/// A core that only does what it is asked to.
async fn still() -> Arc<Core> {
    let clock = ManualClock::new();
    let core = core(shared_memory(&clock), &clock, 1).await;
    core.stop.cancel();
    core
}

async fn set(core: &Core, dataset: &Dataset, projection: &str, seq: u64) {
    let change = checkpoint_change(&dataset.to_string(), projection, seq);
    core.shared.backend.apply(vec![change]).await.unwrap();
}

fn is_adopted(core: &Core, dataset: &Dataset) -> bool {
    core.datasets.with(dataset, |open| open.writer.is_some())
}

#[tokio::test]
async fn a_dataset_that_is_behind_and_moves_is_left_to_whoever_moves_it() {
    let core = still().await;
    let [moving, standing] = ["moving", "standing"].map(|id| Dataset::Project(id.to_owned()));
    let mut suspects = HashMap::new();
    for dataset in [&moving, &standing] {
        set(&core, dataset, ROWS, 100).await;
        set(&core, dataset, FAN_OUT, 1).await;
        suspects.insert(dataset.clone(), Suspect::default());
    }
    for look in 0..10 {
        // Either checkpoint may move: that of the rows or that of the fan-out.
        let (projection, seq) = if look % 2 == 0 { (ROWS, 101 + look) } else { (FAN_OUT, 1 + look) };
        set(&core, &moving, projection, seq).await;
        core.datasets.adopt(&mut suspects).await;
        assert!(!is_adopted(&core, &moving), "at look {look}");
        assert_eq!(is_adopted(&core, &standing), look >= u64::from(ENTRIES_PATIENCE), "at look {look}");
    }
    // The core that moved it has died.
    for _ in 0..ENTRIES_PATIENCE {
        core.datasets.adopt(&mut suspects).await;
    }
    assert!(is_adopted(&core, &moving));
}

#[tokio::test]
async fn a_dataset_that_has_caught_up_is_no_suspect() {
    let core = still().await;
    let dataset = Dataset::Project("done".to_owned());
    set(&core, &dataset, ROWS, 7).await;
    set(&core, &dataset, FAN_OUT, 7).await;
    let mut suspects = HashMap::from([(dataset.clone(), Suspect { reached: (7, 7), still: 1 })]);
    core.datasets.adopt(&mut suspects).await;
    assert!(suspects.is_empty() && !is_adopted(&core, &dataset));
}

#[tokio::test]
async fn hints_of_a_time_that_nobody_looked_are_read_later() {
    let clock = ManualClock::new();
    let core = core(shared_memory(&clock), &clock, 1).await;
    core.stop.cancel();
    let dataset = Dataset::Project("hinted".to_owned());
    let mut heard = core.datasets.second();
    wake::leave_hint(&core.shared.backend, &dataset.to_string(), heard).await.unwrap();
    clock.advance(60_000);
    assert!(core.datasets.hints(&mut heard).await.contains(&dataset));
    assert!(!core.datasets.hints(&mut heard).await.contains(&dataset));

    // An append that is done long after its hint is seen by the next look for work left undone.
    set(&core, &dataset, ROWS, 100).await;
    core.datasets.adopt(&mut HashMap::from([(dataset.clone(), Suspect::default())])).await;
    assert!(core.datasets.positions().contains(&(dataset, 100)));
}
