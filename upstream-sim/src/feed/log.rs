//! The feed's frames, rendered once, in the order of their positions. Each reader keeps only its position.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::dice::Dice;

/// Maximum frames that are kept.
const MAX_FRAMES: usize = 200_000;

/// A frame as it is sent.
#[derive(Debug)]
struct Frame {
    bytes: Bytes,
    published_at: i64,
}

/// The last frames.
#[derive(Debug)]
pub(crate) struct Log {
    frames: VecDeque<Frame>,
    /// Number of the first frame that is kept.
    first: u64,
    max: usize,
    /// Part of every position, so that positions of another start are unknown to this one.
    mark: u32,
    began_at: i64,
}

impl Log {
    pub(crate) fn new(seed: u64, now: i64) -> Self {
        let mark = (Dice::part(seed, now.unsigned_abs()).roll() >> 32) as u32;
        Self { frames: VecDeque::new(), first: 1, max: MAX_FRAMES, mark, began_at: now }
    }

    /// Number of the newest frame; one less than the first one's when there is none.
    pub(crate) fn newest(&self) -> u64 {
        self.first + self.frames.len() as u64 - 1
    }

    /// Publication time of the oldest kept frame.
    pub(crate) fn oldest_at(&self) -> i64 {
        self.frames.front().map_or(self.began_at, |frame| frame.published_at)
    }

    /// The text of a position.
    pub(crate) fn position(&self, number: u64) -> String {
        format!("p{number:012}-{:08x}", self.mark)
    }

    /// The number of a position from which a reader can go on without a loss.
    pub(crate) fn find(&self, position: &str) -> Option<u64> {
        let number = position.strip_prefix('p')?.split_once('-')?.0.parse::<u64>().ok()?;
        let is_kept = (self.first - 1..=self.newest()).contains(&number);
        (is_kept && self.position(number) == position).then_some(number)
    }

    /// Adds a frame.
    pub(crate) fn append(&mut self, event: &str, data: &[u8], now: i64) {
        if self.frames.len() == self.max {
            self.frames.pop_front();
            self.first += 1;
        }
        let position = self.position(self.newest() + 1);
        let bytes = render(&position, event, data);
        self.frames.push_back(Frame { bytes, published_at: now });
    }

    /// Frames after a number; `None` when some of them are no longer kept.
    pub(crate) fn behind(&self, number: u64) -> Option<impl Iterator<Item = &Bytes>> {
        let skipped = usize::try_from((number + 1).checked_sub(self.first)?).ok()?;
        Some(self.frames.range(skipped.min(self.frames.len())..).map(|frame| &frame.bytes))
    }
}

/// A frame as it is sent. Data of several lines takes as many fields.
pub(crate) fn render(position: &str, event: &str, data: &[u8]) -> Bytes {
    let head = format!("id: {position}\nevent: {event}\n");
    let mut frame = Vec::with_capacity(head.len() + data.len() + 16);
    frame.extend_from_slice(head.as_bytes());
    for line in data.split(|byte| matches!(byte, b'\n' | b'\r')) {
        frame.extend_from_slice(b"data: ");
        frame.extend_from_slice(line);
        frame.push(b'\n');
    }
    frame.push(b'\n');
    frame.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn behind(log: &Log, number: u64) -> Option<Vec<String>> {
        let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        log.behind(number).map(|frames| frames.map(text).collect())
    }

    #[test]
    fn a_position_names_its_place_in_this_log_only() {
        let mut log = Log::new(1, 1_000);
        let start = log.position(log.newest());
        assert_eq!(log.find(&start), Some(0));
        log.append("gap", b"{}", 1_001);
        let position = log.position(1);
        assert_eq!(log.find(&position), Some(1));
        assert_eq!(behind(&log, 0), Some(vec![format!("id: {position}\nevent: gap\ndata: {{}}\n\n")]));
        assert_eq!(behind(&log, 1), Some(vec![]));
        let (ahead, elsewhere) = (log.position(2), Log::new(2, 1_000).position(1));
        for strange in ["", "p", "p1", "p000000000001-", "1", ahead.as_str(), elsewhere.as_str()] {
            assert_eq!(log.find(strange), None, "{strange}");
        }
        assert_eq!(Log::new(1, 1_001).find(&position), None);
    }

    #[test]
    fn old_frames_and_their_positions_go() {
        let mut log = Log::new(1, 1_000);
        log.max = 3;
        let positions: Vec<String> = (0..=5).map(|number| log.position(number)).collect();
        for at in 1..=5 {
            log.append("gap", b"{}", 1_000 + at);
        }
        assert_eq!(positions.iter().filter_map(|position| log.find(position)).collect::<Vec<_>>(), [2, 3, 4, 5]);
        assert_eq!((log.newest(), log.oldest_at()), (5, 1_003));
        assert!(behind(&log, 1).is_none());
        assert_eq!(behind(&log, 2).unwrap().len(), 3);
    }

    #[test]
    fn data_of_several_lines_stays_one_frame() {
        assert_eq!(render("p", "x", b"a\n\nb"), Bytes::from_static(b"id: p\nevent: x\ndata: a\ndata: \ndata: b\n\n"));
    }
}
