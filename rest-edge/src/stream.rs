//! Streams. A connection is a set of positions with a filter, not a queue. `feed` follows each dataset once for all
//! connections. `ring` keeps its newest events. `follower` reads them or, from further back, the log itself.
//! `subscription` joins the followers of one connection. `sse` writes their events as Server-Sent Events.

pub(crate) mod feed;
mod follower;
pub(crate) mod ring;
mod sse;
mod subscription;
#[cfg(test)]
mod tests;

pub(crate) use self::sse::routes;
