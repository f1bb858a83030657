mod progress;
mod witnesses;

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use thesis_proto::v1;
use thesis_receipts::{Checkpoint, Document, Evidence, EvidenceKind, Note, Subject, leaf_hash};

use super::{
    follow::{TreeError, TreeFollower},
    *,
};
use crate::{
    domain::{
        dataset::View,
        entry::{Entry, Kind, ThesisCreated},
        evidence::leaf,
        observation::{Observation, ObservedEngagement, ObservedProfile, ObservedThesis, ObservedThing, ObservedToken},
        row::Thesis,
    },
    keys::key_ring::KeyRing,
    service::Core,
    start::CoreSettings,
    store::SharedBackend,
    tables::log::{AppendOutcome, LogStore},
    tests::{
        faulty::{Fault, MemoryStore, Process},
        harness::{ManualClock, core, ids, new_thesis, settings, shared_memory},
    },
};

const LIVE: Dataset = Dataset::Live;
/// Tests catch up with few entries.
const PROGRESS_INTERVAL: u64 = 5_000;

async fn trees_with(backend: SharedBackend, clock: &Arc<ManualClock>, replica: u64, seed: u8) -> Arc<Trees> {
    let ids = ids(replica);
    let keys = KeyRing::new(&[7; 32], ids.clone());
    let shared = Shared::load(backend, keys, clock.clone(), ids).await.unwrap();
    Trees::new(Arc::new(shared), &[seed; 32])
}

async fn trees(backend: SharedBackend, clock: &Arc<ManualClock>, replica: u64) -> Arc<Trees> {
    trees_with(backend, clock, replica, 5).await
}

fn follower(trees: &Arc<Trees>) -> TreeFollower {
    TreeFollower::new(Arc::clone(trees), LIVE, PROGRESS_INTERVAL)
}

/// Appends entries to the log. Returns its head.
async fn append(backend: &SharedBackend, count: u64) -> u64 {
    let log = LogStore::new(Arc::clone(backend));
    let head = log.head("live", 0, Consistency::Quorum).await.unwrap();
    let entry = |seq: u64| Entry { salt: seq.to_be_bytes().repeat(2), ..Entry::filler(seq, 1) };
    let bodies: Vec<Bytes> = (head + 1..=head + count).map(|seq| entry(seq).stored(seq).into()).collect();
    let appended = log.append("live", head, u128::from(head).to_be_bytes(), &bodies).await.unwrap();
    assert_eq!(appended, AppendOutcome::Done);
    head + count
}

/// The root of the log's first entries, from the log alone.
async fn naive_root(backend: &SharedBackend, size: u64) -> Hash {
    let log = LogStore::new(Arc::clone(backend));
    let mut tree = GrowingTree::default();
    for (seq, stored) in log.read("live", 0, size, usize::try_from(size).unwrap()).await.unwrap() {
        tree.push(leaf("live", seq, &stored).unwrap());
    }
    assert_eq!(tree.size(), size);
    tree.root()
}

/// Reads the checkpoint, and checks that the log has signed its own tree. Returns the size.
async fn signed_size(trees: &Trees, backend: &SharedBackend) -> Option<u64> {
    let signed = trees.checkpoint(&LIVE).await.unwrap()?;
    let note = Note::parse(&signed.note).unwrap();
    assert_eq!(note.is_signed_by(&signed.key.parse().unwrap()), Ok(true));
    let checkpoint = Checkpoint::parse(note.text()).unwrap();
    let root = naive_root(backend, signed.size).await;
    assert_eq!(checkpoint, Checkpoint { origin: trees.log_name(&LIVE), size: signed.size, root });
    assert_eq!(signed.root, root);
    Some(signed.size)
}

#[tokio::test]
async fn a_tree_is_signed_as_it_grows() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let trees = trees(Arc::clone(&backend), &clock, 1).await;
    let mut follower = follower(&trees);
    assert_eq!(signed_size(&trees, &backend).await, None);
    follower.advance(0).await.unwrap();
    assert_eq!(signed_size(&trees, &backend).await, Some(0));
    for count in [1, 255, 1, 2_500] {
        let head = append(&backend, count).await;
        follower.advance(head).await.unwrap();
        assert_eq!(signed_size(&trees, &backend).await, Some(head));
        assert_eq!(trees.root_at(&LIVE, head).await.unwrap(), naive_root(&backend, head).await);
    }
    assert_eq!(trees.root_at(&LIVE, 256).await.unwrap(), naive_root(&backend, 256).await);
    // It does not sign the same tree twice.
    let before = trees.checkpoint(&LIVE).await.unwrap();
    clock.advance(5_000);
    follower.advance(2_757).await.unwrap();
    follower.forget();
    follower.advance(2_757).await.unwrap();
    assert_eq!(trees.checkpoint(&LIVE).await.unwrap(), before);
}

#[tokio::test]
async fn two_cores_that_sign_in_turn_never_contradict_each_other() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let cores = [trees(Arc::clone(&backend), &clock, 1).await, trees(Arc::clone(&backend), &clock, 2).await];
    let mut followers = cores.each_ref().map(follower);
    let (mut last, mut signatures) = (None, 0);
    for round in 0..60_usize {
        let head = append(&backend, 7).await;
        clock.advance(400);
        // Each follower in turn is up to date, late, or has lost its memory.
        let place = round * 5 / 3 % 2;
        if round % 11 == 0 {
            followers[place].forget();
        }
        followers[place].advance(if round % 3 == 0 { head - 5 } else { head }).await.unwrap();
        let size = signed_size(&cores[0], &backend).await;
        assert!(size >= last, "{size:?} after {last:?}");
        signatures += usize::from(size > last);
        last = size;
    }
    assert!(signatures >= 10, "{signatures}");
    clock.advance(1_000);
    for follower in &mut followers {
        // Its checkpoint may be an old one, so the first round only reads the newest.
        follower.advance(420).await.unwrap();
        follower.advance(420).await.unwrap();
    }
    assert_eq!(signed_size(&cores[1], &backend).await, Some(420));
}

#[tokio::test]
async fn another_core_signs_a_second_later() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let cores = [trees(Arc::clone(&backend), &clock, 1).await, trees(Arc::clone(&backend), &clock, 2).await];
    let [mut first, mut second] = cores.each_ref().map(follower);
    append(&backend, 10).await;
    first.advance(10).await.unwrap();
    append(&backend, 10).await;
    for (later, size) in [(999, 10), (1, 20)] {
        clock.advance(later);
        second.advance(20).await.unwrap();
        assert_eq!(signed_size(&cores[0], &backend).await, Some(size));
    }
    // The conditional write of the first core loses to this checkpoint, and the next round continues it.
    append(&backend, 10).await;
    clock.advance(1_000);
    for size in [20, 30] {
        first.advance(30).await.unwrap();
        assert_eq!(signed_size(&cores[0], &backend).await, Some(size));
    }
}

/// Injects a fault into one call of a core, and lets another core continue. Returns false if the core made no such
/// call.
async fn survive(exclusive: bool, number: usize, fault: Fault) -> bool {
    let clock = ManualClock::new();
    let store: SharedBackend = Arc::new(MemoryStore::new(exclusive));
    append(&store, 300).await;
    follower(&trees(Arc::clone(&store), &clock, 1).await).advance(300).await.unwrap();
    append(&store, 300).await;
    clock.advance(2_000);
    let process = Process::new(Arc::clone(&store));
    let backend: SharedBackend = process.clone();
    let failing = trees(backend, &clock, 2).await;
    process.set_chooser(Box::new(move |call, _| (call == number).then_some(fault)));
    process.count(true);
    let mut follower = follower(&failing);
    let first = follower.advance(600).await;
    let has_failed = process.calls().len() > number;
    assert!(has_failed || first.is_ok(), "{first:?}");
    let trees = trees(Arc::clone(&store), &clock, 3).await;
    let seen = signed_size(&trees, &store).await;
    assert!(seen == Some(300) || seen == Some(600), "{seen:?}");
    // The same core tries again, if it still lives, and another one goes on.
    follower.forget();
    drop(follower.advance(600).await);
    append(&store, 300).await;
    clock.advance(2_000);
    TreeFollower::new(Arc::clone(&trees), LIVE, PROGRESS_INTERVAL).advance(900).await.unwrap();
    assert_eq!(signed_size(&trees, &store).await, Some(900));
    has_failed
}

#[tokio::test]
async fn checkpoints_survive_every_fault() {
    for exclusive in [false, true] {
        let all = [Fault::NotDone, Fault::Done, Fault::Ends, Fault::Half, Fault::EndsHalfway];
        // A store with one writer applies changes in one transaction.
        for fault in all.into_iter().take(if exclusive { 3 } else { 5 }) {
            let mut number = 0;
            while survive(exclusive, number, fault).await {
                number += 1;
            }
            assert!(number >= 5, "the tree's size, its tiles, the checkpoint, the keys and the writes: {number}");
        }
    }
}

#[tokio::test]
async fn a_tree_that_contradicts_its_checkpoint_is_not_signed() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let trees = trees(Arc::clone(&backend), &clock, 1).await;
    append(&backend, 10).await;
    follower(&trees).advance(10).await.unwrap();
    let log = trees.log_name(&LIVE);
    let signed = trees.checkpoint(&LIVE).await.unwrap().unwrap();
    let other = SignedTree { root: leaf_hash(b"another log").to_vec(), ..signed };
    assert!(signed_trees::replace(&backend, &LIVE, &log, Some(1), &other, false).await.unwrap());
    append(&backend, 10).await;
    clock.advance(2_000);
    let refused = follower(&trees).advance(20).await;
    assert!(matches!(refused, Err(TreeError::Contradiction { size: 10, .. })), "{refused:?}");
    assert_eq!(trees.checkpoint(&LIVE).await.unwrap(), Some(other));
}

#[tokio::test(start_paused = true)]
async fn no_loss_of_power_leaves_a_checkpoint_without_its_tiles() {
    let clock = ManualClock::new();
    let store = Arc::new(MemoryStore::new(true));
    let backend: SharedBackend = store.clone();
    let trees = trees(Arc::clone(&backend), &clock, 1).await;
    let head = append(&backend, 300).await;
    follower(&trees).advance(head).await.unwrap();
    assert_eq!(trees.tiles.size(&LIVE).await.unwrap(), head);
    store.lose_power();
    assert_eq!(trees.tiles.size(&LIVE).await.unwrap(), 0, "this is a row, and its write waits for no disk");
    assert_eq!(signed_size(&trees, &backend).await, Some(head));
    assert_eq!(trees.root_at(&LIVE, head).await.unwrap(), naive_root(&backend, head).await);
    let head = append(&backend, 300).await;
    clock.advance(2_000);
    follower(&trees).advance(head).await.unwrap();
    assert_eq!(signed_size(&trees, &backend).await, Some(head));
}

#[tokio::test]
async fn a_tree_without_its_tiles_is_built_again() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let trees = trees(Arc::clone(&backend), &clock, 1).await;
    let head = append(&backend, 300).await;
    trees.tiles.write(&LIVE, 299, Vec::new()).await.unwrap();
    follower(&trees).advance(head).await.unwrap();
    assert_eq!(signed_size(&trees, &backend).await, Some(head));
}

#[tokio::test]
async fn a_new_key_takes_the_place_of_the_old_one() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let first = trees(Arc::clone(&backend), &clock, 1).await;
    follower(&first).advance(append(&backend, 10).await).await.unwrap();
    clock.advance(2_000);
    let second = trees_with(Arc::clone(&backend), &clock, 2, 6).await;
    follower(&second).advance(append(&backend, 10).await).await.unwrap();
    assert_eq!(signed_size(&first, &backend).await, Some(20));
    let log = second.log_name(&LIVE);
    let keys = signed_trees::keys(&backend, &LIVE, &log, Consistency::Quorum).await.unwrap();
    let [old, new] = [&first, &second].map(|trees| trees.verifier(&LIVE).to_string());
    let names: Vec<(&str, bool)> =
        keys.iter().map(|LogKey { key, retired_at, .. }| (&**key, retired_at.is_some())).collect();
    assert_eq!(names, [(&*old, true), (&*new, false)]);
}

#[tokio::test]
async fn the_receipt_is_that_of_the_last_change_of_the_text() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let core = core(Arc::clone(&backend), &clock, 1).await;
    let trees = Trees::new(Arc::clone(&core.shared), &[5; 32]);
    let mut follower = follower(&trees);
    let seen = |text: &str| {
        let profile = ObservedProfile { upstream_id: "u".into(), handle: "writer".into(), ..Default::default() };
        let (chain, address, symbol) = ("base".to_owned(), "0xa".to_owned(), "RUN".to_owned());
        let token = ObservedToken { chain, address, symbol, ..Default::default() };
        let (upstream_id, text) = ("t".to_owned(), text.to_owned());
        ObservedThing::Thesis(Box::new(ObservedThesis { upstream_id, profile, token, text, ..Default::default() }))
    };
    let likes = ObservedEngagement { upstream_id: "t".to_owned(), likes: Some(5), replies: None };
    let (created, edited) = (Some("first".to_owned()), Some("second".to_owned()));
    for (observed_at, (seen, kind, text)) in (1..).zip([
        (seen("first"), EvidenceKind::Created, created),
        (seen("second"), EvidenceKind::Edited, edited.clone()),
        (ObservedThing::Engagement(likes), EvidenceKind::Edited, edited),
        (ObservedThing::Deletion("t".to_owned()), EvidenceKind::Deleted, None),
    ]) {
        let observation = Observation { observed_at, revision: Some(observed_at), seen };
        let id = core.datasets.observe_here(&LIVE, observation).await.unwrap().id;
        follower.advance(core.datasets.refresh(&LIVE).await.unwrap()).await.unwrap();
        let (_, thesis) = core.shared.theses.thesis(&View::live(), &id).await.unwrap().unwrap();
        let proven = verified(&trees, trees.receipt_of(&LIVE, &thesis).await.unwrap());
        assert_eq!((proven.kind, proven.text, proven.thesis_id), (kind, text, id));
        // The row of an earlier version does not name the entry of its last change.
        let row = Thesis { changed_in: None, ..Thesis::clone(&thesis) };
        let receipt = trees.receipt_of(&LIVE, &row).await;
        let is_unrecorded = matches!(receipt, Err(NoReceipt::Unrecorded));
        assert_eq!((receipt.is_ok(), is_unrecorded), (kind == EvidenceKind::Created, kind != EvidenceKind::Created));
    }
}

/// Checks a receipt as its reader does. Returns the evidence.
fn verified(trees: &Trees, receipt: v1::Receipt) -> Evidence {
    let json = serde_json::to_vec(&thesis_proto::json::Receipt::from(&receipt)).unwrap();
    let proven = Document::parse(&json).unwrap().verify(&[trees.verifier(&LIVE)], &[]).unwrap();
    let Subject::Recorded(evidence) = proven.subject else { panic!("a receipt proves evidence") };
    *evidence
}

#[tokio::test]
async fn a_statement_holds_up_to_its_checkpoint() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let trees = trees(Arc::clone(&backend), &clock, 1).await;
    follower(&trees).advance(append(&backend, 10).await).await.unwrap();
    let signed = trees.checkpoint(&LIVE).await.unwrap().unwrap();
    let (claim, verdict) = (json!({"handle": "@a"}), json!({"verified": false}));
    let statement = trees.state(&LIVE, &signed, &claim, &verdict).unwrap();
    let json = serde_json::to_vec(&thesis_proto::json::Statement::from(&statement)).unwrap();
    let proven = Document::parse(&json).unwrap().verify(&[trees.verifier(&LIVE)], &[]).unwrap();
    assert_eq!((proven.subject, proven.checkpoint.size), (Subject::Stated { claim, verdict }, 10));
    // Another key signs no statement about this checkpoint.
    let other = trees_with(Arc::clone(&backend), &clock, 2, 6).await;
    assert_eq!(other.state(&LIVE, &signed, &json!({}), &json!({})), None);
}

#[tokio::test]
async fn tiles_reach_as_far_as_the_signed_tree() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let trees = trees(Arc::clone(&backend), &clock, 1).await;
    follower(&trees).advance(append(&backend, 300).await).await.unwrap();
    let tile = |level, index| TileId { level, index };
    for (id, width) in [(tile(0, 0), 256), (tile(0, 1), 44), (tile(0, 1), 3), (tile(1, 0), 1)] {
        let hashes = trees.tile(&LIVE, id, width).await.unwrap().unwrap();
        assert_eq!(hashes.len(), width * HASH_BYTES, "{id}");
    }
    for (id, width) in [(tile(0, 1), 45), (tile(0, 2), 1), (tile(1, 0), 2), (tile(2, 0), 1), (tile(0, u64::MAX), 1)] {
        assert_eq!(trees.tile(&LIVE, id, width).await.unwrap(), None, "{id}");
    }
    assert_eq!(trees.tile(&Dataset::Sandbox, tile(0, 0), 1).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_core_with_a_key_signs_within_two_seconds() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let settings = CoreSettings { log_key: Some(secrecy::SecretBox::new(Box::new([5; 32]))), ..settings() };
    let core = Core::start(Arc::clone(&backend), settings, clock.clone(), ids(1)).await.unwrap();
    let trees = core.trees.as_ref().unwrap();
    for number in 1..4 {
        let created = core.datasets.create_thesis(&LIVE, new_thesis(&LIVE, number)).await.unwrap();
        let mut waited = 0;
        while signed_size(trees, &backend).await < Some(created.seq) {
            clock.advance(100);
            tokio::time::sleep(Duration::from_millis(100)).await;
            waited += 100;
            // A core that has just started first finds out whether there are others.
            assert!(waited <= if number == 1 { 10_000 } else { 2_000 }, "thesis {number} is not signed");
        }
        let Some(Kind::ThesisCreated(ThesisCreated { thesis, .. })) = created.entry.kind else { panic!("{created:?}") };
        let proven = verified(trees, trees.receipt_of(&LIVE, &thesis).await.unwrap());
        assert_eq!(proven.kind, EvidenceKind::Created);
        assert_eq!((proven.sequence, proven.thesis_id, proven.text), (created.seq, thesis.id, Some(thesis.text)));
    }
    assert!(trees.checkpoint(&Dataset::Sandbox).await.unwrap().unwrap().size > 0);
    core.close().await;
}
