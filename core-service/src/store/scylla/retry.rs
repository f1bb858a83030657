//! When a request that one node failed to answer is sent to another.

use scylla::{
    errors::{DbError, RequestAttemptError},
    policies::retry::{RequestInfo, RetryDecision, RetryPolicy, RetrySession},
};

/// Other nodes that are asked at most: with three copies of each row there are two.
const OTHERS: u32 = 2;

/// Sends what may be repeated to another node, whatever the first one's trouble: one that is starting up or going down
/// refuses or fails what its neighbours do.
#[derive(Debug)]
pub(super) struct AskOthers;

struct Asked(u32);

impl RetryPolicy for AskOthers {
    fn new_session(&self) -> Box<dyn RetrySession> {
        Box::new(Asked(0))
    }
}

impl RetrySession for Asked {
    fn decide_should_retry(&mut self, request: RequestInfo<'_>) -> RetryDecision {
        let fault = matches!(
            request.error,
            RequestAttemptError::SerializationError(_)
                | RequestAttemptError::CqlRequestSerialization(_)
                | RequestAttemptError::DbError(
                    DbError::SyntaxError | DbError::Invalid | DbError::Unauthorized | DbError::ConfigError,
                    _
                )
        );
        if fault || !request.is_idempotent || self.0 == OTHERS {
            return RetryDecision::DontRetry;
        }
        self.0 += 1;
        RetryDecision::RetryNextTarget(None)
    }

    fn reset(&mut self) {
        self.0 = 0;
    }
}
