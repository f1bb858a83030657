//! A month of the index that is lost.

use std::fs;

use super::*;

#[tokio::test]
async fn a_month_that_is_lost_is_built_again_beside_the_others() {
    let (clock, folder) = (ManualClock::new(), tempfile::tempdir().unwrap());
    let store = SharedMemory::new(&clock);
    let writer = core(store.clone(), &clock, 1).await;
    post(&writer, "1", "@ana", "to the moon", Some(1), 2).await;
    let first = core_on(&store, &clock, 2, folder.path()).await;
    round(&first.follower(), &mut HashSet::new()).await;
    first.close().await;
    drop(first);
    let folders = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    for month in folders.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("live-")) {
        fs::remove_dir_all(month).unwrap();
    }

    let second = core_on(&store, &clock, 3, folder.path()).await;
    let (follower, caller) = (second.follower(), call(&second, LIVE_KEY));
    round(&follower, &mut HashSet::new()).await;
    assert!(second.search.position(&Dataset::Live) > 0);
    assert_eq!(texts(&result(&second, &caller, query("moon")).await.unwrap()), ["to the moon"]);
    second.close().await;
    writer.close().await;
}
