//! The operations, one file each. An operation checks the fields of its message, charges the call, acts and answers. It
//! fails with `VALIDATION_FAILED` for bad fields and `SERVICE_UNAVAILABLE` if the store does not answer. Its header names
//! its other errors.
//!
//! # Recipe: an operation
//!
//! The example is `TokenService/GetThesisVelocity`, `GET /v1/tokens/{ref}/thesis-velocity`.
//!
//! 1. `proto/thesis/v1/token_service.proto`: the rpc, request and response, each with a comment; `idempotency_level` if
//!    a call may be repeated. `resources.proto`: the resource. Its JSON: an entry in `proto/views.json`; in
//!    `proto/src/json/tests.rs` a sample, and its type in `openapi_schemas`; CONTRIBUTING.md says what writes the
//!    snapshots. `SECRET` in `proto/build/main.rs` names messages with a secret.
//! 2. `domain/operation.rs`: a line with scope, class, feature, and whether it needs a test key; `is_repeatable` if it
//!    takes an idempotency key.
//! 3. A file here, and its `mod`. It checks the whole message, then charges, then works. Its row in the table of its
//!    service in `grpc/routes.rs`.
//! 4. `rest-edge/src/v1/tokens.rs`: the route, with every code that it can fail with, and its handler. `CHANGELOG.md`.
//! 5. `rest-edge`: `examples/getThesisVelocity.json`, recorded from a response, and its name in `openapi/examples.rs`.
//! 6. A new service: `Services` and `services_of!` in `net/src/services.rs`, `public_services` in `grpc.rs`, `PUBLIC`
//!    in `grpc/reflection.rs` and `tests/system/grpc/surface.rs`, its file in `rest-edge/src/docs/grpc.rs`, its path in
//!    `deploy/haproxy.cfg` and `deploy/kubernetes/ingress.yaml`.
//!
//! Tests: `plain_answer` in `rest-edge/src/tests/fake.rs`; in `tests/system` `examples.rs` (its row, and the number
//! `tried` if it has a `path_example`), `http.rs` (a list of all paths that answer GET), `wrong_forms/table.rs`,
//! `grpc/answers.rs`, its own in `tokens.rs`; `tests/schemathesis` has a value for a path parameter.

pub mod account;
pub mod admin;
mod alert_rule;
mod archive;
pub mod create_alert;
pub mod create_stream_ticket;
pub mod create_test_thesis;
pub mod create_webhook;
pub mod delete_alert;
pub mod delete_webhook;
pub mod ended_sessions;
pub mod fields;
pub mod get_alert;
pub mod get_archive_file;
pub mod get_archive_receipt;
pub mod get_delivery;
pub mod get_event;
pub mod get_me;
pub mod get_profile;
pub mod get_profile_wallets;
pub mod get_receipt;
pub mod get_status;
pub mod get_thesis;
pub mod get_thesis_velocity;
pub mod get_token;
pub mod get_token_activity;
pub mod get_usage;
pub mod get_webhook;
pub mod get_webhook_insight;
pub mod ingest;
pub mod list_alerts;
pub mod list_archive_files;
pub mod list_deliveries;
pub mod list_events;
pub mod list_theses;
pub mod list_webhooks;
pub mod log;
pub mod missing;
pub mod open_stream;
mod paging;
mod receipts;
mod refresh;
pub mod replay_delivery;
mod resolve;
pub mod rotate_webhook_secret;
pub mod search;
pub mod semantic_search;
pub mod start_webhook_replay;
pub mod stream_tickets;
pub mod test_webhook;
mod theses;
mod token_figures;
pub mod update_alert;
pub mod update_webhook;
pub mod verify_thesis;
mod webhook_headers;
pub mod webhook_replays;
