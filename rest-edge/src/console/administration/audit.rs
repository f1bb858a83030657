//! Who did what.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use http::StatusCode;
use thesis_proto::{
    error::{ApiError, ErrorCode},
    v1,
};

use super::{
    ACTIVE, AUDIT, TABS, Tab,
    asked::{Asked, Turns, link},
};
use crate::console::{
    Console, Page,
    organizations::audit::deed,
    view::{Layout, render, time},
    visit::Administrator,
};

/// Entries of a page.
const LIMIT: i32 = 50;

struct Row {
    at: String,
    /// The user's e-mail, or the id or word for who else did it.
    actor: String,
    action: String,
    subject: String,
    address: String,
}

impl From<v1::AuditEntry> for Row {
    fn from(entry: v1::AuditEntry) -> Self {
        Self {
            at: time(entry.created_at.as_ref()),
            actor: entry.actor_email.unwrap_or(entry.actor),
            action: deed(&entry.action).map_or(entry.action, str::to_owned),
            subject: entry.subject,
            address: entry.address.unwrap_or_default(),
        }
    }
}

#[derive(Template)]
#[template(path = "administration_audit.html")]
struct Audit {
    layout: Layout,
    tabs: [Tab; 6],
    tab: &'static str,
    /// Empty: what concerns no organization.
    organization: String,
    fault: Option<String>,
    entries: Vec<Row>,
    turns: Turns,
}

pub(super) async fn show(
    State(console): State<Arc<Console>>,
    Administrator(signed_in): Administrator,
    asked: Asked,
) -> Page {
    let organization = asked.organization.trim().to_owned();
    let message = v1::ListAuditLogRequest {
        organization_id: Some(organization.clone()).filter(|id| !id.is_empty()),
        limit: Some(LIMIT),
        cursor: asked.cursor.clone(),
    };
    let (listed, fault) = match console.core.admin.list_audit_log(signed_in.visit.request(message)).await {
        Ok(answer) => (answer.into_inner(), None),
        Err(status) if ApiError::from_status(&status).code == ErrorCode::OrganizationNotFound => {
            (v1::ListAuditLogResponse::default(), Some("There is no organization with this id.".to_owned()))
        }
        Err(status) => return Err(status.into()),
    };
    let first = asked.cursor.map(|_| link(AUDIT, &[("organization", &organization)]));
    let next = listed.next_cursor.map(|cursor| link(AUDIT, &[("organization", &organization), ("cursor", &cursor)]));
    let status = if fault.is_some() { StatusCode::NOT_FOUND } else { StatusCode::OK };
    let page = Audit {
        layout: Layout::of(&signed_in, "Audit log", ACTIVE),
        tabs: TABS,
        tab: AUDIT,
        organization,
        fault,
        entries: listed.data.into_iter().map(Row::from).collect(),
        turns: Turns { previous: first, next },
    };
    render(status, &page)
}
