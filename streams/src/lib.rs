//! The stream engine. It knows `StreamService` and no transport: Server-Sent Events, WebSocket and gRPC write the
//! events that it reads.
//!
//! A connection is a set of positions with a filter, not a queue. `hub` is the entry point. `link` opens streams at one
//! core and receives their ends. `feed` keeps each followed dataset's newest events in a `ring`, read once for all by
//! `tails`, and wakes the connections that `interest` finds. `follower` is one connection's place in one dataset: it
//! reads the ring or, from further back, `pages` of the log. `subscription` joins the followers of one filter, and
//! `replay` paces them.
//!
//! Opening is a unary call, in which core checks the key, takes a place and says where the stream begins. The edge
//! chooses the stream's id, so that it can close a stream whose opening it gave up. A stream belongs to a session, the
//! edge's one call of `Endings` at that core. When the session breaks, core frees its places, and the edge ends its
//! streams with a hint to reconnect.
//!
//! `Tail` sends all datasets of a hub. A dataset that nobody follows is forgotten after 30 s. A page before which
//! events are missing is refused, and all datasets are called anew. All pages of the log end at the same places, so
//! that a thousand clients that resume together read the log once. The rings of all datasets share a bound; the largest
//! give way.

mod feed;
mod follower;
mod hub;
mod interest;
mod link;
pub mod metrics;
mod pages;
mod replay;
mod ring;
mod signal;
mod subscription;
mod tails;
#[cfg(test)]
mod tests;

pub use self::{
    hub::{Hub, OpenedStream},
    link::{HEARTBEAT, OpenStream, StreamStep},
    ring::{Entry, Render},
    signal::EndReason,
    subscription::Subscription,
};
