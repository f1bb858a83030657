//! Projects leave memory when nobody uses them, and come back with their next use.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use futures::future::join_all;

use super::*;
use crate::{
    domain::window::HOUR_MS,
    tests::harness::{NOON, memory},
};

#[tokio::test(start_paused = true)]
async fn unused_projects_leave_memory_and_come_back_where_they_were() {
    let clock = ManualClock::new();
    // Each call to a store with threads takes a second of paused time, so projects would leave memory too early.
    let core = core(SharedMemory::without_threads(), &clock, 1).await;
    let projects: Vec<Dataset> = (0..40).map(|number| Dataset::of_project(&format!("p{number}"))).collect();
    for dataset in &projects {
        core.datasets.create_thesis(dataset, new_thesis(dataset, 1)).await.unwrap();
    }
    let followed = core.datasets.position(&projects[0]).await.unwrap();
    let known = || projects.iter().filter(|dataset| core.datasets.knows(dataset)).count();
    assert_eq!(known(), projects.len());
    until(&clock, async || known() == 1).await;
    assert!(core.datasets.knows(&projects[0]) && core.datasets.knows(&Dataset::Sandbox));
    // A thesis and its two derived events.
    assert_eq!(*followed.borrow(), 3);
    for dataset in &projects {
        assert_eq!(core.datasets.refresh(dataset).await.unwrap(), 3);
        assert_eq!(core.datasets.create_thesis(dataset, new_thesis(dataset, 2)).await.unwrap().seq, 4);
    }
    assert_eq!((known(), *followed.borrow() >= 4), (projects.len(), true));
    core.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_project_that_leaves_memory_under_load_loses_no_position() {
    const PROJECTS: u32 = 20;
    const THESES: u32 = 15;
    let (clock, returned) = (ManualClock::new(), AtomicU32::new(0));
    let backend = shared_memory(&clock);
    // A project with a writer stays in memory, so another core writes.
    let (reader, writer) = (core(Arc::clone(&backend), &clock, 1).await, core(backend, &clock, 2).await);
    let read_all = |project: u32| {
        let (reader, writer, returned) = (&reader, &writer, &returned);
        async move {
            let dataset = Dataset::of_project(&format!("p{project}"));
            for number in 0..THESES {
                let written = writer.datasets.create_here(&dataset, new_thesis(&dataset, number)).await.unwrap();
                if !reader.datasets.knows(&dataset) {
                    returned.fetch_add(1, Relaxed);
                }
                assert!(reader.datasets.refresh_unless_notified(&dataset).await.unwrap() > 0);
                let position = reader.datasets.position(&dataset).await.unwrap();
                assert!(*position.borrow() >= written.seq, "{dataset} went back");
            }
        }
    };
    let removing = async {
        loop {
            reader.datasets.close_unused(NOON, |_, _| false);
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = join_all((0..PROJECTS).map(read_all)) => {}
        () = removing => {}
    }
    let returned = returned.into_inner();
    assert!(returned > PROJECTS, "only {returned} reads brought a project into memory");
    reader.close().await;
    writer.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_project_whose_last_deleted_thesis_is_known_stays_an_hour_after_its_last_use() {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 1).await;
    let datasets = ["full", "followed", "read", "other"].map(Dataset::of_project);
    for dataset in &datasets {
        core.datasets.refresh(dataset).await.unwrap();
    }
    for dataset in &datasets[..2] {
        let last_deleted = core.datasets.with(dataset, |open| Arc::clone(&open.last_deleted));
        *last_deleted.lock().await = Some((1, "th_1".to_owned()));
    }
    let mut following = Some(core.datasets.with(&datasets[1], |open| open.position.subscribe()));
    let _reading = core.datasets.with(&datasets[2], |open| Arc::clone(&open.shared_reads));
    // The first call forgets the use.
    core.datasets.close_unused(NOON, |_, _| false);
    for (hours, early_ms, known) in [
        (0, 0, [true, true, true, false]),
        (1, 1, [true, true, true, false]),
        (1, 0, [false, true, true, false]),
        // Nobody follows the second project from here on. Its hour begins at the next call.
        (2, 0, [false, true, true, false]),
        (3, 1, [false, true, true, false]),
        (3, 0, [false, false, true, false]),
    ] {
        if hours == 2 {
            following = None;
        }
        core.datasets.close_unused(NOON + hours * HOUR_MS - early_ms, |_, _| false);
        let all = datasets.each_ref().map(|dataset| core.datasets.knows(dataset));
        assert_eq!(all, known, "{hours} hours, {early_ms} ms, followed: {}", following.is_some());
    }
    core.close().await;
}
