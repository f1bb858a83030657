//! Whatever the pace of writer and readers, each reader gets each event of its filter once and in order.

use std::sync::atomic::Ordering;

use proptest::prelude::*;
use tokio_util::sync::CancellationToken;

use super::{Client, FakeCore, TOKENS, filter};

#[derive(Clone, Debug)]
enum Act {
    /// Entries are appended: events about a token, or none.
    Append(Vec<Option<usize>>),
    /// A reader starts this far behind the head, with a filter of some tokens.
    Start(u64, Vec<usize>),
    /// A reader, by number, takes this many events, if it has them.
    Read(usize, usize),
    /// All other tasks get to run.
    Pause(u8),
}

fn act() -> impl Strategy<Value = Act> {
    let token = || 0..TOKENS.len();
    prop_oneof![
        3 => prop::collection::vec(prop::option::of(token()), 1..12).prop_map(Act::Append),
        1 => (0_u64..30, prop::collection::vec(token(), 0..3)).prop_map(|(behind, tokens)| Act::Start(behind, tokens)),
        4 => (any::<usize>(), 1_usize..6).prop_map(|(reader, events)| Act::Read(reader, events)),
        3 => (1_u8..20).prop_map(Act::Pause),
    ]
}

async fn play(acts: Vec<Act>, page: u64, breaks_after: usize) {
    let core = FakeCore::new(&["sandbox"], page, breaks_after);
    let shutdown = CancellationToken::new();
    let hub = core.hub(shutdown.clone());
    let log = core.log("sandbox");
    let mut readers: Vec<(Client, u64, Vec<&str>)> = Vec::new();
    for act in acts {
        match act {
            Act::Append(entries) => {
                log.append(&entries.into_iter().map(|token| token.map(|token| TOKENS[token])).collect::<Vec<_>>());
            }
            Act::Start(behind, tokens) => {
                let tokens: Vec<&str> = tokens.into_iter().map(|token| TOKENS[token]).collect();
                let after = log.head().saturating_sub(behind);
                readers.push((Client::open(&hub, Some(after), &tokens).await, after, tokens));
            }
            Act::Read(reader, events) if !readers.is_empty() => {
                let reader = reader % readers.len();
                readers[reader].0.read(events);
            }
            Act::Read(..) => {}
            Act::Pause(turns) => {
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
            }
        }
    }
    for (reader, after, tokens) in &mut readers {
        let expected = log.after(*after, &filter(tokens).0);
        // The feed itself may be behind its log.
        while reader.got.len() < expected.len() {
            reader.drain().await;
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        assert_eq!(reader.got, expected, "started after {after} for {tokens:?}");
    }
    shutdown.cancel();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn each_event_once_and_in_order(
        acts in prop::collection::vec(act(), 1..60),
        page in 1_u64..7,
        breaks_after in 1_usize..9,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(play(acts, page, breaks_after));
    }
}

#[tokio::test(start_paused = true)]
async fn one_call_serves_all_and_pages_are_read_once() {
    let core = FakeCore::new(&["sandbox"], 4, 1_000);
    let hub = core.hub(CancellationToken::new());
    let log = core.log("sandbox");
    log.append(&[Some("$A"); 20]);
    let mut readers = Vec::new();
    for _ in 0..5 {
        readers.push(Client::open(&hub, Some(0), &[]).await);
    }
    for reader in &mut readers {
        reader.drain().await;
        assert_eq!(reader.got, (1..=20).collect::<Vec<_>>());
    }
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(core.tails.load(Ordering::Relaxed), 1);
    assert_eq!(core.reads.load(Ordering::Relaxed), 5, "five pages of four entries");
}

#[tokio::test(start_paused = true)]
async fn what_does_not_match_wakes_nobody_and_moves_the_cursor() {
    let core = FakeCore::new(&["sandbox"], 4, 1_000);
    let hub = core.hub(CancellationToken::new());
    let log = core.log("sandbox");
    let mut reader = Client::open(&hub, None, &["$A"]).await;
    reader.drain().await;
    // More than the ring keeps.
    log.append(&[Some("$B"); 40]);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert!(futures::poll!(Box::pin(reader.more())).is_pending());
    reader.drain().await;
    let cursor = reader.subscription.cursor();
    log.append(&[Some("$A")]);
    reader.more().await.unwrap();
    reader.drain().await;
    assert_eq!(reader.got, [41]);
    assert_ne!(reader.subscription.cursor(), cursor);
    assert_eq!(core.reads.load(Ordering::Relaxed), 0, "it was never behind");
}
