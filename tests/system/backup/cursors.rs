//! Cursors of the time before a restore, at an edge that runs on meanwhile.

use crate::harness::{Client, SERVICE_TOKEN, SOON, Service, Setup, TEST_KEY, eventually, text};

const STREAM: &str = "?types=thesis.created&handle=rewinder";
const LIST: &str = "/v1/events?types=thesis.created&handle=rewinder&limit=1";

/// Posts some theses; gives the ids of their events.
async fn post(client: &Client, said: &str, count: usize) -> Vec<String> {
    let mut events = Vec::new();
    for number in 0..count {
        let (_, event) = client.thesis("rewinder", "REWIND", &format!("{said} {number}")).await;
        events.push(text(&event, "id").to_owned());
    }
    events
}

#[tokio::test]
async fn cursors_of_before_a_restore_are_refused_for_good() {
    let mut service = Service::embedded(|setup| setup.role("core"));
    let edge = Setup::new(service.dir.path()).role("edge");
    let edge = edge.set("SVC_CORE_URL", &service.grpc).set("SVC_SERVICE_TOKEN", SERVICE_TOKEN).start();
    let client = Client::new(&edge.address("http"), Some(TEST_KEY));
    let mut stream = client.stream(STREAM).await;
    post(&client, "kept", 3).await;
    let kept = stream.take(3).await.pop().unwrap().cursor().to_owned();
    let (file, _) = service.save("rewound.backup").await;
    post(&client, "lost", 3).await;
    let lost = stream.take(3).await.pop().unwrap().cursor().to_owned();
    let page = client.get(LIST).await.ok(200);
    let list = format!("{LIST}&cursor={}", text(&page, "next_cursor"));

    let copy = service.restore(&file, "copy").await;
    service.go_on_in(&copy).await;
    stream.end(SOON).await;
    let resume = |cursor: &str| format!("/v1/events/stream{STREAM}&from_cursor={cursor}");
    let answered =
        async || Some(client.get(&resume(&lost)).await).filter(|answer| !(500..600).contains(&answer.status));
    let refused = eventually("the edge finds the core again", SOON, answered).await;
    refused.error(400, "INVALID_CURSOR");
    // What the edge has read of the lost entries reaches nobody.
    let mut stream = client.stream(STREAM).await;
    let new = post(&client, "new", 6).await;
    let frames = stream.take(6).await;
    assert_eq!(frames.iter().map(|frame| text(&frame.data, "id")).collect::<Vec<_>>(), new);
    // The log has grown beyond the lost entries, and their sequence numbers are those of others.
    for path in [resume(&lost), resume(&kept), list] {
        client.get(&path).await.error(400, "INVALID_CURSOR");
    }
    // The new cursors hold, also after another start.
    drop(stream);
    service.kill_and_start(0).await;
    let open = async || client.try_resume(STREAM, frames[2].cursor()).await;
    let mut resumed = eventually("a stream", SOON, open).await;
    let rest = resumed.take(3).await;
    assert_eq!(rest.iter().map(|frame| text(&frame.data, "id")).collect::<Vec<_>>(), new[3..]);
}
