//! Addresses that fail to authenticate too often.

use askama::Template;
use http::StatusCode;
use thesis_proto::v1;

use super::{ABUSE, ACTIVE};
use crate::{
    Page,
    page_query::{PageQuery, link},
    view::{Layout, render},
    visit::Administrator,
};

const LIMIT: i32 = 50;

#[derive(Template)]
#[template(path = "administration_abuse.html")]
struct AbusePage {
    layout: Layout,
    tab: &'static str,
    addresses: Vec<v1::AbusiveAddress>,
    /// The path of the first page; none on that page.
    first: Option<String>,
    next: Option<String>,
}

pub(super) async fn show(Administrator(signed_in): Administrator, query: PageQuery) -> Page {
    let cursor = query.given("cursor");
    let message = v1::ListAbuseRequest { limit: Some(LIMIT), cursor: cursor.clone() };
    let listed = signed_in.core().admin.list_abuse(signed_in.request(message)).await?.into_inner();
    let page = AbusePage {
        layout: Layout::of(&signed_in, "Abuse", ACTIVE),
        tab: ABUSE,
        addresses: listed.data,
        first: cursor.map(|_| ABUSE.to_owned()),
        next: listed.next_cursor.map(|cursor| link(ABUSE, &[("cursor", &cursor)])),
    };
    render(StatusCode::OK, &page)
}
