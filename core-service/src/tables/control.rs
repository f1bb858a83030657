//! The state of the control log as rows. A core loads them when it starts.

use std::{borrow::Cow, ops::Bound};

use bytes::Bytes;
use prost::Message as _;

use crate::{
    domain::{
        account::{Act, AuditRow, Member},
        control::{ChangeList, ControlChange, ControlEntry},
    },
    key,
    store::{Change, Scan, SharedBackend, StoreError, StoreResult, schema},
};

/// Number of partitions of one kind of rows.
const SHARDS: i64 = 16;
/// Maximum number of rows in one read.
const PAGE: usize = 1_000;

const KINDS: [&str; 9] = ["organization", "project", "key", "webhook", "seed", "user", "member", "invitation", "alert"];

pub(super) fn shard_of(id: &str) -> i64 {
    id.bytes().fold(0, |sum, byte| (sum * 31 + i64::from(byte)) % SHARDS)
}

/// The kind of a change's row, its id, and whether the row stays.
fn row_of(change: &ControlChange) -> (&'static str, Cow<'_, str>, bool) {
    let (kind, id, stays) = match change {
        ControlChange::Organization(row) => ("organization", &row.id, true),
        ControlChange::Project(row) => ("project", &row.id, true),
        ControlChange::ApiKey(row) => ("key", &row.id, true),
        ControlChange::Webhook(row) => ("webhook", &row.id, true),
        ControlChange::WebhookDeleted(id) => ("webhook", id, false),
        ControlChange::Alert(row) => ("alert", &row.id, true),
        ControlChange::AlertDeleted(id) => ("alert", id, false),
        ControlChange::SandboxSeed(_) => return ("seed", Cow::Borrowed("sandbox"), true),
        ControlChange::User(row) => ("user", &row.id, true),
        ControlChange::Member(row) => return ("member", Cow::Owned(member_id(row)), true),
        ControlChange::MemberGone(id) => ("member", id, false),
        ControlChange::Invitation(row) => ("invitation", &row.id, true),
        ControlChange::InvitationGone(id) => ("invitation", id, false),
        // Each such change has its own row.
        ControlChange::Several(_) => return ("several", Cow::Borrowed(""), false),
    };
    (kind, Cow::Borrowed(id), stays)
}

pub fn member_id(member: &Member) -> String {
    format!("{}/{}", member.organization_id, member.user_id)
}

/// The id of the row that a change is about.
pub fn subject_of(change: &ControlChange) -> String {
    row_of(change).1.into_owned()
}

/// Encodes an entry of the control log, with at least one change.
pub fn encode(created_at: i64, mut changes: Vec<ControlChange>, act: Act) -> Bytes {
    let plain = |change| ControlEntry { created_at, change: Some(change), act: None };
    let change = if changes.len() == 1 {
        changes.pop()
    } else {
        Some(ControlChange::Several(ChangeList { changes: changes.into_iter().map(plain).collect() }))
    };
    ControlEntry { created_at, change, act: Some(act) }.encode_to_vec().into()
}

/// Reads the changes of an entry of the control log, or of a row. An entry of a kind that only a newer version knows is
/// an error: if it were skipped, a revoked key would continue to work.
pub fn decode(body: Bytes) -> StoreResult<Vec<ControlChange>> {
    Ok(decode_entry(body)?.0)
}

/// The changes of an entry, its time and its act.
fn decode_entry(body: Bytes) -> StoreResult<(Vec<ControlChange>, i64, Option<Act>)> {
    let entry = ControlEntry::decode(body).map_err(|error| StoreError::Damaged(format!("control log: {error}")))?;
    let changes: Option<Vec<_>> = match entry.change {
        Some(ControlChange::Several(several)) => several.changes.into_iter().map(|entry| entry.change).collect(),
        change => change.map(|change| vec![change]),
    };
    let changes = changes.ok_or_else(|| StoreError::Unknown("the kind of a control change".to_owned()))?;
    Ok((changes, entry.created_at, entry.act))
}

/// Scans for a sample of webhooks: one of each partition.
pub fn sample_webhooks() -> impl Iterator<Item = Scan> {
    (0..SHARDS).map(|shard| Scan::all(&schema::CONTROL, key!["webhook", shard], 1))
}

pub async fn load(backend: &SharedBackend, mut apply: impl FnMut(ControlChange)) -> StoreResult<()> {
    for (kind, shard) in KINDS.iter().flat_map(|kind| (0..SHARDS).map(move |shard| (kind, shard))) {
        let mut scan = Scan::all(&schema::CONTROL, key![*kind, shard], PAGE);
        loop {
            let rows = backend.scan(&scan).await?;
            let Some(last) = rows.last() else { break };
            scan.from = Bound::Excluded(last.clustering.clone());
            let full = rows.len() == PAGE;
            for row in rows {
                decode(row.body)?.into_iter().for_each(&mut apply);
            }
            if !full {
                break;
            }
        }
    }
    Ok(())
}

/// The acts of an entry for the audit log. An organization gets an act for each member that it loses, also when the act
/// itself concerns something else.
fn acts(changes: &[ControlChange], act: Act) -> Vec<Act> {
    let lost = changes.iter().filter_map(|change| match change {
        ControlChange::MemberGone(id) => Some((id.split_once('/')?.0, id)),
        _ => None,
    });
    let lost = lost.filter(|(organization, _)| act.organization_id.as_deref() != Some(*organization));
    let left = lost.map(|(organization, id)| Act {
        action: "member.left".to_owned(),
        organization_id: Some(organization.to_owned()),
        subject: id.clone(),
        ..act.clone()
    });
    let mut acts: Vec<Act> = left.collect();
    acts.push(act);
    acts
}

/// The rows of an entry of the control log, one for each change, and its entries for the audit log.
pub fn entry_changes(seq: u64, body: Bytes) -> StoreResult<(impl Iterator<Item = Change>, Vec<AuditRow>)> {
    let (changes, created_at, act) = decode_entry(body)?;
    let acts = act.map(|act| acts(&changes, act)).unwrap_or_default().into_iter();
    let audit_rows = acts.map(|act| AuditRow { at: created_at, id: format!("control_{seq:016}"), act }).collect();
    let version = i64::try_from(seq).unwrap_or(i64::MAX);
    let rows = changes.into_iter().map(move |change| {
        let (kind, id, stays) = row_of(&change);
        let key = key![kind, shard_of(&id), &*id];
        let entry = stays.then_some(ControlEntry { created_at, change: Some(change), act: None });
        let body = entry.map(|entry| entry.encode_to_vec().into());
        Change { table: &schema::CONTROL, key, version, body, ttl: None }
    });
    Ok((rows, audit_rows))
}
