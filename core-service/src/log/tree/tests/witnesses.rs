//! Cosignatures of witnesses, over real connections.

use axum::{Router, extract::State, http::StatusCode, routing::post};
use parking_lot::Mutex;
use thesis_receipts::{AddCheckpoint, WitnessRefusal};
use tokio::{net::TcpListener, time::Instant};

use super::*;
use crate::log::tree::{cosign::CosigningRounds, witness::WitnessSettings};

const NAME: &str = "witness.example/ann";
const NOW: u64 = 1_790_000_000;

/// A witness of one log.
struct TestWitness {
    name: &'static str,
    log: VerifierKey,
    /// It answers while nobody else holds this.
    turn: tokio::sync::Mutex<()>,
    /// The last checkpoint that it cosigned.
    last: Mutex<Option<Checkpoint>>,
    requests: Mutex<usize>,
}

fn witness_key() -> SigningKey {
    SigningKey::from_seed(&[9; 32])
}

fn public_key() -> VerifierKey {
    witness_key().verifier(NAME, KeyKind::Witness)
}

impl TestWitness {
    fn answer(&self, body: &str) -> Result<String, WitnessRefusal> {
        *self.requests.lock() += 1;
        let request = AddCheckpoint::parse(body).ok_or(WitnessRefusal::Form)?;
        let (checkpoint, text) = request.signed_checkpoint(std::slice::from_ref(&self.log))?;
        let mut last = self.last.lock();
        request.check_continues(&checkpoint, last.as_ref())?;
        let cosignature = witness_key().cosign(self.name, text, NOW);
        *last = Some(checkpoint);
        // The first line has a signature by a key that the log does not know.
        Ok(format!("\u{2014} other.example AAAAAAAAAAAAAAAA\n{cosignature}"))
    }
}

async fn add_checkpoint(State(witness): State<Arc<TestWitness>>, body: String) -> (StatusCode, String) {
    let _turn = witness.turn.lock().await;
    match witness.answer(&body) {
        Ok(lines) => (StatusCode::OK, lines),
        Err(WitnessRefusal::OtherSize(size) | WitnessRefusal::OtherRoot(size)) => {
            (StatusCode::CONFLICT, format!("{size}\n"))
        }
        Err(error) => (StatusCode::UNPROCESSABLE_ENTITY, error.to_string()),
    }
}

/// Starts a witness of the log.
async fn start(trees: &Trees, name: &'static str) -> (Arc<TestWitness>, WitnessSettings) {
    let (log, turn) = (trees.verifier(&LIVE), tokio::sync::Mutex::default());
    let witness = Arc::new(TestWitness { name, log, turn, last: Mutex::default(), requests: Mutex::default() });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let routes = Router::new().route("/add-checkpoint", post(add_checkpoint)).with_state(Arc::clone(&witness));
    tokio::spawn(async move { drop(axum::serve(listener, routes).await) });
    (witness, WitnessSettings { key: witness_key().verifier(name, KeyKind::Witness), url })
}

/// The settings of a witness that does not listen.
async fn silent() -> WitnessSettings {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    drop(listener);
    WitnessSettings { key: SigningKey::from_seed(&[8; 32]).verifier("silent.example", KeyKind::Witness), url }
}

/// The settings of a witness that never answers while the listener lives: connections wait in its queue.
async fn hanging() -> (TcpListener, WitnessSettings) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let key = SigningKey::from_seed(&[7; 32]).verifier("hanging.example", KeyKind::Witness);
    (listener, WitnessSettings { key, url })
}

/// Rounds whose requests end with their response, however slow the machine is.
fn cosigning_rounds(trees: &Arc<Trees>, witnesses: Vec<WitnessSettings>) -> CosigningRounds {
    CosigningRounds::new(Arc::clone(trees), LIVE, witnesses, Duration::from_secs(60))
}

/// The end of a round that ends before, with the last request.
fn later() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// The end of a round that an answer may miss.
fn soon() -> Instant {
    Instant::now() + Duration::from_millis(50)
}

/// The size of a checkpoint, and how many cosignatures of the witness it has.
fn shown(tree: Option<&SignedTree>) -> (u64, usize) {
    let tree = tree.unwrap();
    let note = Note::parse(&tree.note).unwrap();
    assert_eq!(note.is_signed_by(&tree.key.parse().unwrap()), Ok(true));
    let lines = tree.note.lines().filter(|line| line.starts_with(&format!("\u{2014} {NAME} "))).count();
    assert_eq!(note.cosigned_at(&public_key()), Ok((lines > 0).then_some(NOW)));
    (tree.size, lines)
}

/// The size of the newest cosigned checkpoint, and its number of cosignatures.
async fn cosigned(trees: &Trees) -> (u64, usize) {
    let tree = trees.cosigned(&LIVE).await.unwrap().unwrap();
    // The log's own signature is a line too.
    (tree.size, tree.note.lines().filter(|line| line.starts_with('\u{2014}')).count() - 1)
}

async fn newest(trees: &Trees) -> (u64, usize) {
    shown(trees.checkpoint(&LIVE).await.unwrap().as_ref())
}

#[tokio::test]
async fn cosignatures_are_added_and_a_silent_witness_delays_nothing() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let trees = trees(Arc::clone(&backend), &clock, 1).await;
    let mut follower = follower(&trees);
    let (witness, settings) = start(&trees, NAME).await;
    let mut rounds = cosigning_rounds(&trees, vec![silent().await, settings.clone()]);
    rounds.run(later()).await.unwrap();
    for (count, head) in [(3, 3), (300, 303)] {
        append(&backend, count).await;
        follower.advance(head).await.unwrap();
        assert_eq!(newest(&trees).await, (head, 0), "a checkpoint is shown before it is cosigned");
        rounds.run(later()).await.unwrap();
        assert_eq!(newest(&trees).await, (head, 1));
    }
    let requests = *witness.requests.lock();
    rounds.run(later()).await.unwrap();
    assert_eq!(*witness.requests.lock(), requests, "it gets one request for a checkpoint");

    // A receipt has the cosigned checkpoint if that covers its entry, else the newest one.
    append(&backend, 1).await;
    follower.advance(304).await.unwrap();
    for (seq, expected) in [(303, (303, 1)), (304, (304, 0))] {
        assert_eq!(shown(trees.checkpoint_over(&LIVE, seq).await.unwrap().as_ref()), expected);
    }

    // Another core does not know the last checkpoint that the witness cosigned. Its new cosignature replaces the old
    // one.
    for _ in 0..2 {
        let mut other = cosigning_rounds(&trees, vec![settings.clone()]);
        other.run(later()).await.unwrap();
        assert_eq!(newest(&trees).await, (304, 1));
    }
}

#[tokio::test]
async fn a_hanging_witness_loses_only_its_own_cosignature() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let trees = trees(Arc::clone(&backend), &clock, 1).await;
    let mut follower = follower(&trees);
    let (listener, hanging) = hanging().await;
    let (_, settings) = start(&trees, NAME).await;
    let mut rounds = cosigning_rounds(&trees, vec![hanging, settings]);
    // The request to the hanging witness is open in both rounds.
    for (count, head) in [(3, 3), (300, 303)] {
        append(&backend, count).await;
        follower.advance(head).await.unwrap();
        let cosigned = async {
            while newest(&trees).await != (head, 1) {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            ended = rounds.run(later()) => panic!("the round waited for the hanging witness: {ended:?}"),
            () = cosigned => {}
        }
    }
    drop(listener);
}

#[tokio::test]
async fn a_slow_witness_cosigns_a_growing_log_and_no_cosignature_is_missing_before() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let trees = trees(Arc::clone(&backend), &clock, 1).await;
    let mut follower = follower(&trees);
    let (fast, fast_settings) = start(&trees, NAME).await;
    let (slow, slow_settings) = start(&trees, "slow.example").await;
    let mut rounds = cosigning_rounds(&trees, vec![fast_settings, slow_settings]);
    append(&backend, 3).await;
    follower.advance(3).await.unwrap();
    rounds.run(later()).await.unwrap();
    assert_eq!(cosigned(&trees).await, (3, 2));

    let turn = slow.turn.lock().await;
    let requests = *fast.requests.lock();
    append(&backend, 7).await;
    follower.advance(10).await.unwrap();
    while *fast.requests.lock() == requests {
        rounds.run(soon()).await.unwrap();
    }
    append(&backend, 10).await;
    follower.advance(20).await.unwrap();
    // The first of these rounds gets the answer of the fast witness.
    for _ in 0..3 {
        rounds.run(soon()).await.unwrap();
        assert_eq!(cosigned(&trees).await, (3, 2));
    }
    drop(turn);
    for head in [10, 20] {
        rounds.run(later()).await.unwrap();
        assert_eq!(cosigned(&trees).await, (head, 2));
    }
}

#[tokio::test]
async fn a_witness_that_saw_another_history_cosigns_nothing() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let trees = trees(Arc::clone(&backend), &clock, 1).await;
    let (witness, settings) = start(&trees, NAME).await;
    append(&backend, 10).await;
    follower(&trees).advance(10).await.unwrap();
    for (size, root) in [(5, [1; 32]), (10, [1; 32]), (11, [1; 32])] {
        *witness.last.lock() = Some(Checkpoint { origin: trees.log_name(&LIVE), size, root });
        let mut rounds = cosigning_rounds(&trees, vec![settings.clone()]);
        rounds.run(later()).await.unwrap();
        assert_eq!(newest(&trees).await, (10, 0), "{size}");
    }
}
