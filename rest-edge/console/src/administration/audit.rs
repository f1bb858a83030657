//! The audit log of all organizations.

use askama::Template;
use http::StatusCode;
use thesis_proto::{
    error::{ApiError, ErrorCode},
    v1,
};

use super::{ACTIVE, AUDIT};
use crate::{
    Page,
    organizations::audit::EntryRow,
    page_query::{PageQuery, link},
    view::{Layout, render},
    visit::Administrator,
};

const LIMIT: i32 = 50;

/// Administrators see actors other than users by the contract's own word.
fn row(entry: v1::AuditEntry) -> EntryRow {
    let actor = entry.actor_email.clone().unwrap_or_else(|| entry.actor.clone());
    EntryRow { actor, ..EntryRow::from(entry) }
}

#[derive(Template)]
#[template(path = "administration_audit.html")]
struct AuditPage {
    layout: Layout,
    tab: &'static str,
    /// Empty selects entries that belong to no organization.
    organization: String,
    fault: Option<String>,
    entries: Vec<EntryRow>,
    /// The path of the first page; none on that page.
    first: Option<String>,
    next: Option<String>,
}

pub(super) async fn show(Administrator(signed_in): Administrator, query: PageQuery) -> Page {
    let (organization, cursor) = (query.text("organization").to_owned(), query.given("cursor"));
    let message = v1::ListAuditLogRequest {
        organization_id: Some(organization.clone()).filter(|id| !id.is_empty()),
        limit: Some(LIMIT),
        cursor: cursor.clone(),
    };
    let (listed, fault) = match signed_in.core().admin.list_audit_log(signed_in.request(message)).await {
        Ok(answer) => (answer.into_inner(), None),
        Err(status) if ApiError::from_status(&status).code == ErrorCode::OrganizationNotFound => {
            (v1::ListAuditLogResponse::default(), Some("There is no organization with this id.".to_owned()))
        }
        Err(status) => return Err(status.into()),
    };
    let first = cursor.map(|_| link(AUDIT, &[("organization", &organization)]));
    let next = listed.next_cursor.map(|cursor| link(AUDIT, &[("organization", &organization), ("cursor", &cursor)]));
    let status = if fault.is_some() { StatusCode::NOT_FOUND } else { StatusCode::OK };
    let page = AuditPage {
        layout: Layout::of(&signed_in, "Audit log", ACTIVE),
        tab: AUDIT,
        organization,
        fault,
        entries: listed.data.into_iter().map(row).collect(),
        first,
        next,
    };
    render(status, &page)
}
