//! Failed authentications, and reads without a key, counted by the caller's address.

use std::net::IpAddr;

use thesis_proto::{
    error::{ApiError, ErrorCode},
    metadata::SERVICE_TOKEN,
};

use super::{Gate, seconds_left};
use crate::{
    access::limits::LOG_READS_PER_MINUTE,
    domain::abuse::network_of,
    metrics::{LIMITS, TOKENS_REFUSED},
};

impl Gate {
    /// Counts a wrong service token as a failed authentication of its address.
    pub fn count_wrong_token(&self, address: Option<IpAddr>) -> Result<(), ApiError> {
        TOKENS_REFUSED.one().increment(1);
        if self.wrong_tokens.lock().note_failure() {
            let address = address.map(tracing::field::display);
            tracing::warn!(
                address,
                "a caller has a wrong service token; give each role the SVC_SERVICE_TOKEN of core, and let nobody else \
                 reach this listener"
            );
        }
        let Some(address) = address else { return Ok(()) };
        self.count_failure(&network_of(address), "service token", self.clock.now_ms())
            .map_err(|error| error.with_param(SERVICE_TOKEN))
    }

    /// Counts a read of the trees over the logs, or of the status, by a caller without a key.
    pub fn count_log_read(&self, client: Option<&str>) -> Result<(), ApiError> {
        let now_ms = self.clock.now_ms();
        if client.is_none_or(|client| self.limits.take_log_read(client, now_ms)) {
            return Ok(());
        }
        LIMITS.at("log").increment(1);
        let message = format!(
            "more than {LOG_READS_PER_MINUTE} reads of the log from this address in this minute, those of the status \
             included; wait for the next"
        );
        Err(ApiError::new(ErrorCode::RateLimited, message).with_retry_after(seconds_left(now_ms)))
    }

    pub(super) fn count_failure(&self, client: &str, credential: &str, now_ms: i64) -> Result<(), ApiError> {
        if self.limits.failures.record(client, now_ms) {
            return Ok(());
        }
        LIMITS.at("address").increment(1);
        let message = format!(
            "too many failed authentications from this address; wait for the next minute, and check the {credential}"
        );
        Err(ApiError::new(ErrorCode::RateLimited, message).with_retry_after(seconds_left(now_ms)))
    }
}
