//! The resources of `/v1`, one in each file: their routes and handlers.
//!
//! # Recipe: a query parameter
//!
//! The example is `since` of `GET /v1/theses`.
//!
//! 1. `proto/thesis/v1/thesis_service.proto`: a field of the request message, with the next number and a comment.
//! 2. `v1/theses.rs`: a `Param` in the list of the route, and its value in the message that the handler makes. The
//!    OpenAPI description follows. A form that no `Kind` has is a new one in `input.rs`, with its reader in
//!    `input/query.rs` and its schema in `openapi/schema.rs`.
//! 3. `core-service`, the file of the operation in `operations/`: check the value where the message is read, before the
//!    charge. A field that decides which rows a list has enters the name of the list, which refuses cursors of other
//!    lists, and `SearchFilter` for `sort=likes_desc`.
//! 4. `docs/guides/filters-and-references.md` for readers, `CHANGELOG.md`.
//!
//! Tests: its row in `tests/system/wrong_forms/table.rs`, which fails until it is there (a new form also in
//! `forms.rs`); its effect in `tests/system/theses.rs`. The naive list compares random requests: add the field to
//! `question` and `listed` in `tests/system/recount/lists.rs` and to `parameters` in `recount/caller.rs`.

mod discovery;
mod events;
mod me;
mod profiles;
mod search;
mod stream_tickets;
mod test_theses;
mod theses;
mod tokens;
mod verify;
mod webhook_deliveries;
mod webhooks;

pub(crate) use self::discovery::{VERSION, discovery_document};
use crate::route::Route;

/// All routes. The routes of one path are adjacent.
pub(crate) fn routes() -> Vec<Route> {
    [
        discovery::routes(),
        me::routes(),
        profiles::routes(),
        theses::routes(),
        verify::routes(),
        tokens::routes(),
        search::routes(),
        test_theses::routes(),
        events::routes(),
        crate::stream::routes(),
        stream_tickets::routes(),
        webhooks::list_routes(),
        webhooks::routes(),
        webhook_deliveries::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
