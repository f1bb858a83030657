//! The whole system over real sockets: the program as people start it, in one process on the embedded store, and as two
//! processes of each role on a CQL cluster when `TEST_SCYLLA_NODES` names one. Each behaviour is written once, and runs
//! on both.

#![expect(clippy::unwrap_used, clippy::panic, reason = "all of it is a test, its helpers too")]

/// Makes each behaviour, a function over a running service, a test on the embedded store and one on a cluster.
macro_rules! on_both_stores {
    ($($behaviour:ident),+ $(,)?) => {
        mod embedded {
            $(#[tokio::test]
            async fn $behaviour() {
                super::$behaviour(crate::harness::embedded().await).await;
            })+
        }

        mod cluster {
            $(#[tokio::test]
            async fn $behaviour() {
                if let Some(service) = crate::harness::cluster().await {
                    super::$behaviour(service).await;
                }
            })+
        }
    };
}

/// Makes each behaviour, a function that starts a service of its own, a test on the embedded store and one on a cluster.
/// What runs in the test's process serves the service while the test waits for its start.
macro_rules! on_stores_of_their_own {
    ($($behaviour:ident),+ $(,)?) => {
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $behaviour() {
                super::$behaviour(crate::harness::Store::Embedded).await;
            })+
        }

        mod cluster {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $behaviour() {
                if let Some(store) = crate::harness::Store::cluster() {
                    super::$behaviour(store).await;
                }
            })+
        }
    };
}

mod accounts;
mod admin;
mod alerts;
mod api_command;
mod archive;
mod away;
mod backup;
mod conformance;
mod console;
mod crash;
mod datasets;
mod deliveries;
mod docs;
mod doctor;
mod errors;
mod events;
mod examples;
mod grpc;
mod harness;
mod home;
mod http;
mod idempotency;
mod ingest;
mod keys;
mod limits;
mod listen;
mod mcp;
mod me;
mod metrics;
mod near;
mod profiles;
mod prolific;
mod receipt_command;
mod receipts;
mod recount;
mod replay;
mod replicas;
mod roles;
mod sandbox;
mod search;
mod soak;
mod sockets;
mod status;
mod streams;
mod test_theses;
mod text_filters;
mod theses;
mod tickets;
mod tls;
mod tokens;
mod traces;
mod upstream;
mod verify;
mod webhook_changes;
mod webhook_contents;
mod webhook_insight;
mod webhooks;
mod witness;
mod wrong_forms;
