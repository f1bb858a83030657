//! Judges implementations of the event streams by named rules. [`server`] judges a server over SSE, WebSocket and gRPC,
//! by its addresses and a test key. [`client`] judges a program that follows a stream, which a scripted server sends.
//!
//! A rule is a row of `server/rules.rs` or `client/rules.rs`. `docs/stream-conformance.md` lists them all.

pub mod client;
pub mod server;
mod verdict;

pub use self::verdict::{Judgement, Miss};
