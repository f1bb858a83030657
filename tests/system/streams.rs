//! `GET /v1/events/stream`: Server-Sent Events.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use thesis_proto::v1::Environment;
use tokio::task::JoinSet;

use crate::{
    examples::frames::assert_frame,
    harness::{ALL_SCOPES, Client, Frame, SOON, Service, Sse, assert_fields, eventually, ids, ingest::token, text},
};

on_both_stores![
    events_arrive_as_in_the_history,
    whoever_has_an_event_can_read_its_thesis,
    filters_choose_what_arrives,
    a_stream_sees_what_its_key_sees,
    resuming_replays_what_was_missed,
    the_header_wins_over_the_parameter,
    a_cursor_that_was_never_issued_is_refused,
    more_than_a_thousand_missed_leave_a_gap,
    a_stream_that_has_seen_nothing_can_be_resumed,
    what_does_not_match_causes_no_gap,
    a_revoked_keys_stream_ends_within_a_second,
    lost_rights_end_a_stream,
    the_plan_limits_open_streams,
    nothing_is_lost_or_doubled_at_the_join,
];

const CREATED: &str = "?types=thesis.created";

async fn events_arrive_as_in_the_history(service: &Service) {
    let client = service.test_client().await;
    let mut stream = client.stream("?token=STREAMED").await;
    assert_eq!(stream.headers["cache-control"], "no-store, no-transform");
    let mut made = Vec::new();
    for number in 0..3 {
        made.push(client.thesis("writer", "STREAMED", &format!("line\nand 🚀 {number}")).await.1);
    }
    // The three, and the derived events of at least the first.
    let mut frames: Vec<Frame> = Vec::new();
    let covered = |frame: &Frame| frame.data["data"]["thesis_count_1h"] == 3;
    while !frames.iter().any(covered) {
        frames.push(stream.next().await);
    }
    let created: Vec<&Value> =
        frames.iter().filter(|frame| frame.event == "thesis.created").map(|frame| &frame.data).collect();
    assert_eq!(created, made.iter().collect::<Vec<_>>());
    for kind in ["token.activity", "token.thesis_velocity"] {
        assert!(frames.iter().any(|frame| frame.event == kind), "{kind}");
    }
    for frame in &frames {
        let over_rest = client.get(&format!("/v1/events/{}", text(&frame.data, "id"))).await;
        assert_eq!(over_rest.text, frame.raw);
    }
    let mut cursors: Vec<&str> = frames.iter().map(Frame::cursor).collect();
    cursors.sort_unstable();
    cursors.dedup();
    assert_eq!(cursors.len(), frames.len());
}

async fn whoever_has_an_event_can_read_its_thesis(service: &Service) {
    let client = service.test_client().await;
    let mut stream = client.stream("?handle=writer").await;
    let writer = client.clone();
    let writing = tokio::spawn(async move {
        for number in 0..25 {
            writer.thesis("writer", "READ", &number.to_string()).await;
        }
    });
    for number in 0..25 {
        let frame = stream.next().await;
        let (event, thesis) = (text(&frame.data, "id"), text(&frame.data["data"], "thesis_id"));
        let read = client.get(&format!("/v1/theses/{thesis}")).await.ok(200);
        assert_eq!(read["text"], number.to_string());
        let listed = client.all("/v1/theses?handle=writer&limit=100").await;
        assert!(ids(&listed).contains(&thesis));
        let history = client.all("/v1/events?handle=writer&limit=100").await;
        assert!(ids(&history).contains(&event));
        assert_eq!(client.get(&format!("/v1/events/{event}")).await.ok(200), frame.data);
    }
    writing.await.unwrap();
}

async fn filters_choose_what_arrives(service: &Service) {
    let client = service.test_client().await;
    let mut by_token = client.stream("?token=$OURS,run&types=thesis.created").await;
    let mut by_handle = client.stream("?handle=@Writer").await;
    let mut by_both = client.stream("?handle=other&token=OURS&chain=sandbox").await;
    let mut derived = client.stream("?types=token.activity,token.thesis_velocity&token=THEIRS").await;
    let mut nothing = client.stream("?chain=solana").await;
    let mut events = Vec::new();
    for (handle, symbol) in
        [("writer", "THEIRS"), ("writer", "OURS"), ("other", "THEIRS"), ("sbx_scout", "RUN"), ("other", "OURS")]
    {
        events.push(client.thesis(handle, symbol, "x").await.1);
    }
    let data = |frames: Vec<Frame>| frames.into_iter().map(|frame| frame.data).collect::<Vec<_>>();
    assert_eq!(data(by_token.take(3).await), [&events[1], &events[3], &events[4]].map(Value::clone));
    assert_eq!(data(by_handle.take(2).await), events[..2]);
    assert_eq!(by_both.next().await.data, events[4]);
    let mut kinds: Vec<String> = derived.take(2).await.into_iter().map(|frame| frame.event).collect();
    kinds.sort();
    assert_eq!(kinds, ["token.activity", "token.thesis_velocity"]);
    let none = tokio::time::timeout(Duration::from_millis(300), nothing.next()).await;
    assert!(none.is_err());
}

async fn a_stream_sees_what_its_key_sees(service: &Service) {
    let project = service.project().await;
    let (one, other, live) = (project.test().await, project.test().await, project.live().await);
    let stranger = service.test_client().await;
    let mut own = [one.stream("").await, other.stream(CREATED).await];
    let mut foreign = [live.stream("").await, stranger.stream(CREATED).await];
    let event = one.thesis("writer", "OWN", "x").await.1;
    for stream in &mut own {
        assert_eq!(stream.next_of("thesis.created").await.data, event);
    }
    for stream in &mut foreign {
        let none = tokio::time::timeout(Duration::from_millis(300), stream.next()).await;
        assert!(none.is_err());
    }
}

async fn post(client: &Client, count: usize) -> Vec<Value> {
    let mut events = Vec::new();
    for number in 0..count {
        events.push(client.thesis("writer", "RESUMED", &number.to_string()).await.1);
    }
    events
}

/// Starts clients that post at the same time, each a number of theses one after the other.
fn writers(client: &Client, token: &'static str, clients: usize, theses: usize) -> JoinSet<()> {
    let mut writing = JoinSet::new();
    for writer in 0..clients {
        let client = client.clone();
        writing.spawn(async move {
            for number in 0..theses {
                client.thesis("writer", token, &format!("{writer} {number}")).await;
            }
        });
    }
    writing
}

fn data(frames: &[Frame]) -> Vec<&Value> {
    frames.iter().map(|frame| &frame.data).collect()
}

async fn resuming_replays_what_was_missed(service: &Service) {
    let project = service.project().await;
    let client = project.test().await;
    let mut stream = client.stream(CREATED).await;
    let mut events = post(&client, 4).await;
    let seen = stream.take(4).await;
    drop(stream);
    events.extend(post(&client, 5).await);
    for (position, frame) in seen.iter().enumerate() {
        for mut resumed in [
            client.resume(CREATED, frame.cursor()).await,
            client.stream(&format!("{CREATED}&from_cursor={}", frame.cursor())).await,
        ] {
            let replayed = resumed.take(8 - position).await;
            assert_eq!(data(&replayed), events[position + 1..].iter().collect::<Vec<_>>());
            // A replayed frame equals the one seen, its cursor too.
            assert_eq!(replayed[..3 - position], seen[position + 1..]);
        }
    }
    // After the replay the stream goes on live; after the last replayed frame there is nothing to replay.
    let mut resumed = client.resume(CREATED, seen[3].cursor()).await;
    let last = resumed.take(5).await.pop().unwrap();
    let mut at_head = client.resume(CREATED, last.cursor()).await;
    let next = client.thesis("writer", "RESUMED", "live").await.1;
    assert_eq!(resumed.next().await.data, next);
    assert_eq!(at_head.next().await.data, next);
    // A cursor is a position, whatever the filters were.
    let mut other_filters = client.resume("?handle=writer&types=thesis.created", seen[0].cursor()).await;
    assert_eq!(other_filters.next().await.data, events[1]);
    // Any key of the project may use it.
    let mut other_key = project.test().await.resume(CREATED, seen[0].cursor()).await;
    assert_eq!(other_key.next().await.data, events[1]);
}

async fn the_header_wins_over_the_parameter(service: &Service) {
    let client = service.test_client().await;
    let mut stream = client.stream(CREATED).await;
    let events = post(&client, 3).await;
    let seen = stream.take(3).await;
    let both = format!("{CREATED}&from_cursor={}", seen[0].cursor());
    assert_eq!(client.resume(&both, seen[1].cursor()).await.next().await.data, events[2]);
    // A client that has seen nothing sends an empty header.
    assert_eq!(client.resume(&both, "").await.next().await.data, events[1]);
    let path = format!("/v1/events/stream{both}");
    let request = client.request(reqwest::Method::GET, &path).header("last-event-id", "nonsense");
    let error = client.send(request).await.error(400, "INVALID_CURSOR");
    assert_eq!(error["param"], "Last-Event-ID");
}

async fn a_cursor_that_was_never_issued_is_refused(service: &Service) {
    let project = service.project().await;
    let client = project.test().await;
    let mut stream = client.stream(CREATED).await;
    post(&client, 1).await;
    let cursor = stream.next().await.cursor().to_owned();
    let beyond = {
        // The last byte is the position in the project's own log.
        let mut bytes = URL_SAFE_NO_PAD.decode(&cursor).unwrap();
        *bytes.last_mut().unwrap() = 0x7f;
        URL_SAFE_NO_PAD.encode(bytes)
    };
    let half = &cursor[..cursor.len() / 2];
    for wrong in ["x", "0", "not%20a%20cursor", half, &format!("{cursor}A"), &beyond] {
        client.get(&format!("/v1/events/stream?from_cursor={wrong}")).await.error(400, "INVALID_CURSOR");
    }
    // A cursor of another view is not valid either.
    for other in [project.live().await, service.test_client().await] {
        other.get(&format!("/v1/events/stream?from_cursor={cursor}")).await.error(400, "INVALID_CURSOR");
    }
    // Refused streams hold no place.
    eventually("all places are free", SOON, async || {
        (client.get("/v1/me/usage").await.ok(200)["streams"]["open"] == 1).then_some(())
    })
    .await;
    drop(stream);
}

async fn more_than_a_thousand_missed_leave_a_gap(service: &Service) {
    const MISSED: usize = 1_030;
    const SKIPPED: usize = MISSED - 1_000;
    const POSTED: usize = 2 * SKIPPED;
    let project = service.project_on("huge").await;
    let client = project.test().await;
    let mut stream = client.stream(CREATED).await;
    post(&client, 1).await;
    let cursor = stream.next().await.cursor().to_owned();
    drop(stream);
    // The gap ends among theses of ten clients at once.
    writers(&client, "MANY", 10, POSTED / 10).join_all().await;
    let (dataset, on) = (project.dataset(), token("sandbox", "many-address", "MANY"));
    let said: Vec<String> = (POSTED..MISSED).map(|number| number.to_string()).collect();
    service.post_all(&dataset, &on, &said).await;
    let all = client.all("/v1/events?types=thesis.created&token=MANY&limit=100").await;
    assert_eq!(all.len(), MISSED);

    let query = "?types=thesis.created&token=MANY";
    let mut resumed = client.resume(query, &cursor).await;
    let gap = resumed.next().await;
    assert_eq!(gap.event, "stream.gap");
    assert_fields(&gap.data, &["first_cursor", "last_cursor", "skipped", "path"]);
    assert_frame(&client, &gap.event, &gap.data).await;
    assert_eq!(text(&gap.data, "first_cursor"), cursor);
    assert_eq!(gap.data["skipped"], SKIPPED);
    let replayed = resumed.take(1_000).await;
    let newest: Vec<&Value> = all[..1_000].iter().rev().collect();
    assert_eq!(data(&replayed), newest);
    // The path lists the skipped events, and others only if they have the time of the last one.
    let path = text(&gap.data, "path");
    assert!(path.starts_with("/v1/events?types=thesis.created&token=MANY"), "{path}");
    let listed = client.all(&format!("{path}&limit=100")).await;
    assert!(all[1_000..].iter().all(|event| listed.contains(event)) && listed.len() < POSTED);
    // The last cursor resumes right after it, and exactly a thousand missed events leave no gap.
    let mut after = client.resume(query, text(&gap.data, "last_cursor")).await;
    assert_eq!(after.next().await.data, *newest[0]);
    service.post_all(&dataset, &on, &["live".to_owned()]).await;
    let next = resumed.next().await.data;
    assert_eq!(text(&next["data"], "text"), "live");
    assert_eq!(client.get(&format!("/v1/events/{}", text(&next, "id"))).await.ok(200), next);
}

async fn a_stream_that_has_seen_nothing_can_be_resumed(service: &Service) {
    let client = service.test_client().await;
    let mut stream = client.stream("?token=QUIET").await;
    let cursor = stream.first_cursor().await;
    drop(stream);
    let event = client.thesis("writer", "QUIET", "x").await.1;
    assert_eq!(client.resume("?token=QUIET", &cursor).await.next_of("thesis.created").await.data, event);
    let path = format!("?token=QUIET&types=thesis.created&from_cursor={cursor}");
    assert_eq!(client.stream(&path).await.next().await.data, event);
}

async fn what_does_not_match_causes_no_gap(service: &Service) {
    const OTHERS: usize = 1_100;
    let project = service.project_on("huge").await;
    let client = project.test().await;
    let cursor = client.stream(CREATED).await.first_cursor().await;
    let first = client.thesis("rare", "RARE", "first").await.1;
    let others: Vec<String> = (0..OTHERS).map(|number| number.to_string()).collect();
    service.post_all(&project.dataset(), &token("sandbox", "often-address", "OFTEN"), &others).await;
    let last = client.thesis("rare", "RARE", "last").await.1;
    for filter in ["token=RARE", "token=$rare", "handle=rare", "handle=@RARE&chain=sandbox"] {
        let mut resumed = client.resume(&format!("{CREATED}&{filter}"), &cursor).await;
        assert_eq!(data(&resumed.take(2).await), [&first, &last], "{filter}");
        // A page of the history finds both at once, too.
        let page = client.get(&format!("/v1/events{CREATED}&{filter}")).await.ok(200);
        assert_eq!(page["data"], json!([last, first]), "{filter}");
        assert_eq!(page["has_more"], false, "{filter}");
    }
    // Without the filter there is a gap.
    let gap = client.resume(CREATED, &cursor).await.next().await;
    assert_eq!((gap.event.as_str(), &gap.data["skipped"]), ("stream.gap", &json!(OTHERS + 2 - 1_000)));
}

async fn a_revoked_keys_stream_ends_within_a_second(service: &Service) {
    let project = service.project().await;
    let key = project.key(Environment::Test, ALL_SCOPES).await;
    let other = project.test().await;
    let mut streams = [key.client.stream("").await, key.client.stream(CREATED).await];
    let mut stays = other.stream(CREATED).await;
    project.revoke(&key).await;
    for stream in &mut streams {
        stream.end(Duration::from_secs(1)).await;
    }
    let event = other.thesis("writer", "STAYS", "x").await.1;
    assert_eq!(stays.next().await.data, event);
}

async fn lost_rights_end_a_stream(service: &Service) {
    let project = service.project().await;
    let live = project.live().await;
    let mut stream = live.stream("").await;
    project.withdraw().await;
    stream.end(Duration::from_secs(1)).await;
    let test = project.test().await;
    let mut stream = test.stream("").await;
    project.archive().await;
    stream.end(Duration::from_secs(1)).await;
    let expiring = service.project().await;
    let end = crate::harness::now_ms() + 1_500;
    let key = expiring.key_until(Environment::Test, ALL_SCOPES, Some(end)).await;
    let mut stream = key.client.stream("").await;
    stream.end(Duration::from_secs(3)).await;
    assert!(crate::harness::now_ms() >= end);
}

async fn the_plan_limits_open_streams(service: &Service) {
    let project = service.project_on("free").await;
    let (test, live) = (project.test().await, project.live().await);
    // Counted per project, whatever the environment.
    let first = test.stream("").await;
    let mut second = live.stream("").await;
    let answer = test.get("/v1/events/stream").await;
    let error = answer.error(429, "STREAM_LIMIT_REACHED");
    assert_eq!(error["details"], json!({"limit": 2, "open": 2}));
    live.get("/v1/events/stream").await.error(429, "STREAM_LIMIT_REACHED");
    drop(first);
    let mut third = eventually("a place is free", SOON, async || opened(&test).await).await;
    test.get("/v1/events/stream").await.error(429, "STREAM_LIMIT_REACHED");
    let event = test.thesis("writer", "LIMITED", "x").await.1;
    assert_eq!(third.next_of("thesis.created").await.data, event);
    project.withdraw().await;
    second.end(Duration::from_secs(1)).await;
    eventually("the ended stream's place is free", SOON, async || opened(&test).await).await;
}

/// A stream, if there is a place for it.
async fn opened(client: &Client) -> Option<Sse> {
    let usage = client.get("/v1/me/usage").await.ok(200);
    if usage["streams"]["open"] == usage["streams"]["limit"] {
        return None;
    }
    Some(client.stream("").await)
}

/// Clients that lose their connection again and again while others write see every event once, in order.
async fn nothing_is_lost_or_doubled_at_the_join(service: &Service) {
    const WRITTEN: usize = 200;
    let client = service.project_on("huge").await.test().await;
    let mut first = client.stream(CREATED).await;
    client.thesis("writer", "JOIN", "start").await;
    let start = first.next().await.cursor().to_owned();
    let writing = writers(&client, "JOIN", 4, WRITTEN / 4);
    let mut seen = Vec::new();
    let mut cursor = start;
    while seen.len() < WRITTEN {
        let mut stream = client.resume(CREATED, &cursor).await;
        for _ in 0..(seen.len() % 7 + 1).min(WRITTEN - seen.len()) {
            let frame = stream.next().await;
            cursor = frame.cursor().to_owned();
            seen.push(frame.data);
        }
    }
    writing.join_all().await;
    let mut history = client.all("/v1/events?types=thesis.created&token=JOIN&limit=100").await;
    history.pop();
    history.reverse();
    assert_eq!(ids(&seen), ids(&history));
    let unbroken = first.take(WRITTEN).await;
    assert_eq!(data(&unbroken), history.iter().collect::<Vec<_>>());
}
