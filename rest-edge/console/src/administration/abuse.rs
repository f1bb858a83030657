//! Addresses that fail to authenticate too often.

use askama::Template;
use http::StatusCode;
use thesis_proto::v1;

use super::{ABUSE, ACTIVE, TABS, Tab, listing::PageTurns};
use crate::{
    Page,
    page_query::{PageQuery, link},
    view::{Layout, render, time},
    visit::Administrator,
};

const LIMIT: i32 = 50;

struct AddressRow {
    address: String,
    failures: u64,
    first_at: String,
    last_at: String,
}

impl From<v1::AbusiveAddress> for AddressRow {
    fn from(row: v1::AbusiveAddress) -> Self {
        Self {
            address: row.address,
            failures: row.failures,
            first_at: time(row.first_at.as_ref()),
            last_at: time(row.last_at.as_ref()),
        }
    }
}

#[derive(Template)]
#[template(path = "administration_abuse.html")]
struct AbusePage {
    layout: Layout,
    tabs: [Tab; 6],
    tab: &'static str,
    addresses: Vec<AddressRow>,
    turns: PageTurns,
}

pub(super) async fn show(Administrator(signed_in): Administrator, query: PageQuery) -> Page {
    let cursor = query.given("cursor");
    let message = v1::ListAbuseRequest { limit: Some(LIMIT), cursor: cursor.clone() };
    let listed = signed_in.core().admin.list_abuse(signed_in.request(message)).await?.into_inner();
    let page = AbusePage {
        layout: Layout::of(&signed_in, "Abuse", ACTIVE),
        tabs: TABS,
        tab: ABUSE,
        addresses: listed.data.into_iter().map(AddressRow::from).collect(),
        turns: PageTurns {
            previous: cursor.map(|_| ABUSE.to_owned()),
            next: listed.next_cursor.map(|cursor| link(ABUSE, &[("cursor", &cursor)])),
        },
    };
    render(StatusCode::OK, &page)
}
