//! From an event that a webhook is owed to its attempts.

pub mod dispatch;
pub mod serving;
pub mod vet_url;
