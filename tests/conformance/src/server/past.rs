//! Rules about replays of past events.

use reqwest::{Method, StatusCode};
use serde_json::Value;

use super::{
    item::{Item, Query},
    stream::{Stream, Transport},
    target::{Target, retried},
};
use crate::{
    Miss,
    verdict::{Verdict, ensure},
};

/// Number of events that each rule posts.
const POSTED: usize = 5;

fn created_at(event: &Value) -> &str {
    event["created_at"].as_str().unwrap_or_default()
}

/// Posts theses about a token. Returns their events.
async fn post(target: &Target, token: &str) -> Result<Vec<Value>, Miss> {
    let mut events = Vec::new();
    for number in 0..POSTED {
        events.push(target.post(token, &number.to_string()).await?);
    }
    Ok(events)
}

pub(super) async fn replay(target: &Target, transport: Transport) -> Verdict {
    let token = target.new_token();
    let events = post(target, &token).await?;
    let from = created_at(&events[1]);
    let query = Query { from: Some(from.to_owned()), ..Query::of(&token) };
    let mut stream = Stream::open(target, transport, &query).await?;
    let mut cursors = Vec::new();
    for expected in events.iter().filter(|event| created_at(event) >= from) {
        let (cursor, event) = stream.event().await?;
        ensure!(event == *expected, "the event {} comes instead of {}", event["id"], expected["id"]);
        cursors.push(cursor);
    }
    let live = target.post(&token, "live").await?;
    stream.expect(&live).await?;
    drop(stream);
    // A cursor takes precedence over `from`.
    let cursor = &cursors[cursors.len() - 2];
    let mut resumed = Stream::open(target, transport, &query.after(cursor)).await?;
    resumed.expect(&events[POSTED - 1]).await?;
    resumed.expect(&live).await
}

/// Reads a replay to its end. Returns its events and the cursor of the end.
async fn read_to_end(stream: &mut Stream) -> Result<(Vec<Value>, String), Miss> {
    let mut events = Vec::new();
    loop {
        match stream.next().await? {
            Item::Cursor(_) => {}
            Item::Event { event, .. } => events.push(event),
            Item::End(cursor) => return Ok((events, cursor)),
            Item::Gap(gap) => return Err(format!("{gap:?} in a replay").into()),
        }
    }
}

pub(super) async fn replay_end(target: &Target, transport: Transport) -> Verdict {
    let token = target.new_token();
    let posted = post(target, &token).await?;
    let (from, to) = (created_at(&posted[1]), created_at(&posted[3]));
    let query = Query { from: Some(from.to_owned()), to: Some(to.to_owned()), ..Query::of(&token) };
    let (events, cursor) = read_to_end(&mut Stream::open(target, transport, &query).await?).await?;
    let is_within = |event: &&Value| (from..=to).contains(&created_at(event));
    ensure!(events.iter().eq(posted.iter().filter(is_within)), "other events are replayed than those of the time");
    let behind = query.after(&cursor);
    if transport == Transport::Sse {
        let request = || target.request(Method::GET, &behind.path(), Some(&target.options.key));
        let response = retried(async || target.send(request()).await).await?;
        ensure!(response.status() == StatusCode::NO_CONTENT, "{} after the end instead of 204", response.status());
        return Ok(());
    }
    let (events, _) = read_to_end(&mut Stream::open(target, transport, &behind).await?).await?;
    ensure!(events.is_empty(), "{} events come after the end", events.len());
    Ok(())
}

pub(super) async fn replay_refused(target: &Target, transport: Transport) -> Verdict {
    let token = target.new_token();
    let event = target.post(&token, "the past").await?;
    let at = |from: &str, to: Option<&str>| Query {
        from: Some(from.to_owned()),
        to: to.map(str::to_owned),
        ..Query::of(&token)
    };
    let mut refused = vec![(at("2001-01-01T00:00:00Z", None), (403, "HISTORY_LIMIT"))];
    // Over gRPC, a wrong field gives the same status as a malformed request.
    if transport != Transport::Grpc {
        let (wrong, now) = ((422, "VALIDATION_FAILED"), created_at(&event));
        refused.push((at("2999-01-01T00:00:00Z", None), wrong));
        refused.push((at(now, Some("2001-01-01T00:00:00Z")), wrong));
    }
    for (query, refusal) in refused {
        Stream::expect_refusal(target, transport, &target.options.key, &query, refusal).await?;
    }
    Ok(())
}
