//! The resources of `/v1`, one in each file: their routes and handlers.

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
