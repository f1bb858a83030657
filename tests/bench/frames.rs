//! Follows Server-Sent Events.

use std::ops::ControlFlow;

use reqwest::Response;
use tokio::time::Instant;

use crate::{Failure, connection::find};

/// The type of the frames of new theses, in the feed and in the service's streams.
pub(crate) const CREATED: &[u8] = b"thesis.created";

/// A frame of a stream.
pub(crate) struct Frame<'a> {
    /// Empty for a comment.
    pub(crate) event: &'a [u8],
    pub(crate) data: &'a [u8],
    /// When its last byte came.
    pub(crate) at: Instant,
}

/// Opens a stream. What happens from then on comes through it.
pub(crate) async fn open(url: &str, key: &str) -> Result<Response, Failure> {
    let client = reqwest::Client::builder().no_proxy().http1_only().build()?;
    Ok(client.get(url).bearer_auth(key).send().await?.error_for_status()?)
}

/// Gives each frame to `on_frame` until that breaks off. A stream that ends before is a failure.
pub(crate) async fn follow(
    mut stream: Response,
    mut on_frame: impl FnMut(Frame<'_>) -> ControlFlow<()>,
) -> Result<(), Failure> {
    let mut unread: Vec<u8> = Vec::new();
    while let Some(bytes) = stream.chunk().await? {
        let (at, mut read) = (Instant::now(), 0);
        unread.extend_from_slice(&bytes);
        while let Some(length) = find(&unread[read..], b"\n\n") {
            let frame = &unread[read..read + length];
            let (event, data) = (field(frame, b"event: "), field(frame, b"data: "));
            if on_frame(Frame { event, data, at }).is_break() {
                return Ok(());
            }
            read += length + 2;
        }
        unread.drain(..read);
    }
    Err("a stream ended".into())
}

/// A field of a frame; empty when there is none.
fn field<'a>(frame: &'a [u8], name: &[u8]) -> &'a [u8] {
    let mut lines = frame.split(|byte| *byte == b'\n');
    lines.find_map(|line| line.strip_prefix(name)).unwrap_or_default()
}
