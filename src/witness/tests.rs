use std::{
    collections::BTreeMap,
    path::Path,
    sync::atomic::{AtomicI64, Ordering},
};

use tempfile::TempDir;
use thesis_net::clock::Clock;
use thesis_receipts::{
    AddCheckpoint, Checkpoint, GrowingTree, KeyKind, Note, ProofPlan, SigningKey, WitnessRefusal, leaf_hash,
};

use super::*;

const ORIGIN: &str = "trade-thesis/live/gen_1";
const NAME: &str = "witness.example/ann";

/// A clock that the test moves.
#[derive(Debug)]
struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A log that signs any tree with its key.
struct Log(SigningKey);

impl Log {
    fn new() -> Self {
        Self(SigningKey::from_seed(&[1; 32]))
    }

    fn key(&self) -> VerifierKey {
        self.0.verifier(ORIGIN, KeyKind::Log)
    }

    /// The request for a cosignature of a tree with these leaves, and the tree's checkpoint.
    fn request(&self, old: u64, leaves: &[u64]) -> (String, Checkpoint) {
        let mut tree = GrowingTree::default();
        leaves.iter().for_each(|leaf| tree.push(leaf_hash(&leaf.to_be_bytes())));
        let checkpoint = Checkpoint { origin: ORIGIN.to_owned(), size: tree.size(), root: tree.root() };
        let tiles: BTreeMap<_, _> = tree.take_changed().into_iter().collect();
        let plan = ProofPlan::consistency(old, tree.size());
        let proof = plan.and_then(|plan| plan.hashes(&tiles)).unwrap_or_default();
        let text = checkpoint.to_string();
        let note = format!("{text}\n{}", self.0.sign(ORIGIN, &text));
        (AddCheckpoint { old, proof, checkpoint: note }.to_string(), checkpoint)
    }
}

fn open(folder: &Path, name: &str, seed: u8, clock: &Arc<TestClock>) -> io::Result<Cosigner> {
    Cosigner::new(name.to_owned(), &[seed; 32], vec![Log::new().key()], folder.join("witness"), clock.clone())
}

fn cosigner(folder: &Path, seed: u8, clock: &Arc<TestClock>) -> Cosigner {
    open(folder, NAME, seed, clock).unwrap()
}

fn clock() -> Arc<TestClock> {
    Arc::new(TestClock(AtomicI64::new(1_790_000_000_999)))
}

/// The leaves from 0 to a size.
fn leaves(size: u64) -> Vec<u64> {
    (0..size).collect()
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn a_growing_log_is_cosigned_at_the_present_time() {
    let (folder, clock, log) = (folder(), clock(), Log::new());
    let witness = cosigner(folder.path(), 2, &clock);
    let mut old = 0;
    for size in [1, 1, 3, 300] {
        clock.0.fetch_add(1_000, Ordering::SeqCst);
        let (request, checkpoint) = log.request(old, &leaves(size));
        let cosignature = witness.add_checkpoint(&request).unwrap();
        let note = format!("{checkpoint}\n{cosignature}");
        let at = u64::try_from(clock.now_ms() / 1_000).unwrap();
        assert_eq!(Note::parse(&note).unwrap().cosigned_at(&witness.public_key()), Ok(Some(at)));
        old = size;
    }
}

fn refusal(witness: &Cosigner, request: &str) -> WitnessRefusal {
    match witness.add_checkpoint(request) {
        Err(CosignError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_rewritten_log_is_refused_also_after_a_restart() {
    let (folder, clock, log) = (folder(), clock(), Log::new());
    let first = cosigner(folder.path(), 2, &clock);
    first.add_checkpoint(&log.request(0, &leaves(100)).0).unwrap();
    drop(first);
    let witness = cosigner(folder.path(), 2, &clock);
    let mut changed_leaf = leaves(150);
    changed_leaf[40] = 1_000;
    // The log as another replica would have continued it.
    let fork: Vec<u64> = leaves(99).into_iter().chain(1_000..1_051).collect();
    for rewritten in [changed_leaf, fork] {
        let judged = |size: usize| refusal(&witness, &log.request(100, &rewritten[..size]).0);
        assert_eq!(judged(100), WitnessRefusal::OtherRoot(100));
        assert_eq!(judged(150), WitnessRefusal::Inconsistent);
    }
    assert_eq!(refusal(&witness, &log.request(100, &leaves(60)).0), WitnessRefusal::Form);
    assert_eq!(refusal(&witness, &log.request(60, &leaves(60)).0), WitnessRefusal::OtherSize(100));
    // The refused requests have changed nothing.
    witness.add_checkpoint(&log.request(100, &leaves(150)).0).unwrap();
    assert_eq!(refusal(&witness, &log.request(100, &leaves(150)).0), WitnessRefusal::OtherSize(150));
}

#[test]
fn a_damaged_file_is_no_new_beginning() {
    let (folder, clock, log) = (folder(), clock(), Log::new());
    let witness = cosigner(folder.path(), 2, &clock);
    witness.add_checkpoint(&log.request(0, &leaves(3)).0).unwrap();
    let (next, _) = log.request(3, &leaves(4));
    let file = fs::read_dir(folder.path().join("witness")).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&file).unwrap();
    for damaged in [text.replacen("\n3\n", "\n2\n", 1), text[..text.len() / 2].to_owned(), String::new()] {
        fs::write(&file, damaged).unwrap();
        for request in [&next, &log.request(0, &leaves(3)).0] {
            assert!(matches!(witness.add_checkpoint(request), Err(CosignError::Broken(_))));
        }
    }
    fs::write(&file, text).unwrap();
    witness.add_checkpoint(&next).unwrap();
}

#[test]
fn a_crash_while_a_checkpoint_is_stored_loses_no_other() {
    let (folder, clock, log) = (folder(), clock(), Log::new());
    let first = cosigner(folder.path(), 2, &clock);
    first.add_checkpoint(&log.request(0, &leaves(3)).0).unwrap();
    drop(first);
    fs::write(folder.path().join("witness/.tmpDraft"), "half of a checkp").unwrap();
    let witness = cosigner(folder.path(), 2, &clock);
    assert_eq!(refusal(&witness, &log.request(0, &leaves(3)).0), WitnessRefusal::OtherSize(3));
    witness.add_checkpoint(&log.request(3, &leaves(4)).0).unwrap();
}

#[test]
fn what_cannot_be_stored_is_not_cosigned() {
    let (folder, clock, log) = (folder(), clock(), Log::new());
    let witness = cosigner(folder.path(), 2, &clock);
    fs::remove_dir_all(folder.path().join("witness")).unwrap();
    assert!(matches!(witness.add_checkpoint(&log.request(0, &leaves(3)).0), Err(CosignError::Broken(_))));
}

#[test]
fn a_witness_starts_only_with_its_own_files_and_alone() {
    let (folder, clock, log) = (folder(), clock(), Log::new());
    let why = |name: &str, seed: u8| open(folder.path(), name, seed, &clock).err().map(|error| error.to_string());
    let first = cosigner(folder.path(), 2, &clock);
    first.add_checkpoint(&log.request(0, &leaves(3)).0).unwrap();
    assert_eq!(why(NAME, 2).as_deref(), Some("another witness uses this folder"));
    drop(first);
    for (name, seed) in [("witness.example/bob", 2), (NAME, 3)] {
        assert!(why(name, seed).unwrap().ends_with("of a witness with another key or name"), "{name}");
    }
    assert_eq!(why(NAME, 2), None);
}

#[test]
fn a_cosignature_covers_lines_of_another_version() {
    let (folder, clock, log) = (folder(), clock(), Log::new());
    let witness = cosigner(folder.path(), 2, &clock);
    let text = format!("{}later\n", log.request(0, &leaves(3)).1);
    let signed = format!("{text}\n{}", log.0.sign(ORIGIN, &text));
    let body = AddCheckpoint { old: 0, proof: Vec::new(), checkpoint: signed }.to_string();
    let note = format!("{text}\n{}", witness.add_checkpoint(&body).unwrap());
    assert!(matches!(Note::parse(&note).unwrap().cosigned_at(&witness.public_key()), Ok(Some(_))));
}
