//! Who did what.

use thesis_proto::v1::{self, Environment, Role};

use crate::{
    admin::admin,
    harness::{SOON, Service, assert_fields, eventually, person::at, rows, text},
};

on_both_stores![the_audit_log_says_who_did_what];

async fn the_audit_log_says_who_did_what(service: &Service) {
    let (owner, organization) = service.owner().await;
    let administrator = service.administrator().await;
    let project = owner.project(&organization, "Hive").await.id;
    let (key, _) = owner.key(&project, Environment::Test).await;
    owner.request_live(&project).await;
    let member = service.member(&owner, &organization, Role::Developer).await;
    let (other, _) = member.key(&project, Environment::Live).await;
    member.ask().revoke_key(v1::AccountServiceRevokeKeyRequest { id: key.id.clone() }).await.unwrap();
    administrator.administer().approve_project(v1::ApproveProjectRequest { id: project.clone() }).await.unwrap();
    service.admin().withdraw_project(v1::WithdrawProjectRequest { id: project.clone(), reason: None }).await.unwrap();

    let (by_owner, by_member) = ((&*owner.id, &*owner.address), (&*member.id, &*member.address));
    let expected = [
        ("project.live_withdrawn", "operator", None, &*project),
        // Owners do not learn which administrator it was.
        ("project.live_approved", "administrator", None, &*project),
        ("key.revoked", by_member.0, Some(by_member.1), &*key.id),
        ("key.created", by_member.0, Some(by_member.1), &*other.id),
        ("project.live_requested", by_owner.0, Some(by_owner.1), &*project),
        ("key.created", by_owner.0, Some(by_owner.1), &*key.id),
        ("project.created", by_owner.0, Some(by_owner.1), &*project),
    ];
    // The last row may be written a moment after the answer.
    let entries = eventually("the last act is listed", SOON, async || {
        let entries = owner.audit(&organization).await;
        entries.iter().any(|entry| entry.action == "project.live_withdrawn").then_some(entries)
    })
    .await;
    assert!(entries.is_sorted_by(|newer, older| at(newer.created_at) >= at(older.created_at)), "{entries:?}");
    let wanted: Vec<_> = expected.iter().map(|row| (row.0, row.1, row.3)).collect();
    let found: Vec<_> = entries
        .iter()
        .map(|entry| (&*entry.action, &*entry.actor, &*entry.subject))
        .filter(|(action, ..)| action.starts_with("project.") || action.starts_with("key."))
        .collect();
    assert_eq!(found, wanted);
    for (action, actor, address, subject) in expected {
        let entry = entries.iter().find(|entry| entry.action == action && entry.subject == subject).unwrap();
        assert_eq!(entry.organization_id.as_deref(), Some(&*organization));
        assert_eq!(entry.address.as_deref(), address, "{entry:?}");
        let email = [&owner, &member].into_iter().find(|person| person.id == actor).map(|person| &person.email);
        assert_eq!(entry.actor_email.as_ref(), email, "{entry:?}");
    }
    for action in ["invitation.created", "member.joined"] {
        assert_eq!(entries.iter().filter(|entry| entry.action == action).count(), 1, "{action}: {entries:?}");
    }

    // Operators read the same and who it was, and what concerns no organization.
    let listed = admin(service, &["audit", "list", "--organization", &organization]);
    let row = rows(&listed).iter().find(|row| row["subject"] == *other.id).unwrap();
    assert_fields(
        row,
        &[
            "object",
            "id",
            "created_at",
            "action",
            "actor",
            "actor_email",
            "address",
            "subject",
            "organization_id",
            "reason",
            "hash",
        ],
    );
    assert_eq!((text(row, "action"), text(row, "actor")), ("key.created", &*member.id));
    let approved = rows(&listed).iter().find(|row| row["action"] == "project.live_approved").unwrap();
    assert_eq!((text(approved, "actor"), text(approved, "actor_email")), (&*administrator.id, &*administrator.email));
    let request = v1::ListAuditLogRequest { organization_id: None, limit: Some(100), cursor: None };
    let installation = administrator.administer().list_audit_log(request).await.unwrap().into_inner().data;
    assert!(installation.iter().all(|entry| entry.organization_id.is_none()), "{installation:?}");
    assert!(installation.iter().any(|entry| entry.action.starts_with("session.")), "{installation:?}");
}
