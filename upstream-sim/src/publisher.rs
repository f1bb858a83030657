//! Publishes changes on the feed, with the faults of the feed's frames.

mod garbage;

use std::collections::VecDeque;

use serde_json::json;

use crate::{
    Faults,
    dice::Dice,
    feed::Log,
    response::bytes_of,
    time,
    world::{FeedEvent, FrameContent, World},
};

/// Maximum number of frames by which a frame is late.
const MAX_LATE: usize = 8;
/// Maximum time by which a frame is late when no other frame is published.
const MAX_LATE_MS: i64 = 1_000;
/// Number of theses that garbage may be about.
const MAX_RECENT: usize = 500;

/// A frame that is published late.
#[derive(Debug)]
struct DelayedFrame {
    content: FrameContent,
    /// Number of frames that are published before it.
    frames: usize,
    until: i64,
}

/// Publishes changes on the feed.
#[derive(Debug)]
pub(crate) struct Publisher {
    dice: Dice,
    delayed: Vec<DelayedFrame>,
    /// Theses whose creation was published.
    recent: VecDeque<usize>,
}

impl Publisher {
    pub(crate) fn new(seed: u64) -> Self {
        Self { dice: Dice::part(seed, 1), delayed: Vec::new(), recent: VecDeque::new() }
    }

    /// Publishes a change of the world.
    pub(crate) fn publish(&mut self, log: &mut Log, faults: &Faults, world: &World, event: FeedEvent, now: i64) {
        self.release(log, now, 1);
        if self.dice.chance(faults.omit_share) {
            return;
        }
        if self.dice.chance(faults.garbage_share) {
            let garbage = garbage::invent(&mut self.dice, world, &self.recent, now);
            log.append(garbage.event, &garbage.data, now);
        }
        let content = world.content(event);
        if self.dice.chance(faults.gap_share) {
            let since = json!({ "since": time::text(content.at - 1) });
            log.append("gap", &bytes_of(&since), now);
            return;
        }
        if self.dice.chance(faults.duplicate_share) {
            self.hold(content.clone(), now);
        }
        if self.dice.chance(faults.disorder_share) {
            self.hold(content, now);
            return;
        }
        log.append(content.event, &content.data, now);
        if let FeedEvent::Created(number) = event {
            self.recent.push_back(number);
            if self.recent.len() > MAX_RECENT {
                self.recent.pop_front();
            }
        }
    }

    /// True while a delayed frame waits.
    pub(crate) fn holds(&self) -> bool {
        !self.delayed.is_empty()
    }

    /// Publishes the delayed frames that are due after this number of further frames.
    pub(crate) fn release(&mut self, log: &mut Log, now: i64, frames: usize) {
        for delayed in &mut self.delayed {
            delayed.frames = delayed.frames.saturating_sub(frames);
        }
        for delayed in self.delayed.extract_if(.., |delayed| delayed.frames == 0 || delayed.until <= now) {
            log.append(delayed.content.event, &delayed.content.data, now);
        }
    }

    fn hold(&mut self, content: FrameContent, now: i64) {
        let frames = 1 + self.dice.below(MAX_LATE);
        self.delayed.push(DelayedFrame { content, frames, until: now + MAX_LATE_MS });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::InitialWorld;

    const NOW: i64 = 1_700_000_000_000;

    /// The feed's frames after some life with these faults, and the number of frames without any fault.
    fn frames(faults: Faults) -> (Vec<String>, usize) {
        let beginning = InitialWorld { seed: 3, profiles: 20, tokens: 10, theses: 5, history_ms: 1_000_000 };
        let mut world = World::new(beginning, NOW);
        let (mut publisher, mut log) = (Publisher::new(3), Log::new(3, NOW));
        let mut count = 0;
        for step in 0..300 {
            let now = NOW + step;
            world.live(now, &mut |world: &World, event: FeedEvent| {
                count += 1;
                publisher.publish(&mut log, &faults, world, event, now);
            });
        }
        publisher.release(&mut log, NOW + 100_000, 0);
        let text = |frame: &bytes::Bytes| String::from_utf8_lossy(frame).into_owned();
        (log.behind(0).unwrap().map(text).collect(), count)
    }

    fn data(frame: &str) -> &str {
        frame.split_once("data: ").unwrap().1.trim_end()
    }

    #[test]
    fn without_faults_every_change_is_published_once() {
        let (frames, count) = frames(Faults::default());
        assert_eq!(frames.len(), count);
        let ids: Vec<&str> = frames.iter().filter_map(|frame| frame.lines().next()).collect();
        assert!(ids.is_sorted() && frames.iter().all(|frame| data(frame).starts_with('{')), "{ids:?}");
    }

    #[test]
    fn disorder_and_duplicates_lose_nothing() {
        let (plain, count) = frames(Faults::default());
        let (mixed, _) = frames(Faults { disorder_share: 0.3, duplicate_share: 0.2, ..Faults::default() });
        assert!(mixed.len() > count);
        let all = |frames: &[String]| {
            frames.iter().map(|frame| data(frame).to_owned()).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(all(&plain), all(&mixed));
        let in_order = |frames: &[String]| frames.iter().map(|frame| data(frame).to_owned()).collect::<Vec<_>>();
        assert_ne!(in_order(&plain), in_order(&mixed));
    }

    #[test]
    fn a_gap_reports_lost_frames_and_nothing_reports_omitted_ones() {
        let (lost, count) = frames(Faults { gap_share: 1.0, ..Faults::default() });
        assert_eq!(lost.len(), count);
        assert!(lost.iter().all(|frame| frame.contains("event: gap\n")));
        let (omitted, _) = frames(Faults { omit_share: 1.0, ..Faults::default() });
        assert!(omitted.is_empty());
    }

    #[test]
    fn garbage_comes_beside_what_is_true() {
        let (plain, count) = frames(Faults::default());
        let (dirty, _) = frames(Faults { garbage_share: 1.0, ..Faults::default() });
        assert_eq!(dirty.len(), 2 * count);
        let texts: std::collections::HashSet<&str> = dirty.iter().map(|frame| data(frame)).collect();
        assert!(plain.iter().all(|frame| texts.contains(data(frame))));
    }
}
