//! Projects leave memory when nobody uses them, and come back with their next use.

use futures::future::join_all;

use super::*;

#[tokio::test(start_paused = true)]
async fn unused_projects_leave_memory_and_come_back_where_they_were() {
    let clock = ManualClock::new();
    let core = core(shared_memory(&clock), &clock, 1).await;
    let projects: Vec<Dataset> = (0..40).map(|number| Dataset::Project(format!("p{number}"))).collect();
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
    let clock = ManualClock::new();
    let core = core(shared_memory(&clock), &clock, 1).await;
    let post_all = |project: u32| {
        let core = Arc::clone(&core);
        async move {
            let dataset = Dataset::Project(format!("p{project}"));
            let mut last = 0;
            for number in 0..THESES {
                // Nobody follows the project between two theses.
                let mut position = core.datasets.position(&dataset).await.unwrap();
                let known = *position.borrow_and_update();
                assert!(known >= last, "{dataset} went back from {last} to {known}");
                last = core.datasets.create_thesis(&dataset, new_thesis(&dataset, number)).await.unwrap().seq;
                position.wait_for(|position| *position >= last).await.unwrap();
            }
        }
    };
    let posting = join_all((0..PROJECTS).map(post_all));
    let removing = async {
        loop {
            core.datasets.close_unused(|_, _| false);
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = posting => {}
        () = removing => {}
    }
    core.close().await;
}
