//! What the cores of a cluster know of each other.

pub mod members;
pub mod peers;
pub mod shared_counts;
pub mod stream_slots;
