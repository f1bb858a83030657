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
            core.datasets.close_unused(|_, _| false);
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
