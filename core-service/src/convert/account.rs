//! People and audit entries.

use thesis_proto::{time::from_millis, v1};

use super::optional_time;
use crate::domain::{
    account::{AuditRow, Invitation, KeyUsageRow, Member, User},
    control::Organization,
    request_log::RequestRow,
};

pub fn user(row: &User) -> v1::User {
    v1::User {
        id: row.id.clone(),
        email: row.email.clone(),
        administrator: row.administrator,
        created_at: Some(from_millis(row.created_at)),
        email_confirmed_at: optional_time(row.email_confirmed_at),
        second_factor: row.second_factor,
    }
}

pub fn member(row: &Member, of: Option<&User>) -> v1::Member {
    // Other members need not know who runs the installation.
    let user = of.map(|of| v1::User { administrator: false, ..user(of) });
    v1::Member { user, role: row.role, created_at: Some(from_millis(row.created_at)), revision: row.revision }
}

pub fn membership(row: &Member, of: &Organization) -> v1::Membership {
    v1::Membership { organization: Some(super::control::organization(of)), role: row.role }
}

pub fn invitation(row: &Invitation) -> v1::Invitation {
    v1::Invitation {
        id: row.id.clone(),
        email: row.email.clone().unwrap_or_default(),
        role: row.role,
        created_at: Some(from_millis(row.created_at)),
        expires_at: optional_time(row.expires_at),
    }
}

/// An entry of the audit log, with the e-mail of the user who acted.
pub fn audit_entry(row: &AuditRow, by: Option<&User>) -> v1::AuditEntry {
    v1::AuditEntry {
        id: row.id.clone(),
        created_at: Some(from_millis(row.at)),
        action: row.act.action.clone(),
        actor: row.act.actor.clone(),
        actor_email: by.map(|user| user.email.clone()),
        address: row.act.address.clone(),
        subject: row.act.subject.clone(),
        organization_id: row.act.organization_id.clone(),
        reason: row.act.reason.clone(),
        hash: row.act.chain.as_ref().map(hex::encode),
    }
}

pub fn logged_request(row: RequestRow) -> v1::LoggedRequest {
    let RequestRow { at, id, request } = row;
    v1::LoggedRequest {
        id,
        began_at: Some(from_millis(at)),
        method: request.method,
        route: request.route,
        path: request.path,
        query: request.query,
        status: request.status,
        code: request.code,
        duration_ms: request.duration_ms,
        key_id: request.key,
        address: request.address,
        stands_for: request.stands_for,
        complete: request.is_complete,
    }
}

pub fn key_usage(row: KeyUsageRow) -> v1::KeyUsage {
    v1::KeyUsage {
        hour: Some(from_millis(row.hour)),
        key_id: row.key,
        class: row.class,
        requests: row.requests,
        errors: row.errors,
    }
}
