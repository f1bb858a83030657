//! The resources of `/v1`, one in each file: their routes and handlers.
//!
//! # Recipe: a query parameter
//!
//! The example is `since` of `GET /v1/theses`.
//!
//! 1. `proto/thesis/v1/thesis_service.proto`: a field of the request message, with the next number and a comment.
//! 2. `v1/theses.rs`: a `Param` in the list of the route, and its value in the message that the handler makes. The
//!    OpenAPI description follows. A form that no `Kind` of `input.rs` has, such as a number without a default, is a
//!    new one: its schema in `openapi/schema.rs`, and its reader in `input/query.rs` if none there fits.
//! 3. `core-service`, the file of the operation in `operations/`: check the value where the message is read, before the
//!    charge. A number beyond its type arrives as a bound of the type, so its range excludes both bounds.
//! 4. A field that decides which rows a list has enters the name of the list, which refuses cursors of other lists. It
//!    enters only if it is given, so that cursors of the version before stay valid. In time order a list reads the
//!    scopes of `tables/index_scope.rs`, by likes the search index with a `SearchFilter`. A field that no scope has
//!    needs the index in every order: `search/best.rs` has orders and ranges, `clauses` in `search.rs` the other
//!    conditions. One that leaves fewer theses than most days have also enters the choice of `days` in `query` there.
//! 5. `docs/guides/filters-and-references.md` for readers, `CHANGELOG.md`.
//!
//! Tests: its row in `tests/system/wrong_forms/table.rs`, which fails until it is there (a new form also in
//! `forms.rs`); its effect in `tests/system/theses.rs`. The naive list compares random requests: add the field to
//! `question` and `listed` in `tests/system/recount/lists.rs`, to `is_whole` there if a thesis can change so that it
//! leaves the list, and to `parameters` in `recount/caller.rs`.

mod alerts;
mod archive;
mod discovery;
mod events;
mod log;
mod me;
mod profiles;
mod search;
mod status;
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
        status::routes(),
        me::routes(),
        profiles::routes(),
        theses::routes(),
        verify::routes(),
        log::routes(),
        archive::routes(),
        tokens::routes(),
        search::routes(),
        test_theses::routes(),
        events::routes(),
        crate::stream::routes(),
        stream_tickets::routes(),
        webhooks::list_routes(),
        webhooks::routes(),
        webhook_deliveries::routes(),
        webhook_deliveries::overall_routes(),
        alerts::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
