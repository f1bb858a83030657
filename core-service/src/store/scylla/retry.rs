//! The rule for sending a failed request to another node.
//!
//! A repeatable request goes to another node when one node fails, not after overload or a failed read. Only reads go to
//! a second node early. Conditional writes are sent once, and too few replicas leave them in doubt.

use scylla::{
    errors::{DbError, RequestAttemptError},
    policies::retry::{RequestInfo, RetryDecision, RetryPolicy, RetrySession},
};

/// Maximum number of other nodes that get the request: with three copies of each row there are two.
const MAX_OTHER_NODES: u32 = 2;

/// Sends a repeatable request to another node if this node is starting up, going down or cut off. If a request fails
/// because of too much work, or because the copies of a row do not answer, it would fail there too and add more work.
#[derive(Debug)]
pub(super) struct RetryOtherNodes;

struct RetryCount(u32);

/// True if the failure concerns only this node.
const fn is_its_own(error: &RequestAttemptError) -> bool {
    matches!(
        error,
        RequestAttemptError::BrokenConnectionError(_)
            | RequestAttemptError::UnableToAllocStreamId
            | RequestAttemptError::DbError(
                DbError::Unavailable { .. } | DbError::IsBootstrapping | DbError::ServerError,
                _
            )
    )
}

impl RetryPolicy for RetryOtherNodes {
    fn new_session(&self) -> Box<dyn RetrySession> {
        Box::new(RetryCount(0))
    }
}

impl RetrySession for RetryCount {
    fn decide_should_retry(&mut self, request: RequestInfo<'_>) -> RetryDecision {
        if !request.is_idempotent || self.0 == MAX_OTHER_NODES || !is_its_own(request.error) {
            return RetryDecision::DontRetry;
        }
        self.0 += 1;
        crate::metrics::STORE_RETRIES.one().increment(1);
        RetryDecision::RetryNextTarget(None)
    }

    fn reset(&mut self) {
        self.0 = 0;
    }
}

#[cfg(test)]
mod tests {
    use scylla::{errors::WriteType, statement::Consistency};

    use super::*;

    #[test]
    fn only_failures_of_one_node_are_retried_on_another() {
        let consistency = Consistency::LocalQuorum;
        let is_its_own = |error| is_its_own(&RequestAttemptError::DbError(error, String::new()));
        for error in [
            DbError::IsBootstrapping,
            DbError::Unavailable { consistency, required: 2, alive: 1 },
            DbError::ServerError,
        ] {
            assert!(is_its_own(error.clone()), "{error}");
        }
        for error in [
            DbError::Overloaded,
            DbError::ReadTimeout { consistency, received: 1, required: 2, data_present: false },
            DbError::ReadFailure { consistency, received: 1, required: 2, numfailures: 1, data_present: false },
            DbError::WriteTimeout { consistency, received: 1, required: 2, write_type: WriteType::Simple },
            DbError::WriteFailure { consistency, received: 1, required: 2, numfailures: 1, write_type: WriteType::Cas },
            DbError::Invalid,
            DbError::Other(0x1500),
        ] {
            assert!(!is_its_own(error.clone()), "{error}");
        }
    }
}
