//! The audit log of an organization, as a page and as a file.

use askama::Template;
use axum::{extract::Path, response::IntoResponse as _};
use http::{
    HeaderValue, StatusCode,
    header::{CONTENT_DISPOSITION, CONTENT_TYPE},
};
use thesis_proto::{
    time::{format_millis, to_millis},
    v1,
};

use super::{access::OrganizationAccess, overview_path};
use crate::{
    Page,
    page_query::{PageQuery, link},
    view::{Layout, Moment, moment, render},
    visit::SignedIn,
};

const ENTRIES: i32 = 50;
/// Entries per request of an export.
const EXPORT_PAGE: i32 = 100;
/// Maximum number of requests of an export.
const EXPORT_PAGES: usize = 100;

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
    /// The path of the file.
    export: String,
}

/// The readable text of an action.
fn action_text(action: &str) -> Option<&'static str> {
    Some(match action {
        "organization.created" => "Created the organization",
        "organization.renamed" => "Renamed the organization",
        "organization.plan_changed" => "Changed the plan",
        "organization.second_factor_required" => "Demanded a second factor of members",
        "organization.second_factor_not_required" => "Demanded a second factor no longer",
        "project.created" => "Created a project",
        "project.renamed" => "Renamed a project",
        "project.archived" => "Archived a project",
        "project.live_requested" => "Asked for live access",
        "project.live_approved" => "Approved live access",
        "project.live_refused" => "Refused live access",
        "project.live_withdrawn" => "Withdrew live access",
        "key.created" => "Created a key",
        "key.revoked" => "Revoked a key",
        "key.rolled" => "Rolled a key",
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
        "user.second_factor_set" => "Has a second factor",
        "user.second_factor_unset" => "Has no second factor any more",
        "factor.begun" => "Began to add an authenticator app",
        "factor.added" => "Added a second factor",
        "factor.removed" => "Removed a second factor",
        "factor.recovery_codes_created" => "Made new recovery codes",
        "factor.recovery_code_used" => "Used a recovery code",
        "device.forgotten" => "Forgot a device",
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
        export: format!("{first}.csv"),
        older: older.map(|cursor| link(&first, &[("cursor", &cursor)])),
    };
    render(StatusCode::OK, &page)
}

/// A field of the file, in quotation marks. A spreadsheet must not read a person's text as a formula, nor a part of it:
/// where semicolons separate the fields, these quotation marks do not hold it together.
fn csv_field(text: &str) -> String {
    let guarded = |part: &str| {
        let is_formula = part.trim_start().starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']);
        let guard = if is_formula || part.starts_with(['\t', '\r']) { "'" } else { "" };
        format!("{guard}{part}")
    };
    let text: String = text.split_inclusive([';', '\n']).map(guarded).collect();
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// An entry as a line of the file.
fn csv_line(entry: &v1::AuditEntry) -> String {
    let time = entry.created_at.as_ref().map(|at| format_millis(to_millis(at))).unwrap_or_default();
    let fields: [&str; 9] = [
        &entry.id,
        &time,
        &entry.actor,
        entry.actor_email.as_deref().unwrap_or_default(),
        &entry.action,
        &entry.subject,
        entry.address.as_deref().unwrap_or_default(),
        entry.reason.as_deref().unwrap_or_default(),
        entry.hash.as_deref().unwrap_or_default(),
    ];
    fields.map(csv_field).join(",") + "\r\n"
}

/// The newest 10,000 entries as a file of CSV, newest first. Each has its hash, by which the file can be verified.
pub(super) async fn export(signed_in: SignedIn, Path(id): Path<String>) -> Page {
    signed_in.membership(&id)?;
    let mut text = "id,time,actor,actor_email,action,subject,address,reason,hash\r\n".to_owned();
    let mut cursor = None;
    for _ in 0..EXPORT_PAGES {
        let message = v1::ListAuditEntriesRequest { organization_id: id.clone(), limit: Some(EXPORT_PAGE), cursor };
        let answer = signed_in.core().accounts.list_audit_entries(signed_in.request(message)).await?.into_inner();
        answer.data.iter().for_each(|entry| text.push_str(&csv_line(entry)));
        cursor = answer.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let mut response = text.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/csv; charset=utf-8"));
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"audit.csv\""));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_every_field_and_no_formula() {
        let entry = v1::AuditEntry {
            id: "control_1".to_owned(),
            created_at: Some(thesis_proto::time::from_millis(1_795_442_700_012)),
            action: "key.created".to_owned(),
            actor: "usr_1".to_owned(),
            actor_email: Some("=ada@example.com".to_owned()),
            subject: "key_1".to_owned(),
            reason: Some("a \"reason\",\nin lines; =1+1;＠a".to_owned()),
            ..v1::AuditEntry::default()
        };
        let expected = "\"control_1\",\"2026-11-23T14:05:00.012Z\",\"usr_1\",\"'=ada@example.com\",\"key.created\",\
                        \"key_1\",\"\",\"a \"\"reason\"\",\nin lines;' =1+1;'＠a\",\"\"\r\n";
        assert_eq!(csv_line(&entry), expected);
    }
}
