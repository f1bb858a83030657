//! The state of the control log as rows. A core loads them when it starts.

use std::{borrow::Cow, ops::Bound};

use bytes::Bytes;
use prost::Message as _;

use super::audit;
use crate::{
    domain::{
        account::{Act, Member},
        control::{ControlChange, ControlEntry},
    },
    key,
    store::{Change, Scan, SharedBackend, StoreError, StoreResult, schema},
};

/// Number of partitions of one kind of rows.
const SHARDS: i64 = 16;
/// Most rows read at once.
const PAGE: usize = 1_000;

const KINDS: [&str; 8] = ["organization", "project", "key", "webhook", "seed", "user", "member", "invitation"];

fn shard_of(id: &str) -> i64 {
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
        ControlChange::SandboxSeed(_) => return ("seed", Cow::Borrowed("sandbox"), true),
        ControlChange::User(row) => ("user", &row.id, true),
        ControlChange::Member(row) => return ("member", Cow::Owned(member_id(row)), true),
        ControlChange::MemberGone(id) => ("member", id, false),
        ControlChange::Invitation(row) => ("invitation", &row.id, true),
        ControlChange::InvitationGone(id) => ("invitation", id, false),
    };
    (kind, Cow::Borrowed(id), stays)
}

/// The id of a member's row.
#[must_use]
pub fn member_id(member: &Member) -> String {
    format!("{}/{}", member.organization_id, member.user_id)
}

/// The id of the row that a change is about.
#[must_use]
pub fn subject_of(change: &ControlChange) -> String {
    row_of(change).1.into_owned()
}

/// Makes an entry of the control log, of one change at least.
#[must_use]
pub fn encode(created_at: i64, changes: Vec<ControlChange>, act: Act) -> Bytes {
    let mut entries =
        changes.into_iter().map(|change| ControlEntry { created_at, change: Some(change), ..ControlEntry::default() });
    let first = entries.next().unwrap_or_default();
    ControlEntry { act: Some(act), beside: entries.collect(), ..first }.encode_to_vec().into()
}

/// Reads the changes of an entry of the control log, or of a row.
///
/// # Errors
/// When it is damaged, or of a kind that only a newer version knows: passed over, a revoked key would go on to work.
pub fn decode(body: Bytes) -> StoreResult<impl Iterator<Item = ControlChange>> {
    let entry = decode_entry(body)?;
    Ok(entry.change.into_iter().chain(entry.beside.into_iter().filter_map(|entry| entry.change)))
}

fn decode_entry(body: Bytes) -> StoreResult<ControlEntry> {
    let entry = ControlEntry::decode(body).map_err(|error| StoreError::Damaged(format!("control log: {error}")))?;
    if entry.change.is_none() || entry.beside.iter().any(|entry| entry.change.is_none()) {
        return Err(StoreError::Unknown("the kind of a control change".to_owned()));
    }
    Ok(entry)
}

/// Reads every row.
///
/// # Errors
/// When the store does not answer.
pub async fn load(backend: &SharedBackend, mut take: impl FnMut(ControlChange)) -> StoreResult<()> {
    for (kind, shard) in KINDS.iter().flat_map(|kind| (0..SHARDS).map(move |shard| (kind, shard))) {
        let mut scan = Scan::all(&schema::CONTROL, key![*kind, shard], PAGE);
        loop {
            let rows = backend.scan(&scan).await?;
            let Some(last) = rows.last() else { break };
            scan.from = Bound::Excluded(last.clustering.clone());
            let full = rows.len() == PAGE;
            for row in rows {
                decode(row.body)?.for_each(&mut take);
            }
            if !full {
                break;
            }
        }
    }
    Ok(())
}

/// The rows of an entry of the control log: one of each change, and one of the audit log.
///
/// # Errors
/// When the entry is damaged.
pub fn entry_changes(seq: u64, body: Bytes) -> StoreResult<impl Iterator<Item = Change>> {
    let ControlEntry { created_at, change, act, beside } = decode_entry(body)?;
    let version = i64::try_from(seq).unwrap_or(i64::MAX);
    let rows = change.into_iter().chain(beside.into_iter().filter_map(|entry| entry.change)).map(move |change| {
        let (kind, id, stays) = row_of(&change);
        let key = key![kind, shard_of(&id), &*id];
        let entry = stays.then(|| ControlEntry { created_at, change: Some(change), ..ControlEntry::default() });
        let body = entry.map(|entry| entry.encode_to_vec().into());
        Change { table: &schema::CONTROL, key, version, body, ttl: None }
    });
    Ok(rows.chain(act.map(|act| audit::change(created_at, &format!("control_{seq:016}"), &act))))
}
