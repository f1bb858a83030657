//! Streams. A connection is a set of positions with a filter, not a queue: `feed` follows each dataset once for all
//! connections, `ring` keeps its newest events, `follower` reads them or, from further back, the log itself, and
//! `subscription` joins what one connection follows. `sse` writes it as Server-Sent Events.

mod feed;
mod follower;
mod ring;
mod sse;
mod subscription;
#[cfg(test)]
mod tests;

pub(crate) use self::{feed::Feeds, ring::MAX_ENTRIES, sse::routes};
