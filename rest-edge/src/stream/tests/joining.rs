//! Whatever the pace of writer and readers, each reader gets each event once and in order.

use std::{future::poll_fn, sync::Arc};

use proptest::prelude::*;
use tokio_util::sync::CancellationToken;

use super::Log;
use crate::{
    stream::{
        feed::{Feeds, Wanted},
        follower::Follower,
    },
    tests::fake::FakeCore,
};

#[derive(Clone, Debug)]
enum Act {
    /// Entries are appended; which of them are events.
    Append(Vec<bool>),
    /// A reader starts this far behind the head.
    Start(u64),
    /// A reader, by number, takes this many events, if it has them.
    Read(usize, usize),
    /// All other tasks get to run.
    Pause(u8),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => prop::collection::vec(any::<bool>(), 1..12).prop_map(Act::Append),
        1 => (0_u64..30).prop_map(Act::Start),
        4 => (any::<usize>(), 1_usize..6).prop_map(|(reader, events)| Act::Read(reader, events)),
        3 => (1_u8..20).prop_map(Act::Pause),
    ]
}

fn follow(feeds: &Arc<Feeds>, start: u64, live: u64) -> Follower {
    Follower::new(feeds, "sandbox", start, live, &Arc::new(Wanted::default()))
}

struct Reader {
    follower: Follower,
    start: u64,
    got: Vec<u64>,
}

impl Reader {
    fn new(feeds: &Arc<Feeds>, start: u64, live: u64) -> Self {
        Self { follower: follow(feeds, start, live), start, got: Vec::new() }
    }

    fn read(&mut self, events: usize) {
        let enough = self.got.len() + events;
        let got = &mut self.got;
        self.follower.read(|entry| {
            got.push(entry.position);
            got.len() < enough
        });
    }

    /// Reads all there is, and follows again when the reading breaks, as a client does.
    async fn drain(&mut self, feeds: &Arc<Feeds>, head: u64) {
        loop {
            self.read(usize::MAX / 2);
            if self.follower.position() >= head {
                return;
            }
            if poll_fn(|context| self.follower.poll_more(context)).await.is_err() {
                self.follower = follow(feeds, self.follower.position(), head);
            }
        }
    }
}

async fn play(acts: Vec<Act>, batch: u64, breaks_after: usize) {
    let log = Log::new();
    let source = Arc::clone(&log);
    let core = FakeCore::new(move |_, message| source.tail(message, batch, breaks_after));
    let shutdown = CancellationToken::new();
    let feeds = Feeds::new(core.services().streams, shutdown.clone(), 8);
    let mut readers: Vec<Reader> = Vec::new();
    for act in acts {
        match act {
            Act::Append(entries) => log.append(&entries),
            Act::Start(behind) => readers.push(Reader::new(&feeds, log.head().saturating_sub(behind), log.head())),
            Act::Read(reader, events) if !readers.is_empty() => {
                let reader = reader % readers.len();
                readers[reader].read(events);
            }
            Act::Read(..) => {}
            Act::Pause(turns) => {
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
            }
        }
    }
    for reader in &mut readers {
        reader.drain(&feeds, log.head()).await;
        assert_eq!(reader.got, log.events_after(reader.start), "started after {}", reader.start);
    }
    shutdown.cancel();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn each_event_once_and_in_order(
        acts in prop::collection::vec(act(), 1..60),
        batch in 1_u64..7,
        breaks_after in 1_usize..9,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(play(acts, batch, breaks_after));
    }
}

#[tokio::test(start_paused = true)]
async fn one_call_serves_all_and_ends_when_nobody_is_left() {
    let log = Log::new();
    let source = Arc::clone(&log);
    let core = FakeCore::new(move |_, message| source.tail(message, 4, 1000));
    let feeds = Feeds::new(core.services().streams, CancellationToken::new(), 8);
    let mut readers: Vec<_> = (0..5).map(|_| Reader::new(&feeds, 0, 0)).collect();
    log.append(&[true; 6]);
    for reader in &mut readers {
        reader.drain(&feeds, 6).await;
        assert_eq!(reader.got, [1, 2, 3, 4, 5, 6]);
    }
    assert_eq!(core.seen.lock().len(), 1);
    let feed = Arc::downgrade(&readers[0].follower.feed);
    drop(readers);
    tokio::time::sleep(std::time::Duration::from_secs(29)).await;
    assert!(feed.upgrade().is_some(), "a feed lingers for those who come back");
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert!(feed.upgrade().is_none());
}
