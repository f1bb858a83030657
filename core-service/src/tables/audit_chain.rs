//! The hash chain of each organization's audit log, which reveals a change of earlier entries.
//!
//! An entry's hash is SHA-256 of the previous hash and the entry's canonical JSON, as members see it. So an owner can
//! verify an export, and anybody who keeps a hash notices when the log before it changes. The chain covers the entries
//! that come from the control log, in its order. The projection of the control log adds them. It writes the new end of
//! a chain after the entries and before its checkpoint, so a repeat after a crash gives the same hashes and skips none.

use std::collections::{HashMap, hash_map::Entry};

use serde_json::json;
use sha2::{Digest as _, Sha256};
use thesis_proto::time::format_millis;

use super::{audit, control::shard_of};
use crate::{
    domain::account::{Act, AuditRow},
    key,
    store::{Change, Consistency, SharedBackend, StoreResult, schema::CONTROL},
};

const KIND: &str = "audit_chain";
/// The hash before the first entry.
const START: [u8; 32] = [0; 32];

/// The end of a chain.
#[derive(Clone, Debug)]
struct ChainEnd {
    /// The last sequence number of the control log whose entries are stored, hashes included.
    stored: i64,
    seq: i64,
    hash: Vec<u8>,
}

/// The ends of the chains, as far as a run of the projection has got.
#[derive(Debug, Default)]
pub struct AuditChains {
    ends: HashMap<String, ChainEnd>,
}

/// The hash of an entry after the hash before it.
pub fn next_hash(before: &[u8], row: &AuditRow) -> Vec<u8> {
    let act = row.act.clone().for_members();
    // The keys are in the order of canonical JSON.
    let entry = json!({
        "action": act.action,
        "actor": act.actor,
        "address": act.address,
        "created_at": format_millis(row.at),
        "id": row.id,
        "reason": act.reason,
        "subject": act.subject,
    });
    Sha256::new().chain_update(before).chain_update(entry.to_string()).finalize().to_vec()
}

impl AuditChains {
    async fn end(&mut self, backend: &SharedBackend, organization_id: &str) -> StoreResult<&mut ChainEnd> {
        match self.ends.entry(organization_id.to_owned()) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(unknown) => {
                let key = key![KIND, shard_of(organization_id), organization_id];
                let found = backend.get(&CONTROL, &key, Consistency::Quorum).await?;
                let found = found.map(|row| (row.version, row.body.to_vec()));
                let (seq, hash) = found.unwrap_or_else(|| (0, START.to_vec()));
                Ok(unknown.insert(ChainEnd { stored: seq, seq, hash }))
            }
        }
    }

    /// Returns the change that writes an entry of the control log; none if the store has it already.
    pub async fn add(&mut self, backend: &SharedBackend, seq: i64, row: AuditRow) -> StoreResult<Option<Change>> {
        let Some(organization_id) = row.act.organization_id.clone() else {
            return Ok(Some(audit::change(row.at, &row.id, &row.act)));
        };
        let end = self.end(backend, &organization_id).await?;
        if end.stored >= seq {
            return Ok(None);
        }
        end.hash = next_hash(&end.hash, &row);
        end.seq = seq;
        let act = Act { chain: Some(end.hash.clone()), ..row.act };
        Ok(Some(audit::change(row.at, &row.id, &act)))
    }

    /// The changes that write the new ends, after the entries are written.
    pub fn ends(self) -> impl Iterator<Item = Change> {
        let new = self.ends.into_iter().filter(|(_, end)| end.seq > end.stored);
        new.map(|(organization_id, end)| Change {
            table: &CONTROL,
            key: key![KIND, shard_of(&organization_id), &*organization_id],
            version: end.seq,
            body: Some(end.hash.into()),
            ttl: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::account::Actor,
        tests::harness::{ManualClock, memory},
    };

    fn row(seq: i64, action: &str) -> AuditRow {
        let act = Act { organization_id: Some("org_1".to_owned()), ..Actor::service().does(action).to("prj_1") };
        AuditRow { at: 1_795_442_700_000 + seq, id: format!("control_{seq:016}"), act }
    }

    #[test]
    fn a_hash_can_be_computed_by_anybody() {
        // The same as `sha256sum` of 32 zero bytes and this JSON.
        let json = concat!(
            r#"{"action":"key.created","actor":"service","address":null,"created_at":"2026-11-23T14:05:00.001Z","#,
            r#""id":"control_0000000000000001","reason":null,"subject":"prj_1"}"#
        );
        let expected = Sha256::new().chain_update(START).chain_update(json).finalize().to_vec();
        assert_eq!(next_hash(&START, &row(1, "key.created")), expected);
    }

    #[tokio::test]
    async fn a_run_that_was_cut_off_gives_the_same_hashes_again() {
        let backend = memory(&ManualClock::new());
        let run = async |from: i64, to: i64| {
            let mut chains = AuditChains::default();
            let mut changes = Vec::new();
            for seq in from..=to {
                changes.extend(chains.add(&backend, seq, row(seq, "key.created")).await.unwrap());
            }
            (changes, chains)
        };
        let bodies = |changes: &[Change]| changes.iter().map(|change| change.body.clone()).collect::<Vec<_>>();
        // The first run writes the entries, and ends before it writes the end of the chain.
        let (first, _) = run(1, 3).await;
        let (again, chains) = run(1, 3).await;
        assert_eq!((first.len(), bodies(&first)), (3, bodies(&again)));
        backend.apply(again).await.unwrap();
        backend.apply(chains.ends().collect()).await.unwrap();
        // Stored entries are not written again, and later ones continue the chain.
        let (rest, _) = run(2, 4).await;
        let (whole, _) = {
            let fresh = memory(&ManualClock::new());
            let mut chains = AuditChains::default();
            let mut changes = Vec::new();
            for seq in 1..=4 {
                changes.extend(chains.add(&fresh, seq, row(seq, "key.created")).await.unwrap());
            }
            (changes, chains)
        };
        assert_eq!(bodies(&rest), bodies(&whole)[3..]);
    }

    #[test]
    fn the_chain_has_what_members_see() {
        let act = Actor { id: "usr_1".to_owned(), address: Some("192.0.2.1".to_owned()), is_member: false };
        let seen = act.does("project.live_approved").for_members();
        assert_eq!((seen.actor.as_str(), seen.address), ("administrator", None));
        let act = Actor { id: "usr_1".to_owned(), address: Some("192.0.2.1".to_owned()), is_member: true };
        assert_eq!(act.does("key.created").for_members(), act.does("key.created"));
    }
}
