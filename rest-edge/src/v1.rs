//! The resources of `/v1`, one a file: what their routes read, call and answer.

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

/// Every route there is; those of one path stand together.
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
        webhooks::routes(),
        webhook_deliveries::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
