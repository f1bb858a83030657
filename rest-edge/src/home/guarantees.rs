//! Guarantees of the service, and their tests.

/// A guarantee, and where it is tested.
pub(super) struct Guarantee {
    pub(super) promise: &'static str,
    pub(super) meaning: &'static str,
    /// Files of the repository that test it.
    pub(super) tests: &'static [&'static str],
    /// Path and title of a page that says more.
    pub(super) page: (&'static str, &'static str),
}

pub(super) const GUARANTEES: &[Guarantee] = &[
    Guarantee {
        promise: "Nothing acknowledged is lost or doubled",
        meaning: "A process may die at any moment, and a store may fail at any call.",
        tests: &["tests/system/crash.rs", "core-service/src/tests/faults.rs", "core-service/src/tests/simulation.rs"],
        page: ("/docs/simulation", "Simulation"),
    },
    Guarantee {
        promise: "A stream that resumes misses nothing",
        meaning: "A cursor names a place in the log. It works over SSE, WebSocket and gRPC.",
        tests: &["streams/src/tests.rs", "tests/system/streams.rs", "tests/system/conformance.rs"],
        page: ("/docs/stream-conformance", "Stream conformance"),
    },
    Guarantee {
        promise: "Every event reaches its webhooks",
        meaning: "Deliveries are signed and tried again for 14 hours.",
        tests: &["tests/system/deliveries.rs", "tests/system/crash.rs"],
        page: ("/docs/webhook-deliveries", "Webhook deliveries"),
    },
    Guarantee {
        promise: "Counts equal a recount",
        meaning: "So do figures as of a past time, and those never change.",
        tests: &["tests/system/recount.rs", "core-service/src/tests/recount.rs", "core-service/src/tests/as_of.rs"],
        page: ("/docs/reference", "API reference"),
    },
    Guarantee {
        promise: "History cannot be rewritten unseen",
        meaning: "A receipt proves offline that the log has an event.",
        tests: &["tests/system/receipts.rs", "core-service/src/log/tree/tests.rs"],
        page: ("/docs/receipts", "Receipts"),
    },
    Guarantee {
        promise: "A key sees its own data only",
        meaning: "A revoked key stops within a second, on every stream too.",
        tests: &["tests/system/recount.rs", "tests/system/keys.rs", "tests/system/away.rs"],
        page: ("/docs/keys-and-environments", "Keys and environments"),
    },
    Guarantee {
        promise: "One client at its worst harms no other",
        meaning: "Limits hold over all replicas. Latency and throughput are measured.",
        tests: &["tests/system/limits.rs", "tests/system/replicas.rs", "tests/soak"],
        page: ("/docs/measurements", "Measurements"),
    },
];
