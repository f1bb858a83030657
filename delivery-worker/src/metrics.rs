//! The metrics of attempts.

use thesis_net::metric::seconds;
use thesis_proto::v1::{AttemptResponse, attempt_report::Outcome};

thesis_net::declare_metrics! {
    pub(crate) fn declare;

    ATTEMPTS: Counter = "webhook_attempts_total", &[("outcome", &["delivered", "refused", "failed"])],
        "Attempts that this worker made, by outcome: delivered, refused by an answer, or failed without one";
    SECONDS: Histogram = "webhook_attempt_seconds", &[],
        "Time of an attempt until the head of its answer, or its failure";
    IN_PROGRESS: Gauge = "webhook_attempts_in_progress", &[],
        "Attempts that this worker has claimed and not yet reported";
    FAILURES: Counter = "webhook_attempt_failures_total",
        &[("reason", &["timeout", "dns", "address_refused", "connect", "tls", "response", "request"])],
        "Attempts without an answer, by reason; address_refused is one that the rules for addresses blocked";
    STREAMS_LOST: Counter = "webhook_claim_streams_lost_total", &[],
        "Streams of claims that a core ended or refused; the worker asks again";
}

/// Counts an attempt that ended.
pub(crate) fn count(outcome: &Outcome, latency_ms: i32) {
    ATTEMPTS.at(name(outcome)).increment(1);
    SECONDS.one().record(seconds(latency_ms.into()));
}

/// The name of success.
pub(crate) const DELIVERED: &str = "delivered";

/// An outcome's name in metrics and in the log.
pub(crate) const fn name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Response(AttemptResponse { status: 200..300, .. }) => DELIVERED,
        Outcome::Response(_) => "refused",
        Outcome::Failure(_) | Outcome::Released(_) => "failed",
    }
}
