//! Rules about streams that have missed more than is replayed.

use std::collections::HashSet;

use futures::{StreamExt as _, TryStreamExt as _, stream::iter};
use serde_json::Value;

use super::{
    item::{Item, Query},
    stream::{Stream, Transport},
    target::{Backlog, Target},
};
use crate::{
    Miss,
    verdict::{Verdict, ensure},
};

/// Number of events that a stream replays.
const REPLAYED: usize = 1_000;
/// Number of events that the suite posts.
const POSTED: usize = REPLAYED + 3;
/// Number of clients that post them.
const WRITERS: usize = 16;

/// The given backlog, or a new one.
pub(super) async fn backlog(target: &Target) -> Result<&Backlog, Miss> {
    let options = &target.options;
    let make = async || match (&options.backlog_cursor, &options.backlog_token) {
        (Some(cursor), Some(token)) => Ok(Backlog { cursor: cursor.clone(), token: token.clone() }),
        _ if options.all => post_backlog(target).await,
        _ => Err(Miss::NotApplicable("needs --backlog-cursor and --backlog-token, or --all")),
    };
    target.backlog.get_or_try_init(make).await
}

async fn post_backlog(target: &Target) -> Result<Backlog, Miss> {
    let token = target.new_token();
    let cursor = Stream::open(target, Transport::Sse, &Query::of(&token)).await?.cursor().await?;
    let texts: Vec<String> = (0..POSTED).map(|number| number.to_string()).collect();
    let posts = texts.iter().map(|text| target.post(&token, text));
    let _events: Vec<Value> = iter(posts).buffer_unordered(WRITERS).try_collect().await?;
    Ok(Backlog { cursor, token })
}

fn id(event: &Value) -> &str {
    event["id"].as_str().unwrap_or_default()
}

fn ids(events: &[Value]) -> Vec<&str> {
    events.iter().map(id).collect()
}

/// The newest events about a token, the oldest of them first.
async fn newest(target: &Target, token: &str) -> Result<Vec<Value>, Miss> {
    let path = format!("/v1/events?types={}&token={token}", Query::TYPE);
    let mut newest = target.list(&path, REPLAYED).await?;
    newest.reverse();
    ensure!(newest.len() == REPLAYED, "the history has only {} events about the backlog's token", newest.len());
    Ok(newest)
}

pub(super) async fn gap(target: &Target, transport: Transport) -> Verdict {
    let backlog = backlog(target).await?;
    let mut stream = Stream::open(target, transport, &Query::of(&backlog.token).after(&backlog.cursor)).await?;
    let first = stream.cursor().await?;
    ensure!(first == backlog.cursor, "{first} comes before the gap: who breaks off there would not learn of the gap");
    let gap = match stream.next().await? {
        Item::Gap(gap) => gap,
        other => return Err(format!("{other:?} instead of a gap").into()),
    };
    ensure!(gap.first_cursor == backlog.cursor, "the gap begins at {} instead of {}", gap.first_cursor, backlog.cursor);
    let mut replayed = Vec::new();
    while replayed.len() < REPLAYED {
        replayed.push(stream.event().await?.1);
    }
    let newest = newest(target, &backlog.token).await?;
    ensure!(ids(&replayed) == ids(&newest), "other events are replayed than the newest 1,000 in their order");
    let listed = target.list(&gap.path, usize::MAX).await?;
    let replayed: HashSet<&str> = ids(&replayed).into_iter().collect();
    let left_out: Vec<&Value> = listed.iter().filter(|event| !replayed.contains(id(event))).collect();
    check_count(gap.skipped, &left_out)
}

/// Compares the gap's count with the events that its path lists, newest first, without the replayed ones. Older events
/// of the first one's millisecond may come along.
fn check_count(skipped: Option<i64>, left_out: &[&Value]) -> Verdict {
    let Some(skipped) = skipped.and_then(|skipped| usize::try_from(skipped).ok()) else {
        ensure!(left_out.len() > 10_000, "no count, although only {} events are left out", left_out.len());
        return Ok(());
    };
    ensure!(skipped > 0 && left_out.len() >= skipped, "{skipped} skipped, but the path lists {}", left_out.len());
    let first = &left_out[skipped - 1]["created_at"];
    let more = left_out[skipped..].iter().filter(|event| event["created_at"] != *first).count();
    ensure!(more == 0, "{skipped} skipped, but the path lists {more} more of another time");
    Ok(())
}

pub(super) async fn replay_limit(target: &Target, transport: Transport) -> Verdict {
    let backlog = backlog(target).await?;
    let query = Query::of(&backlog.token);
    let mut stream = Stream::open(target, transport, &query.after(&backlog.cursor)).await?;
    let last_cursor = loop {
        match stream.next().await? {
            Item::Cursor(_) => {}
            Item::Gap(gap) => break gap.last_cursor,
            other => return Err(format!("{other:?} instead of a gap").into()),
        }
    };
    drop(stream);
    // Exactly as many as are replayed are missed after it.
    let newest = newest(target, &backlog.token).await?;
    Stream::open(target, transport, &query.after(&last_cursor)).await?.expect(&newest[0]).await
}

pub(super) async fn gap_of_matches(target: &Target, transport: Transport) -> Verdict {
    let backlog = backlog(target).await?;
    let token = target.new_token();
    let event = target.post(&token, "alone").await?;
    let mut resumed = Stream::open(target, transport, &Query::of(&token).after(&backlog.cursor)).await?;
    resumed.expect(&event).await
}
