//! The stream engine. It knows `StreamService` and no transport: Server-Sent Events, WebSocket and gRPC write the
//! events that it reads.
//!
//! A connection is a set of positions with a filter, not a queue. `hub` is the entry point. `link` opens streams at one
//! core and receives their ends. `feed` keeps each followed dataset's newest events in a `ring`, read once for all by
//! `tails`, and wakes the connections that `interest` finds. `follower` is one connection's place in one dataset: it
//! reads the ring or, from further back, `pages` of the log. `subscription` joins the followers of one filter.

mod feed;
mod follower;
mod hub;
mod interest;
mod link;
pub mod metrics;
mod pages;
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
