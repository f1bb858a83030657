//! A project that has left memory is searched as far as it reaches now.

use thesis_proto::error::ErrorCode;

use super::*;

#[tokio::test]
async fn a_search_of_a_project_that_left_memory_finds_what_another_core_wrote_meanwhile() {
    let clock = ManualClock::new();
    let store = shared_memory(&clock);
    let (core, writer) = (core(Arc::clone(&store), &clock, 1).await, core(store, &clock, 2).await);
    let caller = call(&core, TEST_KEY);
    let mut datasets = caller.caller.view.datasets().iter();
    let project = datasets.find(|dataset| matches!(dataset, Dataset::Project(_))).unwrap().clone();
    // On a busy machine the index may take more than a quarter of a second, and says so.
    let find = async || {
        loop {
            match result(&core, &caller, query("meanwhile")).await {
                Err(error) if error.api.code == ErrorCode::ServiceUnavailable => {}
                found => return found.unwrap().theses.len(),
            }
        }
    };
    assert_eq!(find().await, 0);
    for number in 1..4 {
        // The first call forgets the use, the second one removes the project.
        for _ in 0..2 {
            core.datasets.close_unused(NOON, |_, _| false);
        }
        assert!(!core.datasets.knows(&project));
        let mut new = new_thesis(&project, number);
        (new.thesis.text, new.thesis.created_at) = ("meanwhile".to_owned(), NOON - 1);
        writer.datasets.create_here(&project, new).await.unwrap();
        assert_eq!(find().await, usize::try_from(number).unwrap());
    }
    core.close().await;
    writer.close().await;
}

#[tokio::test]
async fn every_search_waits_for_what_was_written_while_a_project_was_out_of_memory() {
    let (clock, folder) = (ManualClock::new(), tempfile::tempdir().unwrap());
    let store = SharedMemory::new(&clock);
    let writer = core(store.clone(), &clock, 1).await;
    // Its index follows the logs only where this test says so.
    let core = core_on(&store, &clock, 2, folder.path()).await;
    let (follower, mut checked, caller) = (core.follower(), HashSet::new(), call(&core, TEST_KEY));
    let mut datasets = caller.caller.view.datasets().iter();
    let project = datasets.find(|dataset| matches!(dataset, Dataset::Project(_))).unwrap().clone();
    let find = async || result(&core, &caller, query("meanwhile")).await.map(|found| found.theses.len());
    find().await.unwrap_err();
    for _ in 0..3 {
        round(&follower, &mut checked).await;
    }
    assert_eq!(find().await.unwrap(), 0);
    for _ in 0..2 {
        core.datasets.close_unused(NOON, |_, _| false);
    }
    let mut new = new_thesis(&project, 1);
    (new.thesis.text, new.thesis.created_at) = ("meanwhile".to_owned(), NOON - 1);
    writer.datasets.create_here(&project, new).await.unwrap();
    for _ in 0..2 {
        assert_eq!(find().await.unwrap_err().api.code, ErrorCode::ServiceUnavailable);
    }
    round(&follower, &mut checked).await;
    assert_eq!(find().await.unwrap(), 1);

    // The follower forgets which logs it has checked when they leave memory.
    assert!(checked.contains(&project));
    for _ in 0..2 {
        core.datasets.close_unused(NOON, |_, _| false);
    }
    assert!(!core.datasets.knows(&project));
    round(&follower, &mut checked).await;
    assert!(!checked.contains(&project));
    core.datasets.refresh(&project).await.unwrap();
    round(&follower, &mut checked).await;
    assert!(checked.contains(&project));
    core.close().await;
    writer.close().await;
}
