//! The audit log of an organization.

use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use thesis_proto::v1;

use super::{access::OrganizationAccess, overview_path};
use crate::{
    Page,
    page_query::{PageQuery, link},
    view::{Layout, Moment, moment, render},
    visit::SignedIn,
};

const ENTRIES: i32 = 50;

/// An entry of the audit log as a row.
pub(crate) struct EntryRow {
    pub(crate) at: Moment,
    pub(crate) deed: String,
    pub(crate) actor: String,
    pub(crate) address: String,
    pub(crate) subject: String,
}

impl From<v1::AuditEntry> for EntryRow {
    fn from(entry: v1::AuditEntry) -> Self {
        let actor = entry.actor_email.unwrap_or_else(|| match entry.actor.as_str() {
            "operator" => "An operator".to_owned(),
            "administrator" => "An administrator".to_owned(),
            "service" => "The service".to_owned(),
            _ => entry.actor,
        });
        Self {
            at: moment(entry.created_at.as_ref()),
            deed: action_text(&entry.action).map_or(entry.action, str::to_owned),
            actor,
            address: entry.address.unwrap_or_default(),
            subject: entry.subject,
        }
    }
}

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    layout: Layout,
    entries: Vec<EntryRow>,
    /// The path of the first page; none on the first page.
    newest: Option<String>,
    older: Option<String>,
}

/// The readable text of an action.
fn action_text(action: &str) -> Option<&'static str> {
    Some(match action {
        "organization.created" => "Created the organization",
        "organization.renamed" => "Renamed the organization",
        "organization.plan_changed" => "Changed the plan",
        "project.created" => "Created a project",
        "project.renamed" => "Renamed a project",
        "project.archived" => "Archived a project",
        "project.live_requested" => "Asked for live access",
        "project.live_approved" => "Approved live access",
        "project.live_refused" => "Refused live access",
        "project.live_withdrawn" => "Withdrew live access",
        "key.created" => "Created a key",
        "key.revoked" => "Revoked a key",
        "dataset.export_begun" => "Began an export",
        "dataset.import_begun" => "Began an import",
        "thesis.erased" => "Erased the text of a thesis",
        "store.backup_begun" => "Began a backup",
        "webhook.created" => "Created a webhook",
        "webhook.updated" => "Changed a webhook",
        "webhook.secret_rotated" => "Rotated a webhook's secret",
        "webhook.disabled" => "Disabled a webhook",
        "webhook.verified" => "Verified a webhook's endpoint",
        "webhook.deleted" => "Deleted a webhook",
        "member.joined" => "Joined the organization",
        "member.role_changed" => "Changed a member's role",
        "member.removed" => "Removed a member",
        "member.left" => "Left the organization",
        "invitation.created" => "Invited somebody",
        "invitation.withdrawn" => "Withdrew an invitation",
        "user.signed_up" => "Signed up",
        "user.invited" => "Invited a user",
        "user.confirmed" => "Confirmed a user's e-mail",
        "user.email_confirmed" => "Confirmed their e-mail",
        "user.administrator_made" => "Made a user an administrator",
        "user.administrator_unmade" => "Made an administrator a user",
        "session.begun" => "Signed in",
        "session.ended" => "Signed out",
        "session.revoked" => "Ended a session",
        "password.changed" => "Changed the password",
        "password.reset" => "Set a new password by a link",
        "password.reset_link_made" => "Made a link for a new password",
        "password.reset_asked" => "Asked for a link for a new password",
        _ => return None,
    })
}

pub(super) async fn show(signed_in: SignedIn, Path(id): Path<String>, query: PageQuery) -> Page {
    let access = OrganizationAccess::of(&signed_in, &id)?;
    let cursor = query.given("cursor");
    let first = format!("{}/audit", overview_path(&id));
    let newest = cursor.is_some().then(|| first.clone());
    let message = v1::ListAuditEntriesRequest { organization_id: id, limit: Some(ENTRIES), cursor };
    let answer = signed_in.core().accounts.list_audit_entries(signed_in.request(message)).await?.into_inner();
    let older = answer.next_cursor.filter(|_| answer.has_more);
    let page = AuditPage {
        layout: Layout::of(&signed_in, &format!("Audit log of {}", access.name), "organizations"),
        entries: answer.data.into_iter().map(EntryRow::from).collect(),
        newest,
        older: older.map(|cursor| link(&first, &[("cursor", &cursor)])),
    };
    render(StatusCode::OK, &page)
}
