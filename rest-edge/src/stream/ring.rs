//! The newest events of one dataset, for all connections.

use std::collections::VecDeque;

use thesis_proto::{json::event_json, names::event_type_name, v1};

/// Most events kept for a dataset.
pub(crate) const MAX_ENTRIES: usize = 4096;
/// Most rendered bytes kept for a dataset.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// An event, rendered once for all connections.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Its place in the dataset's log.
    pub(crate) position: u64,
    /// The event, for filters.
    pub(crate) event: v1::Event,
    /// Its frame after the id: `event:` and `data:` lines and the end.
    pub(crate) frame: Box<[u8]>,
}

/// Events of a dataset in order, and how far they reach.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The events.
    pub(crate) entries: VecDeque<Entry>,
    /// The position up to which there is no other event.
    pub(crate) position: u64,
}

impl From<v1::TailResponse> for Batch {
    fn from(response: v1::TailResponse) -> Self {
        let entries: VecDeque<_> = response.events.into_iter().filter_map(Entry::new).collect();
        let last = entries.back().map_or(0, |entry| entry.position);
        Self { entries, position: response.position.max(last) }
    }
}

impl Entry {
    fn new(told: v1::TailEvent) -> Option<Self> {
        let event = told.event?;
        Some(Self { position: told.position, frame: event_frame(&event), event })
    }
}

/// The lines of an event's frame that are the same for everybody.
pub(crate) fn event_frame(event: &v1::Event) -> Box<[u8]> {
    let json = event_json(event);
    let mut frame = Vec::with_capacity(json.len() + 48);
    frame.extend_from_slice(b"event: ");
    frame.extend_from_slice(event_type_name(event.r#type()).as_bytes());
    frame.extend_from_slice(b"\ndata: ");
    frame.extend_from_slice(&json);
    frame.extend_from_slice(b"\n\n");
    frame.into()
}

/// The requested position is older than the events that are kept.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Behind;

/// The newest events of a dataset: all of those after `floor` and up to `position`.
#[derive(Debug)]
pub(crate) struct Ring {
    floor: u64,
    position: u64,
    bytes: usize,
    max_entries: usize,
    entries: VecDeque<Entry>,
}

impl Ring {
    /// A ring that begins after a position and keeps at most `max_entries`.
    pub(crate) fn new(position: u64, max_entries: usize) -> Self {
        Self { floor: position, position, bytes: 0, max_entries, entries: VecDeque::new() }
    }

    /// The position up to which it has read the log.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Adds the next events; those that it has already are dropped.
    pub(crate) fn push(&mut self, batch: Batch) {
        for entry in batch.entries {
            if entry.position <= self.position {
                continue;
            }
            self.position = entry.position;
            self.bytes += entry.frame.len();
            self.entries.push_back(entry);
        }
        self.position = self.position.max(batch.position);
        while self.entries.len() > self.max_entries || self.bytes > MAX_BYTES {
            let Some(oldest) = self.entries.pop_front() else {
                break;
            };
            self.floor = oldest.position;
            self.bytes -= oldest.frame.len();
        }
    }

    /// Shows the entries after a position until `show` says to stop, and tells the position reached.
    pub(crate) fn read(&self, after: u64, mut show: impl FnMut(&Entry) -> bool) -> Result<u64, Behind> {
        if after < self.floor {
            return Err(Behind);
        }
        let from = self.entries.partition_point(|entry| entry.position <= after);
        for entry in self.entries.range(from..) {
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

    fn batch(positions: impl IntoIterator<Item = u64>, position: u64) -> Batch {
        let events = positions
            .into_iter()
            .map(|position| v1::TailEvent { position, event: Some(v1::Event::default()) })
            .collect();
        v1::TailResponse { events, position }.into()
    }

    fn read(ring: &Ring, after: u64) -> Result<(Vec<u64>, u64), Behind> {
        let mut seen = Vec::new();
        let reached = ring.read(after, |entry| {
            seen.push(entry.position);
            true
        })?;
        Ok((seen, reached))
    }

    #[test]
    fn reads_from_any_position_it_covers() {
        let mut ring = Ring::new(10, 8);
        ring.push(batch([11, 14], 15));
        assert_eq!(read(&ring, 10), Ok((vec![11, 14], 15)));
        assert_eq!(read(&ring, 12), Ok((vec![14], 15)));
        assert_eq!(read(&ring, 15), Ok((vec![], 15)));
        assert_eq!(read(&ring, 99), Ok((vec![], 99)));
        assert_eq!(read(&ring, 9), Err(Behind));
    }

    #[test]
    fn what_comes_twice_is_kept_once() {
        let mut ring = Ring::new(0, 8);
        ring.push(batch([1, 2], 3));
        ring.push(batch([2, 3, 4], 4));
        assert_eq!(read(&ring, 0), Ok((vec![1, 2, 4], 4)));
    }

    #[test]
    fn stopping_keeps_the_place() {
        let mut ring = Ring::new(0, 8);
        ring.push(batch([1, 2, 3], 5));
        assert_eq!(ring.read(0, |entry| entry.position < 2), Ok(2));
    }

    #[test]
    fn the_oldest_leave_first() {
        let mut ring = Ring::new(0, 8);
        ring.push(batch(1..=13, 0));
        assert_eq!(read(&ring, 4), Err(Behind));
        assert_eq!(read(&ring, 5), Ok(((6..=13).collect(), 13)));
    }
}
