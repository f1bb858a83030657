//! The newest events of one dataset, for all connections.

use std::collections::VecDeque;

use thesis_proto::{
    filter::{CompiledFilter, EventKeys, EventText},
    time::to_millis,
    v1,
};

/// Maximum events kept for a dataset.
pub(crate) const MAX_ENTRIES: usize = 4_096;
/// Maximum bytes kept for a dataset.
const MAX_BYTES: usize = 8 * 1024 * 1024;
/// Bytes that an event takes in addition to its body.
const ENTRY_OVERHEAD: usize = 256;

/// Renders the bytes of an event that every connection gets.
pub type Render = fn(&v1::Event) -> Vec<u8>;

/// An event, rendered once for all connections.
#[derive(Debug)]
pub struct Entry {
    /// Its position in the dataset's log.
    pub position: u64,
    /// The event's time, in unix milliseconds.
    pub(crate) created_at: i64,
    /// The properties that filters match.
    pub keys: EventKeys,
    /// The event as its hub renders it.
    pub body: Box<[u8]>,
}

impl Entry {
    /// Approximate bytes of memory.
    pub(crate) fn size(&self) -> usize {
        ENTRY_OVERHEAD + self.body.len() + self.keys.text.as_ref().map_or(0, EventText::size)
    }
}

/// The next events of a log after a position, and the position up to which they are complete.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) after: u64,
    pub(crate) entries: Vec<Entry>,
    pub(crate) position: u64,
}

impl Page {
    pub(crate) fn new(after: u64, events: Vec<v1::TailEvent>, position: u64, render: Render) -> Self {
        let entry = |event: v1::TailEvent| {
            let position = event.position;
            let event = event.event?;
            let created_at = event.created_at.as_ref().map_or(0, to_millis);
            Some(Entry { position, created_at, keys: EventKeys::from(&event), body: render(&event).into() })
        };
        let entries: Vec<Entry> = events.into_iter().filter_map(entry).collect();
        let last = entries.last().map_or(0, |entry| entry.position);
        Self { after, entries, position: position.max(last) }
    }
}

/// The requested position is older than the events that are kept.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PositionTooOld;

/// A page begins after the end of the ring, so the events between them would be missing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MissingEvents;

/// The newest events of a dataset: all of those after `floor` and up to `position`.
#[derive(Debug)]
pub(crate) struct Ring {
    floor: u64,
    position: u64,
    /// The ring has dropped the events up to here, because a text may have been erased from them.
    erased: u64,
    bytes: usize,
    max_entries: usize,
    entries: VecDeque<Entry>,
}

impl Ring {
    /// A ring that begins after a position and keeps at most `max_entries`.
    pub(crate) fn new(position: u64, max_entries: usize) -> Self {
        Self { floor: position, position, erased: 0, bytes: 0, max_entries, entries: VecDeque::new() }
    }

    /// The position up to which it has read the log.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The position up to which a text may have been erased since the ring began; 0 if none was.
    pub(crate) fn erased(&self) -> u64 {
        self.erased
    }

    /// Forgets the events up to a position that the ring has reached: a text may have been erased from them. Returns
    /// false if it has forgotten them before.
    pub(crate) fn erase(&mut self, upto: u64) -> bool {
        let upto = upto.min(self.position);
        if upto <= self.erased {
            return false;
        }
        self.erased = upto;
        while self.entries.front().is_some_and(|oldest| oldest.position <= upto)
            && let Some(oldest) = self.entries.pop_front()
        {
            self.bytes -= oldest.size();
        }
        self.floor = self.floor.max(upto);
        true
    }

    /// True if the ring has every event after a position.
    pub(crate) fn covers(&self, after: u64) -> bool {
        after >= self.floor
    }

    /// Approximate bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds the next events and shows each new one; known events are dropped. Refuses a page that begins after the end
    /// of the ring.
    pub(crate) fn push(&mut self, page: Page, mut show: impl FnMut(&Entry)) -> Result<(), MissingEvents> {
        if page.after > self.position {
            return Err(MissingEvents);
        }
        for entry in page.entries {
            if entry.position <= self.position {
                continue;
            }
            show(&entry);
            self.position = entry.position;
            self.bytes += entry.size();
            self.entries.push_back(entry);
        }
        self.position = self.position.max(page.position);
        self.trim(MAX_BYTES);
        Ok(())
    }

    /// Drops the oldest events, until the rest takes at most `max_bytes`.
    pub(crate) fn trim(&mut self, max_bytes: usize) {
        while self.entries.len() > self.max_entries || self.bytes > max_bytes {
            let Some(oldest) = self.entries.pop_front() else {
                break;
            };
            self.floor = oldest.position;
            self.bytes -= oldest.size();
        }
    }

    /// Counts the events after a position that pass a filter; none if it no longer has all of them.
    pub(crate) fn count(&self, after: u64, filter: &CompiledFilter) -> Option<u64> {
        let from = self.entries.partition_point(|entry| entry.position <= after);
        let passing = self.entries.range(from..).filter(|entry| filter.matches_keys(&entry.keys));
        self.covers(after).then(|| passing.count() as u64)
    }

    /// Shows the entries after a position, until `show` returns false or an entry is not due. Returns the position
    /// reached.
    pub(crate) fn read(
        &self,
        after: u64,
        mut is_due: impl FnMut(&Entry) -> bool,
        mut show: impl FnMut(&Entry) -> bool,
    ) -> Result<u64, PositionTooOld> {
        if !self.covers(after) {
            return Err(PositionTooOld);
        }
        let from = self.entries.partition_point(|entry| entry.position <= after);
        for entry in self.entries.range(from..) {
            if !is_due(entry) {
                return Ok(entry.position - 1);
            }
            if !show(entry) {
                return Ok(entry.position);
            }
        }
        Ok(after.max(self.position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(after: u64, positions: impl IntoIterator<Item = u64>, position: u64) -> Page {
        let events = positions
            .into_iter()
            .map(|position| v1::TailEvent { position, event: Some(v1::Event::default()) })
            .collect();
        Page::new(after, events, position, |_| Vec::new())
    }

    fn push(ring: &mut Ring, positions: impl IntoIterator<Item = u64>, position: u64) -> Vec<u64> {
        let mut new = Vec::new();
        ring.push(page(0, positions, position), |entry| new.push(entry.position)).unwrap();
        new
    }

    fn read(ring: &Ring, after: u64) -> Result<(Vec<u64>, u64), PositionTooOld> {
        let mut seen = Vec::new();
        let reached = ring.read(
            after,
            |_| true,
            |entry| {
                seen.push(entry.position);
                true
            },
        )?;
        Ok((seen, reached))
    }

    #[test]
    fn reads_from_any_position_it_covers() {
        let mut ring = Ring::new(10, 8);
        push(&mut ring, [11, 14], 15);
        assert_eq!(read(&ring, 10), Ok((vec![11, 14], 15)));
        assert_eq!(read(&ring, 12), Ok((vec![14], 15)));
        assert_eq!(read(&ring, 15), Ok((vec![], 15)));
        assert_eq!(read(&ring, 99), Ok((vec![], 99)));
        assert_eq!(read(&ring, 9), Err(PositionTooOld));
    }

    #[test]
    fn what_may_be_erased_is_forgotten() {
        let mut ring = Ring::new(10, 8);
        push(&mut ring, [11, 14, 16], 17);
        assert!(!ring.erase(0) && ring.erase(15) && !ring.erase(15) && !ring.erase(12));
        assert_eq!((read(&ring, 14), read(&ring, 15)), (Err(PositionTooOld), Ok((vec![16], 17))));
        assert_eq!((ring.erased(), ring.bytes()), (15, ENTRY_OVERHEAD));
        // It forgets no event that is still to come.
        assert!(ring.erase(99));
        push(&mut ring, [18], 18);
        assert_eq!((read(&ring, 16), read(&ring, 17)), (Err(PositionTooOld), Ok((vec![18], 18))));
    }

    #[test]
    fn what_comes_twice_is_kept_once() {
        let mut ring = Ring::new(0, 8);
        assert_eq!(push(&mut ring, [1, 2], 3), [1, 2]);
        assert_eq!(push(&mut ring, [2, 3, 4], 4), [4]);
        assert_eq!(read(&ring, 0), Ok((vec![1, 2, 4], 4)));
    }

    #[test]
    fn a_page_that_leaves_events_out_is_refused() {
        let mut ring = Ring::new(10, 8);
        assert_eq!(ring.push(page(11, [12], 12), |_| {}), Err(MissingEvents));
        assert_eq!(read(&ring, 10), Ok((vec![], 10)));
        assert_eq!(ring.push(page(10, [11], 11), |_| {}), Ok(()));
        assert_eq!(ring.push(page(9, [11, 12], 12), |_| {}), Ok(()));
        assert_eq!(read(&ring, 10), Ok((vec![11, 12], 12)));
    }

    #[test]
    fn only_events_that_pass_the_filter_count() {
        let mut ring = Ring::new(10, 8);
        push(&mut ring, [11, 400, 401], 5_000);
        let all = CompiledFilter::default();
        assert_eq!(
            [10, 11, 400, 5_000, 9].map(|after| ring.count(after, &all)),
            [Some(3), Some(2), Some(1), Some(0), None]
        );
        let theses = CompiledFilter::new(&[v1::EventType::ThesisCreated], None).unwrap();
        assert_eq!(ring.count(10, &theses), Some(0));
    }

    #[test]
    fn stopping_keeps_the_place() {
        let mut ring = Ring::new(0, 8);
        push(&mut ring, [1, 2, 3], 5);
        assert_eq!(ring.read(0, |_| true, |entry| entry.position < 2), Ok(2));
    }

    #[test]
    fn what_is_not_due_is_not_passed() {
        let mut ring = Ring::new(0, 8);
        push(&mut ring, [1, 3, 5], 7);
        let mut seen = Vec::new();
        let mut show = |entry: &Entry| {
            seen.push(entry.position);
            true
        };
        assert_eq!(ring.read(0, |entry| entry.position < 5, &mut show), Ok(4));
        assert_eq!(ring.read(4, |_| false, &mut show), Ok(4));
        assert_eq!(ring.read(4, |_| true, &mut show), Ok(7));
        assert_eq!(seen, [1, 3, 5]);
    }

    #[test]
    fn bytes_have_a_limit_too() {
        let mut ring = Ring::new(0, 8);
        let events = (1..=6).map(|position| v1::TailEvent { position, event: Some(v1::Event::default()) });
        ring.push(Page::new(0, events.collect(), 6, |_| vec![0; 10]), |_| {}).unwrap();
        assert_eq!(ring.bytes(), 6 * (ENTRY_OVERHEAD + 10));
        ring.trim(4 * (ENTRY_OVERHEAD + 10));
        assert_eq!(read(&ring, 1), Err(PositionTooOld));
        assert_eq!(read(&ring, 2), Ok((vec![3, 4, 5, 6], 6)));
        ring.trim(2 * (ENTRY_OVERHEAD + 10) - 1);
        assert_eq!(read(&ring, 4), Err(PositionTooOld));
        assert_eq!(read(&ring, 5), Ok((vec![6], 6)));
    }

    #[test]
    fn the_oldest_leave_first() {
        let mut ring = Ring::new(0, 8);
        push(&mut ring, 1..=13, 0);
        assert_eq!(read(&ring, 4), Err(PositionTooOld));
        assert_eq!(read(&ring, 5), Ok(((6..=13).collect(), 13)));
    }

    #[test]
    fn a_ring_keeps_at_most_eight_megabytes() {
        let mut ring = Ring::new(0, 100);
        let events = (1..=10).map(|position| v1::TailEvent { position, event: Some(v1::Event::default()) });
        ring.push(Page::new(0, events.collect(), 10, |_| vec![0; 1 << 20]), |_| {}).unwrap();
        assert_eq!(ring.bytes(), 7 * ((1 << 20) + ENTRY_OVERHEAD));
        assert_eq!(read(&ring, 3), Ok(((4..=10).collect(), 10)));
    }
}
