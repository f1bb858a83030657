//! The secret key: the keys derived from it, and the check that a store was written under it.

pub mod key_ring;
pub mod secret_check;
