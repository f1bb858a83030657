//! The recount of the control log: its rows, and its acts in the audit log.

use std::collections::{BTreeMap, BTreeSet};

use thesis_proto::v1::WebhookStatus;

use super::super::{stored::audit_rows, world::World};
use crate::{
    control::{CONTROL_LOG, Control},
    domain::control::ControlChange,
    store::schema,
    tables::control,
    tests::{faulty::MemoryStore, harness},
};

/// Name of the projection of the control log into rows.
const CONTROL_ROWS: &str = "rows";

fn kind_and_id(change: &ControlChange) -> (&'static str, String) {
    match change {
        ControlChange::Organization(row) => ("organization", row.id.clone()),
        ControlChange::Project(row) => ("project", row.id.clone()),
        ControlChange::ApiKey(row) => ("key", row.id.clone()),
        ControlChange::Webhook(row) => ("webhook", row.id.clone()),
        ControlChange::WebhookDeleted(id) => ("webhook", id.clone()),
        ControlChange::Alert(row) => ("alert", row.id.clone()),
        ControlChange::AlertDeleted(id) => ("alert", id.clone()),
        ControlChange::SandboxSeed(_) => ("seed", String::new()),
        ControlChange::User(row) => ("user", row.id.clone()),
        ControlChange::Member(row) => ("member", control::member_id(row)),
        ControlChange::MemberGone(id) => ("member", id.clone()),
        ControlChange::Invitation(row) => ("invitation", row.id.clone()),
        ControlChange::InvitationGone(id) => ("invitation", id.clone()),
        ControlChange::Several(_) => unreachable!("an entry is read as its changes"),
    }
}

/// A core loads the rows of the control log, and every acknowledged row is there once.
pub(super) async fn recount_control(world: &World, log: &[(u64, bytes::Bytes)]) {
    let mut rows = BTreeMap::new();
    for change in log.iter().flat_map(|(_, body)| control::decode(body.clone()).unwrap()) {
        let row_id = kind_and_id(&change);
        match change {
            ControlChange::WebhookDeleted(_)
            | ControlChange::MemberGone(_)
            | ControlChange::InvitationGone(_)
            | ControlChange::AlertDeleted(_) => {
                drop(rows.remove(&row_id));
            }
            change => drop(rows.insert(row_id, change)),
        }
    }
    let loaded = Control::load(world.store.backend(), world.clock.clone(), harness::ids(0)).await.unwrap();
    let states = [Some(&loaded), world.running().map(|core| &*core.shared.control)];
    for control in states.into_iter().flatten() {
        let state = control.state();
        let mut found: Vec<ControlChange> = Vec::new();
        found.extend(state.organizations().map(|row| ControlChange::Organization((**row).clone())));
        found.extend(state.projects().map(|row| ControlChange::Project((**row).clone())));
        found.extend(state.keys().map(|row| ControlChange::ApiKey((**row).clone())));
        found.extend(state.every_webhook().map(|row| ControlChange::Webhook((**row).clone())));
        found.extend(state.seed().map(ControlChange::SandboxSeed));
        let alerts = [true, false].into_iter().flat_map(|live| state.alerts().in_environment(live));
        found.extend(alerts.map(|row| ControlChange::Alert((**row).clone())));
        let (people, organizations) = (state.people(), state.organizations());
        found.extend(people.users().map(|row| ControlChange::User((**row).clone())));
        let members = organizations.flat_map(|row| people.members(&row.id));
        found.extend(members.map(|row| ControlChange::Member((**row).clone())));
        found.extend(people.invitations().map(|row| ControlChange::Invitation((**row).clone())));
        let found: BTreeMap<_, _> = found.into_iter().map(|change| (kind_and_id(&change), change)).collect();
        assert_eq!(found, rows);
    }
    for (kind, name) in &world.acknowledged.created {
        let named = rows.values().filter(|change| match change {
            ControlChange::Organization(row) => *kind == "organization" && row.name == *name,
            ControlChange::Project(row) => *kind == "project" && row.name == *name,
            ControlChange::ApiKey(row) => *kind == "key" && row.name == *name,
            ControlChange::User(row) => *kind == "user" && row.email == *name,
            _ => false,
        });
        assert_eq!(named.count(), 1, "{kind} {name}");
    }
    let ids = |wanted: &str| {
        let ids = rows.keys().filter(|(kind, _)| *kind == wanted).map(|(_, id)| id.clone());
        ids.collect::<BTreeSet<String>>()
    };
    assert_eq!(ids("webhook"), world.acknowledged.webhooks);
    assert_eq!(ids("alert"), world.acknowledged.alerts);
    for id in &world.acknowledged.disabled {
        let Some(ControlChange::Webhook(row)) = rows.get(&("webhook", id.clone())) else { panic!("{id} is lost") };
        assert_eq!(row.status, i32::from(WebhookStatus::Disabled), "{id} is gone");
    }
}

/// The audit log has each act of the control log once, as far as its rows are projected, and no other.
pub(super) fn recount_audit(store: &MemoryStore, log: &[(u64, bytes::Bytes)]) {
    let mut checkpoint = 0;
    store.each(&schema::LOG_CHECKPOINT, |partition, clustering, version| {
        if partition[0].text() == CONTROL_LOG && clustering[0].text() == CONTROL_ROWS {
            checkpoint = version.unsigned_abs();
        }
    });
    let (done, mut projected) = (audit_rows(log), BTreeMap::new());
    for (key, row) in store.all(&schema::AUDIT) {
        // Other acts were written together with rows of people.
        if key[3].text().starts_with("control_") {
            projected.insert(format!("{key:?}"), row.body);
        }
    }
    for (key, (seq, body)) in &done {
        assert!(
            projected.get(key).map_or(*seq > checkpoint, |row| row == body),
            "{key} of {seq} is not in the audit log, {checkpoint} are projected"
        );
    }
    assert!(projected.keys().all(|key| done.contains_key(key)), "an act that was not done: {projected:?}");
}
