//! Delivery of events to webhooks: which deliveries are sent, and who sends their attempts.

pub mod dispatch;
pub mod rule;
pub mod vet_url;
