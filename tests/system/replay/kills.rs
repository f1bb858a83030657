//! Replays while the process that serves them is killed.

use super::*;

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
    let paced = format!("{query}&speed=0.1");
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
    assert_eq!(frames.iter().map(|frame| &frame.data).collect::<Vec<_>>(), posted.iter().collect::<Vec<_>>());
}
