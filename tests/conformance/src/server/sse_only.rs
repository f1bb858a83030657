//! Rules of Server-Sent Events alone.

use reqwest::{
    Method,
    header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName},
};

use super::{
    item::Query,
    sse::Sse,
    stream::{Stream, Transport},
    target::{Target, retried},
};
use crate::{
    Miss,
    verdict::{Verdict, ensure},
};

/// Opens a stream with a value of `Last-Event-ID`.
async fn open(target: &Target, query: &Query, last_event_id: &str) -> Result<Stream, Miss> {
    let sse = retried(async || {
        let request = target.request(Method::GET, &query.path(), Some(&target.options.key));
        Sse::open(target, request.header("last-event-id", last_event_id)).await
    });
    Ok(Stream::Sse(Box::new(sse.await?)))
}

pub(super) async fn head(target: &Target, _transport: Transport) -> Verdict {
    let stream = open(target, &Query::of(&target.new_token()), "").await?;
    let Stream::Sse(sse) = &stream else { return Err("no stream of Server-Sent Events".into()) };
    let header = |name: HeaderName| sse.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (kind, caching) = (header(CONTENT_TYPE), header(CACHE_CONTROL));
    ensure!(kind.starts_with("text/event-stream"), "Content-Type is {kind:?}");
    ensure!(caching.contains("no-store") && caching.contains("no-transform"), "Cache-Control is {caching:?}");
    Ok(())
}

pub(super) async fn frames(target: &Target, _transport: Transport) -> Verdict {
    let token = target.new_token();
    let mut stream = open(target, &Query::of(&token), "").await?;
    stream.cursor().await?;
    target.post(&token, "one line").await?;
    let (cursor, event) = stream.event().await?;
    let Stream::Sse(sse) = &stream else { return Err("no stream of Server-Sent Events".into()) };
    let raw = String::from_utf8_lossy(&sse.raw);
    let frame = raw.split("\n\n").find(|frame| frame.contains(event["id"].as_str().unwrap_or("without an id")));
    let lines: Vec<&str> = frame.unwrap_or_default().lines().collect();
    let begin = [format!("id: {cursor}"), format!("event: {}", Query::TYPE)];
    let is_whole = lines.len() == 3 && lines[..2] == begin && lines[2].starts_with("data: {");
    ensure!(is_whole, "{lines:?} instead of one line each of id, event and data");
    ensure!(raw.contains("event: stream.cursor\n"), "the first cursor is no event of the type stream.cursor");
    let wait = sse.retry_ms;
    ensure!(wait.is_some_and(|wait| (500..=5_000).contains(&wait)), "retry is {wait:?} ms");
    Ok(())
}

pub(super) async fn last_event_id(target: &Target, _transport: Transport) -> Verdict {
    let token = target.new_token();
    let query = Query::of(&token);
    let mut stream = open(target, &query, "").await?;
    let mut seen = Vec::new();
    for number in 0..3 {
        target.post(&token, &number.to_string()).await?;
        seen.push(stream.event().await?);
    }
    drop(stream);
    let both = query.after(&seen[0].0);
    open(target, &both, &seen[1].0).await?.expect(&seen[2].1).await?;
    open(target, &both, "").await?.expect(&seen[1].1).await
}
