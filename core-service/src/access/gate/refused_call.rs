//! A call that was not admitted.

use std::sync::Arc;

use crate::{access::limits::Rate, domain::control::ApiKey, error::Error};

pub struct RefusedCall {
    /// The first check that failed.
    pub error: Error,
    /// The rate window, once the key is accepted.
    pub rate: Option<Rate>,
    /// The key, even if it may not be used; none if there is no such key.
    pub key: Option<Arc<ApiKey>>,
}
