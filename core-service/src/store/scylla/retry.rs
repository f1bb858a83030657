//! The rule for sending a failed request again.
//!
//! A repeatable request goes to another node when one node fails, not after overload or a failed read. Only reads go to
//! a second node early. Conditional writes are executed once, and too few replicas leave them in doubt.

use scylla::{
    errors::{DbError, RequestAttemptError},
    policies::retry::{RequestInfo, RetryDecision, RetryPolicy, RetrySession},
};

/// Maximum number of retries of a request. With three copies of each row there are two other nodes.
const MAX_RETRIES: u32 = 2;

/// Sends a repeatable request to another node if this node is starting up, going down or cut off. If a request fails
/// because of too much work, or because the copies of a row do not answer, it would fail there too and add more work.
///
/// A node that has evicted a statement between its preparation and its execution has executed nothing, so the request
/// goes to that node again; the driver prepares the statement there first.
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

const fn decide(error: &RequestAttemptError, is_idempotent: bool) -> RetryDecision {
    match error {
        RequestAttemptError::DbError(DbError::Unprepared { .. }, _) => RetryDecision::RetrySameTarget(None),
        error if is_idempotent && is_its_own(error) => RetryDecision::RetryNextTarget(None),
        _ => RetryDecision::DontRetry,
    }
}

impl RetryPolicy for RetryOtherNodes {
    fn new_session(&self) -> Box<dyn RetrySession> {
        Box::new(RetryCount(0))
    }
}

impl RetrySession for RetryCount {
    fn decide_should_retry(&mut self, request: RequestInfo<'_>) -> RetryDecision {
        if self.0 == MAX_RETRIES {
            return RetryDecision::DontRetry;
        }
        let decision = decide(request.error, request.is_idempotent);
        if decision != RetryDecision::DontRetry {
            self.0 += 1;
            crate::metrics::STORE_RETRIES.one().increment(1);
        }
        decision
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

    #[test]
    fn a_statement_that_a_node_evicted_is_sent_there_again() {
        let evicted = RequestAttemptError::DbError(DbError::Unprepared { statement_id: "1".into() }, String::new());
        assert_eq!(decide(&evicted, true), RetryDecision::RetrySameTarget(None));
        assert_eq!(decide(&RequestAttemptError::UnableToAllocStreamId, true), RetryDecision::RetryNextTarget(None));
        assert_eq!(decide(&RequestAttemptError::UnableToAllocStreamId, false), RetryDecision::DontRetry);
    }
}
