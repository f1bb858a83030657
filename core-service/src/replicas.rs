//! The cores of a cluster: which ones live, how they reach each other, the counts and stream slots they share, and what
//! all processes report.

pub mod members;
pub mod peers;
pub mod processes;
pub mod shard_cores;
pub mod shared_counts;
pub mod stream_slots;
