//! Replays while the process that serves them is killed, or the core that owns the log.

use super::*;
use crate::harness::fetch;

const KILLS: usize = 3;
/// Frames that the client reads before each kill.
const READ: usize = 6;

#[tokio::test]
async fn a_replay_that_resumes_after_kills_misses_and_doubles_nothing() {
    let mut service = Service::embedded(|setup| setup);
    let client = service.project_on("huge").await.test().await;
    let mut posted = post(&client, "KILLED", 2 * KILLS * READ).await;
    let query = format!("?{CREATED}&token=KILLED&from={}", at(&posted[0]));
    // Slower than the posts, so that each kill comes before the end of the replay.
    let paced = format!("{query}&speed=0.5");
    let mut stream = client.stream(&paced).await;
    let mut frames = Vec::new();
    for _ in 0..KILLS {
        frames.extend(stream.take(READ).await);
        service.kill_and_start(0).await;
        posted.extend(post(&client, "KILLED", 1).await);
        stream = client.resume(&paced, frames[frames.len() - 1].cursor()).await;
    }
    drop(stream);
    // The rest at full speed, and then live.
    let mut stream = client.resume(&query, frames[frames.len() - 1].cursor()).await;
    frames.extend(stream.take(posted.len() - frames.len()).await);
    posted.extend(post(&client, "KILLED", 1).await);
    frames.push(stream.next().await);
    assert_eq!(data(&frames), posted);
}

/// The number of entries that each core appended to logs.
async fn appended(service: &Service) -> Vec<u64> {
    let mut counts = Vec::new();
    for core in &service.processes[..service.cores.len()] {
        let metrics = fetch(format!("{}/metrics", core.address("ops"))).await.unwrap().text().await.unwrap();
        let count = metrics.lines().find_map(|line| line.strip_prefix("log_entries_appended_total "));
        counts.push(count.unwrap().parse().unwrap());
    }
    counts
}

/// Posts until one core appends most events of a round. Returns the core, and all events.
async fn find_owner(service: &Service, client: &Client) -> (usize, Vec<Value>) {
    let mut posted = post(client, "OWNED", 2 * READ).await;
    let owner = eventually("one core appends", SOON, async || {
        let before = appended(service).await;
        posted.extend(post(client, "OWNED", READ).await);
        let after = appended(service).await;
        // The owner appends for both cores. Only when it is slow does the other one append.
        (0_usize..2).find(|&core| after[1 - core] - before[1 - core] < READ as u64 / 2)
    })
    .await;
    (owner, posted)
}

/// Two clients replay a log, one at its owner and one at another core, and the owner is killed.
#[tokio::test]
async fn a_replay_misses_and_doubles_nothing_when_the_owner_of_its_log_is_killed() {
    let Some(mut service) = Service::cluster().await else { return };
    let client = service.project_on("huge").await.test().await;
    let (owner, mut posted) = find_owner(&service, &client).await;
    let at_owner = client.moved_to(&service.edges[owner]);
    let elsewhere = client.moved_to(&service.edges[1 - owner]);
    let query = format!("?{CREATED}&token=OWNED&from={}", at(&posted[0]));
    // Slower than the posts, so that the kill comes before the end of the replays.
    let paced = format!("{query}&speed=0.5");
    let (mut broken, mut whole) = (at_owner.stream(&paced).await, elsewhere.stream(&paced).await);
    let (mut resumed, mut frames) = (broken.take(READ).await, whole.take(READ).await);
    service.end(owner, "KILL").await;
    drop(broken);
    // The replay at the other core goes on.
    frames.extend(whole.take(posted.len() - READ).await);
    drop(whole);
    posted.extend(post(&elsewhere, "OWNED", READ).await);
    // The rest of both at full speed, and then live.
    let mut streams = Vec::new();
    for frames in [&mut resumed, &mut frames] {
        let mut stream = elsewhere.resume(&query, frames[frames.len() - 1].cursor()).await;
        frames.extend(stream.take(posted.len() - frames.len()).await);
        streams.push(stream);
    }
    service.start_again(owner).await;
    service.is_ready().await;
    posted.extend(post(&at_owner, "OWNED", 1).await);
    for (frames, stream) in [&mut resumed, &mut frames].into_iter().zip(&mut streams) {
        frames.push(stream.next().await);
        assert_eq!(data(frames), posted);
    }
}
