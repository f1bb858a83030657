//! Receipts of entries, and signed statements of verdicts.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use thesis_proto::v1;
use thesis_receipts::{
    Checkpoint, Evidence, Note, ProofPlan, SALT_BYTES, TlogProof, commitment, leaf_hash, root_of_inclusion,
    statement_text, to_canonical,
};

use super::Trees;
use crate::{
    domain::{
        dataset::Dataset,
        entry::{ArchiveFile, Entry, Kind, SequencedEntry},
        evidence::evidence,
        row::Thesis,
    },
    store::{StoreError, StoreResult},
    tables::{archive_files::ArchivedFile, log::decode, signed_trees::SignedTree},
};

/// The reason for which there is no receipt.
#[derive(Debug, thiserror::Error)]
pub enum NoReceipt {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No checkpoint covers the entry yet.
    #[error("no signed checkpoint covers this yet; try again in two seconds")]
    Uncovered,
    /// The entry has no salt.
    #[error("the text was erased, and with it the receipt; receipts that were given before stay valid")]
    Erased,
    /// The row does not name the entry of its last change.
    #[error("the last change of this thesis was recorded before the service gave receipts, so it has none")]
    Unrecorded,
}

/// The parts of a receipt that do not depend on its subject.
struct Proof {
    salt: String,
    index: i64,
    proof: String,
    keys: Vec<String>,
}

impl Trees {
    /// The receipt of a thesis: that of its last edit or its deletion, or else of its creation. Rows of an earlier
    /// version do not name the entry of an edit or a deletion. Such a thesis has no receipt, since that of the creation
    /// would be wrong.
    pub async fn receipt_of(&self, dataset: &Dataset, thesis: &Thesis) -> Result<v1::Receipt, NoReceipt> {
        let created = thesis.sequence.filter(|_| thesis.deleted_at.is_none());
        let seq = thesis.changed_in.or(created).ok_or(NoReceipt::Unrecorded)?;
        let found = self.evidence(dataset, seq).await?.filter(|(found, _)| found.thesis_id == thesis.id);
        let (evidence, salt) = found.ok_or(NoReceipt::Erased)?;
        if thesis.changed_in.is_none() && evidence.text.as_ref() != Some(&thesis.text) {
            return Err(NoReceipt::Unrecorded);
        }
        let signed = self.checkpoint_over(dataset, seq).await?.ok_or(NoReceipt::Uncovered)?;
        let Evidence { thesis_id, sequence, .. } = &evidence;
        let (json, livemode) = (evidence.to_json(), dataset.livemode());
        let Proof { salt, index, proof, keys } =
            self.prove(dataset, &signed, *sequence, json.as_bytes(), &salt).await?;
        Ok(v1::Receipt { thesis_id: thesis_id.clone(), evidence: json, salt, index, proof, keys, livemode })
    }

    /// The receipt of the entry that has the hash of an archive file. Its evidence is the hash of the stored entry, so
    /// the receipt has the stored entry too.
    pub async fn receipt_of_file(
        &self,
        dataset: &Dataset,
        archived: &ArchivedFile,
    ) -> Result<v1::ArchiveReceipt, NoReceipt> {
        let seq = archived.seq;
        let signed = self.checkpoint_over(dataset, seq).await?.filter(|signed| signed.size >= seq);
        let signed = signed.ok_or(NoReceipt::Uncovered)?;
        let lost = || StoreError::Damaged(format!("log {dataset} has no entry {seq} of an archive file"));
        let stored = self.shared.log.get(dataset.name(), seq).await?.ok_or_else(lost)?;
        let Entry { kind, salt, .. } = decode(seq, stored.clone())?;
        let Some(Kind::ArchiveFile(ArchiveFile { date, kind, sha256, .. })) = kind else { return Err(lost().into()) };
        let hash = Sha256::digest(&stored);
        let Proof { salt, index, proof, keys } = self.prove(dataset, &signed, seq, &hash, &salt).await?;
        let (evidence, entry, livemode) = (hex::encode(hash), BASE64_STANDARD.encode(&stored), dataset.livemode());
        Ok(v1::ArchiveReceipt { date, kind, sha256, evidence, entry, salt, index, proof, keys, livemode })
    }

    /// The evidence of an entry, with its salt.
    async fn evidence(&self, dataset: &Dataset, seq: u64) -> StoreResult<Option<(Evidence, Vec<u8>)>> {
        let Some(stored) = self.shared.log.get(dataset.name(), seq).await? else { return Ok(None) };
        let entry = Entry::from_stored(seq, stored);
        let entry = entry.map_err(|error| StoreError::Damaged(format!("log entry {seq}: {error}")))?;
        let sequenced = SequencedEntry { seq, entry };
        let found = evidence(dataset.name(), &sequenced).map(|evidence| (evidence, sequenced.entry.salt));
        Ok(found.filter(|(_, salt)| salt.len() == SALT_BYTES))
    }

    /// Proves that a signed tree has the leaf of this evidence.
    async fn prove(
        &self,
        dataset: &Dataset,
        signed: &SignedTree,
        seq: u64,
        evidence: &[u8],
        salt: &[u8],
    ) -> Result<Proof, NoReceipt> {
        let index = seq.saturating_sub(1);
        let plan = ProofPlan::inclusion(index, signed.size).ok_or(NoReceipt::Uncovered)?;
        let hashes = plan.hashes(&self.tiles.read(dataset, &plan.tiles()).await?);
        let hashes = hashes.ok_or_else(|| StoreError::Damaged(format!("the tree of {dataset} lacks tiles")))?;
        let leaf = leaf_hash(&commitment(salt, evidence));
        let root = root_of_inclusion(index, signed.size, leaf, &hashes);
        if root.is_none_or(|root| root[..] != signed.root[..]) {
            let text = format!("the tree of {dataset} does not have the leaf of entry {seq}");
            return Err(StoreError::Damaged(text).into());
        }
        Ok(Proof {
            salt: BASE64_STANDARD.encode(salt),
            index: i64::try_from(index).unwrap_or(i64::MAX),
            proof: TlogProof { index, hashes, checkpoint: signed.note.clone() }.to_string(),
            keys: vec![signed.key.clone()],
        })
    }

    /// Signs a verdict about a claim, which holds up to this checkpoint. None if another key signed the checkpoint:
    /// this core's key signs the next one.
    pub fn state(
        &self,
        dataset: &Dataset,
        signed: &SignedTree,
        claim: &Value,
        verdict: &Value,
    ) -> Option<v1::Statement> {
        if signed.key != self.verifier(dataset).to_string() {
            return None;
        }
        let checkpoint = Checkpoint::parse(Note::parse(&signed.note).ok()?.text())?;
        let text = statement_text(&checkpoint, claim, verdict)?;
        Some(v1::Statement {
            claim: to_canonical(claim).ok()?,
            verdict: to_canonical(verdict).ok()?,
            checkpoint: signed.note.clone(),
            signature: self.key.sign(&checkpoint.origin, &text),
            keys: vec![signed.key.clone()],
            livemode: dataset.livemode(),
        })
    }
}
