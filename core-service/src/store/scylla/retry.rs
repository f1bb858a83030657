//! When a request that one node failed to answer is sent to another.

use scylla::{
    errors::{DbError, RequestAttemptError},
    policies::retry::{RequestInfo, RetryDecision, RetryPolicy, RetrySession},
};

/// Most other nodes that are asked: with three copies of each row there are two.
const OTHERS: u32 = 2;

/// Sends a repeatable request to another node if this node is starting up, going down or cut off, since the other may
/// do better. A request that failed because there is too much work, or because the copies of a row did not answer,
/// would fail there too and make it worse.
#[derive(Debug)]
pub(super) struct AskOthers;

struct Asked(u32);

/// Whether only this one node has the trouble.
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

impl RetryPolicy for AskOthers {
    fn new_session(&self) -> Box<dyn RetrySession> {
        Box::new(Asked(0))
    }
}

impl RetrySession for Asked {
    fn decide_should_retry(&mut self, request: RequestInfo<'_>) -> RetryDecision {
        if !request.is_idempotent || self.0 == OTHERS || !is_its_own(request.error) {
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
    fn only_one_nodes_own_trouble_is_taken_to_another() {
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
