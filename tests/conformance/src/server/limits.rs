//! Rules with the key of another project, whose plan allows few streams.

use serde_json::json;
use tokio::sync::MutexGuard;

use super::{
    item::Query,
    socket::Socket,
    stream::{Stream, Transport},
    target::{SOON, Target, retried},
};
use crate::{
    Miss,
    verdict::{Verdict, ensure},
};

/// Maximum number of streams that the suite opens to reach a limit.
const MAX_PLACES: usize = 16;

/// The other key. Its rules come one after the other, since they count its streams.
async fn other(target: &Target) -> Result<(&str, MutexGuard<'_, ()>), Miss> {
    let key = target.options.other_key.as_deref().ok_or(Miss::NotApplicable("needs --other-key"))?;
    Ok((key, target.other.lock().await))
}

/// Opens a stream with the other key, again while the last rule's streams are closing.
async fn open(target: &Target, transport: Transport, key: &str) -> Result<Stream, Miss> {
    retried(async || Stream::try_open(target, transport, key, &Query::default()).await).await
}

/// Opens as many streams as the plan allows.
async fn fill(target: &Target, key: &str) -> Result<Vec<Stream>, Miss> {
    let limit = target.stream_limit(key).await?;
    if limit > MAX_PLACES {
        return Err(Miss::NotApplicable("the other key's plan allows more than 16 streams"));
    }
    let mut open_streams = Vec::new();
    while open_streams.len() < limit {
        open_streams.push(open(target, Transport::Sse, key).await?);
    }
    Ok(open_streams)
}

pub(super) async fn other_view(target: &Target, transport: Transport) -> Verdict {
    let (key, _guard) = other(target).await?;
    let mut stream = Stream::open(target, transport, &Query::default()).await?;
    let query = Query::default().after(&stream.cursor().await?);
    Stream::expect_refusal(target, transport, key, &query, (400, "INVALID_CURSOR")).await
}

pub(super) async fn stream_limit(target: &Target, transport: Transport) -> Verdict {
    let (key, _guard) = other(target).await?;
    let mut streams = fill(target, key).await?;
    Stream::expect_refusal(target, transport, key, &Query::default(), (429, "STREAM_LIMIT_REACHED")).await?;
    drop(streams.pop());
    // The place of a closed stream is free soon.
    open(target, transport, key).await.map(drop)
}

pub(super) async fn close_4504(target: &Target, _transport: Transport) -> Verdict {
    let (key, _guard) = other(target).await?;
    let streams = fill(target, key).await?;
    let mut socket = Socket::open(target, None, "").await?;
    socket.send(&json!({"op": "auth", "key": key})).await?;
    socket.closed(SOON, 4504).await?;
    ensure!(!streams.is_empty(), "the plan allows no stream");
    Ok(())
}
