//! The cores of a cluster: which ones live, how they reach each other, and the counts and stream slots they share.

pub mod members;
pub mod peers;
pub mod shard_cores;
pub mod shared_counts;
pub mod stream_slots;
