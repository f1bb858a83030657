//! The connector that copies an upstream into the `live` dataset. `docs/upstream.md` describes the upstream's
//! interface.
//!
//! The owner of `live` follows the feed and makes all lookups, so that the upstream sees one client with one budget;
//! the other cores send their lookups to the owner. Like every ownership this only saves work: if two cores own the
//! dataset for a moment, both apply the same observations, and the second time changes nothing.
//!
//! The position in the feed is a durable row, which the leader moves behind the applied frames every 250 ms. A first
//! start writes it before it opens the feed, so a start without the row has missed nothing. A new leader continues from
//! there, so some frames come twice. Lookups that replace what the feed did not deliver are pending in the same row
//! until all their pages are applied.

mod catch_up;
pub mod client;
mod feed_checkpoint;
mod follow;
pub mod frames;
mod intake;
mod lookup;
pub mod objects;
pub mod pace;
pub mod pushes;
pub mod settings;
pub mod status;
pub mod upstream;
