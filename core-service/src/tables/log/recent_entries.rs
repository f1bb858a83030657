//! The newest entries of logs in memory. Search, streams, fan-out and cached rows read each entry soon after its
//! append, so mostly only the first of them reads it from the store, and none where this process has appended it.
//! Readers that are further behind read the store.
//!
//! Only an erasure changes entries, so otherwise it does not matter which core appended them. One entry begins an
//! erasure, and another one ends it. When a core reads one of them, or the checkpoint of the log's rows, which names
//! the newest one (`checkpoints.rs`), it drops all earlier entries from memory and notes the sequence number. Other
//! caches compare that number with the one that they noted: data from earlier entries may have changed.
//!
//! A log also remembers how far this process has begun its fan-out. Deliveries of own entries beyond that are new, so
//! the fan-out creates them without a read.

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    sync::Arc,
};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use quick_cache::sync::Cache;

use crate::domain::entry::marks_erasure;

/// Maximum number of logs whose newest entries are in memory.
const MAX_LOGS: usize = 32;
/// Maximum size in bytes of one log's entries in memory. A tree reads those of a whole second, a few MiB in a busy one.
const MAX_BYTES: usize = 4 << 20;

fn size(entry: &Bytes) -> usize {
    size_of::<Bytes>() + entry.len()
}

/// The newest entries of one log, without a gap.
#[derive(Default)]
struct RecentLog {
    /// The sequence number before the first of these entries.
    before: u64,
    entries: VecDeque<Bytes>,
    bytes: usize,
    /// This process has appended all entries after this sequence number.
    own_after: u64,
    /// This process has begun the fan-out of entries up to here. An own append does not lower it: while the append was
    /// in doubt, another core may have notified the fan-out of its entries.
    begun: u64,
}

impl RecentLog {
    fn end(&self) -> u64 {
        self.before + self.entries.len() as u64
    }

    /// Adds entries that follow `after`. If others are missing before them, only the new ones stay. `are_own` is true
    /// if this process has appended them. An own append shows the end of the log: entries in memory beyond it are of an
    /// append that the store has lost. Entries before `erasure` stay out of memory.
    fn add<'a>(&mut self, after: u64, entries: impl Iterator<Item = &'a Bytes>, are_own: bool, erasure: u64) {
        if after > self.end() || are_own && after < self.before {
            *self = Self { before: after, own_after: after, begun: self.begun, ..Self::default() };
        }
        while are_own
            && self.end() > after
            && let Some(lost) = self.entries.pop_back()
        {
            self.bytes -= size(&lost);
            self.own_after = self.own_after.min(after);
        }
        let known = self.end();
        if erasure > known {
            self.before = erasure - 1;
            self.entries.clear();
            self.bytes = 0;
        }
        for entry in entries.skip(usize::try_from(self.end() - after).unwrap_or(usize::MAX)) {
            self.bytes += size(entry);
            self.entries.push_back(entry.clone());
        }
        if !are_own && self.end() > known {
            self.own_after = self.end();
        }
        while self.bytes > MAX_BYTES
            && let Some(oldest) = self.entries.pop_front()
        {
            self.bytes -= size(&oldest);
            self.before += 1;
        }
    }

    /// Drops the entries before a sequence number.
    fn drop_before(&mut self, seq: u64) {
        while self.before + 1 < seq
            && let Some(oldest) = self.entries.pop_front()
        {
            self.bytes -= size(&oldest);
            self.before += 1;
        }
    }

    /// The entries after a sequence number, if it is not before the first one.
    fn after(&self, after: u64) -> impl Iterator<Item = &Bytes> {
        let skipped = after.checked_sub(self.before).and_then(|skipped| usize::try_from(skipped).ok());
        self.entries.iter().skip(skipped.unwrap_or(usize::MAX))
    }
}

/// The newest entries of the logs that this process uses.
pub(super) struct RecentEntries {
    logs: Cache<String, Arc<Mutex<RecentLog>>>,
    /// By log, the newest known entry that begins or ends an erasure. It changes under the lock of its log, after the
    /// entries before it have left memory. So a reader of this number finds no earlier entry, and nobody adds one.
    erasures: RwLock<HashMap<String, u64>>,
}

impl Default for RecentEntries {
    fn default() -> Self {
        Self { logs: Cache::new(MAX_LOGS), erasures: RwLock::default() }
    }
}

impl RecentEntries {
    fn log(&self, log: &str) -> Arc<Mutex<RecentLog>> {
        let Ok(recent) = self.logs.get_or_insert_with(log, || Ok::<_, Infallible>(Arc::default()));
        recent
    }

    /// Adds entries that this process has appended after `head`.
    pub(super) fn add_appended(&self, log: &str, head: u64, entries: &[Bytes]) {
        self.add(log, head, entries.iter(), true);
    }

    /// Adds entries that were read after `after`.
    pub(super) fn add_read(&self, log: &str, after: u64, entries: &[(u64, Bytes)]) {
        if !entries.is_empty() {
            self.add(log, after, entries.iter().map(|(_, entry)| entry), false);
        }
    }

    fn add<'a>(
        &self,
        log: &str,
        after: u64,
        entries: impl DoubleEndedIterator<Item = &'a Bytes> + ExactSizeIterator + Clone,
        are_own: bool,
    ) {
        // This tests all entries, also known ones and those without room in memory: other caches may be older.
        let found = entries.clone().rposition(|entry| marks_erasure(entry)).map_or(0, |index| after + 1 + index as u64);
        let last = after + entries.len() as u64;
        let recent = self.log(log);
        let mut recent = recent.lock();
        // An erasure may have become known after these entries were read.
        let erasure = found.max(self.newest_erasure(log));
        recent.add(after, entries, are_own, erasure.min(last + 1));
        self.set_erasure(log, found);
    }

    /// Notes an entry that begins or ends an erasure, without its content. Drops the entries before it.
    pub(super) fn note_erasure(&self, log: &str, seq: u64) {
        if seq <= self.newest_erasure(log) {
            return;
        }
        let recent = self.log(log);
        let mut recent = recent.lock();
        recent.drop_before(seq);
        self.set_erasure(log, seq);
    }

    /// Call it under the lock of the log.
    fn set_erasure(&self, log: &str, seq: u64) {
        if seq > self.newest_erasure(log) {
            self.erasures.write().insert(log.to_owned(), seq);
        }
    }

    /// The newest known entry that begins or ends an erasure; 0 if there is none.
    pub(super) fn newest_erasure(&self, log: &str) -> u64 {
        self.erasures.read().get(log).copied().unwrap_or_default()
    }

    /// The first entries after `after`, up to `upto` and `limit`, as far as they are in memory.
    pub(super) fn read(&self, log: &str, after: u64, upto: u64, limit: usize) -> Vec<(u64, Bytes)> {
        let Some(recent) = self.logs.get(log) else { return Vec::new() };
        let wanted = usize::try_from(upto.saturating_sub(after)).unwrap_or(usize::MAX).min(limit);
        let recent = recent.lock();
        (after + 1..).zip(recent.after(after).take(wanted).cloned()).collect()
    }

    /// Replaces an entry, if it is in memory.
    pub(super) fn replace(&self, log: &str, seq: u64, entry: &Bytes) {
        let Some(recent) = self.logs.get(log) else { return };
        let mut recent = recent.lock();
        let RecentLog { before, entries, bytes, .. } = &mut *recent;
        let place = seq.checked_sub(*before + 1).and_then(|place| usize::try_from(place).ok());
        if let Some(known) = place.and_then(|place| entries.get_mut(place)) {
            *bytes = *bytes - size(known) + size(entry);
            known.clone_from(entry);
        }
    }

    pub(super) fn get(&self, log: &str, seq: u64) -> Option<Bytes> {
        self.read(log, seq.checked_sub(1)?, seq, 1).pop().map(|(_, entry)| entry)
    }

    /// Returns whether this process has surely appended all entries after `after` up to `upto`.
    pub(super) fn has_appended(&self, log: &str, after: u64, upto: u64) -> bool {
        self.logs.get(log).is_some_and(|recent| {
            let recent = recent.lock();
            recent.own_after <= after && upto <= recent.end()
        })
    }

    /// Begins the fan-out of the entries after `after` up to `upto`. Returns whether none of these entries can have a
    /// delivery that this process began before.
    pub(super) fn begin_fan_out(&self, log: &str, after: u64, upto: u64) -> bool {
        self.logs.get(log).is_some_and(|recent| {
            let mut recent = recent.lock();
            let are_new = recent.own_after.max(recent.begun) <= after && upto <= recent.end();
            recent.begun = recent.begun.max(upto);
            are_new
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        entry::{Entry, Kind, ThesisChanged},
        row::Thesis,
    };

    fn numbered(numbers: impl IntoIterator<Item = u64>) -> Vec<(u64, Bytes)> {
        numbers.into_iter().map(|number| (number, Bytes::from(number.to_string()))).collect()
    }

    fn bodies(numbers: impl IntoIterator<Item = u64>) -> Vec<Bytes> {
        numbered(numbers).into_iter().map(|(_, body)| body).collect()
    }

    #[test]
    fn entries_join_in_any_order_and_a_gap_leaves_the_newer_ones() {
        let recent = RecentEntries::default();
        recent.add_appended("live", 0, &bodies(1..=3));
        recent.add_read("live", 1, &numbered(2..=5));
        recent.add_appended("live", 5, &bodies(6..=7));
        // An earlier part that is read late changes nothing.
        recent.add_read("live", 0, &numbered(1..=2));
        assert_eq!(recent.read("live", 0, 7, 100), numbered(1..=7));
        assert_eq!(recent.read("live", 2, 6, 3), numbered(3..=5));
        assert_eq!(recent.read("live", 5, 100, 100), numbered(6..=7));
        assert_eq!((recent.get("live", 7), recent.get("live", 8)), (Some(Bytes::from("7")), None));
        assert!(recent.read("live", 7, 7, 100).is_empty() && recent.read("sandbox", 0, 7, 100).is_empty());
        recent.add_read("live", 9, &numbered(10..=11));
        assert_eq!(recent.read("live", 9, 11, 100), numbered(10..=11));
        assert!(recent.read("live", 8, 11, 100).is_empty() && recent.get("live", 7).is_none());
    }

    #[test]
    fn only_entries_after_the_last_foreign_one_are_surely_own() {
        let recent = RecentEntries::default();
        assert!(!recent.has_appended("live", 0, 0));
        recent.add_appended("live", 4, &bodies(5..=6));
        assert!(recent.has_appended("live", 4, 6) && recent.has_appended("live", 5, 6));
        assert!(!recent.has_appended("live", 3, 6) && !recent.has_appended("live", 4, 7));
        recent.add_read("live", 6, &numbered(7..=7));
        assert!(!recent.has_appended("live", 5, 7));
        recent.add_appended("live", 7, &bodies(8..=8));
        assert!(recent.has_appended("live", 7, 8) && !recent.has_appended("live", 6, 8));
        recent.add_read("live", 6, &numbered(7..=8));
        assert!(recent.has_appended("live", 7, 8), "a read of known entries changes nothing");
    }

    #[test]
    fn own_entries_are_new_until_their_fan_out_begins() {
        let recent = RecentEntries::default();
        assert!(!recent.begin_fan_out("live", 0, 1));
        recent.add_appended("live", 4, &bodies(5..=8));
        assert!(recent.begin_fan_out("live", 4, 6));
        assert!(recent.has_appended("live", 4, 8) && !recent.begin_fan_out("live", 5, 6));
        assert!(!recent.begin_fan_out("live", 6, 9), "the last one is not known here");
        recent.add_appended("live", 8, &bodies(9..=10));
        assert!(!recent.begin_fan_out("live", 8, 9) && recent.begin_fan_out("live", 9, 10));
    }

    #[test]
    fn entries_whose_fan_out_has_begun_are_not_new_after_their_append_is_repeated() {
        let recent = RecentEntries::default();
        // Another core projects the entries of an append in doubt, so the fan-out here reads them as foreign ones.
        recent.add_read("live", 4, &numbered(5..=6));
        assert!(!recent.begin_fan_out("live", 4, 6));
        recent.add_appended("live", 4, &bodies(5..=6));
        assert!(recent.has_appended("live", 4, 6) && !recent.begin_fan_out("live", 4, 6));
        // These replace all entries in memory.
        recent.add_appended("live", 2, &bodies(3..=6));
        assert!(recent.has_appended("live", 2, 6) && !recent.begin_fan_out("live", 4, 6));
        recent.add_appended("live", 6, &bodies(7..=7));
        assert!(recent.begin_fan_out("live", 6, 7));
    }

    #[test]
    fn an_own_append_replaces_entries_that_the_store_has_lost() {
        let recent = RecentEntries::default();
        recent.add_appended("live", 0, &bodies(1..=4));
        let again = [Bytes::from("another")];
        recent.add_appended("live", 2, &again);
        assert_eq!((recent.get("live", 2), recent.get("live", 3)), (Some(Bytes::from("2")), Some(again[0].clone())));
        assert!(recent.get("live", 4).is_none() && recent.has_appended("live", 0, 3));
        recent.add_read("sandbox", 4, &numbered(5..=6));
        recent.add_appended("sandbox", 2, &again);
        assert_eq!(recent.read("sandbox", 2, 6, 100), [(3, again[0].clone())]);
        assert!(recent.has_appended("sandbox", 2, 3) && !recent.has_appended("sandbox", 2, 4));
    }

    #[test]
    fn an_erasure_takes_earlier_entries_out_of_memory() {
        let thesis = Thesis { id: "th_1".to_owned(), deleted_at: Some(1), ..Thesis::default() };
        let erasure = Entry { kind: Some(Kind::Engagement(ThesisChanged { thesis })), ..Entry::filler(4, 1) };
        let erasure = Bytes::from(erasure.stored(4));
        for is_own in [true, false] {
            let recent = RecentEntries::default();
            recent.add_appended("live", 0, &bodies(1..=3));
            let added = [erasure.clone(), Bytes::from("5")];
            assert_eq!(recent.newest_erasure("live"), 0);
            if is_own {
                recent.add_appended("live", 3, &added);
            } else {
                recent.add_read("live", 3, &[(4, added[0].clone()), (5, added[1].clone())]);
            }
            // Entries from before the erasure are not added again by a late read.
            recent.add_read("live", 0, &numbered(1..=3));
            assert_eq!((recent.get("live", 3), recent.get("live", 4)), (None, Some(erasure.clone())));
            assert_eq!(recent.read("live", 4, 5, 100), numbered(5..=5));
            assert_eq!(recent.has_appended("live", 0, 5), is_own);
            assert_eq!((recent.newest_erasure("live"), recent.newest_erasure("sandbox")), (4, 0));
        }
    }

    #[test]
    fn an_erasure_before_the_entries_in_memory_is_known() {
        let thesis = Thesis { id: "th_1".to_owned(), deleted_at: Some(1), ..Thesis::default() };
        let erasure = Entry { kind: Some(Kind::Engagement(ThesisChanged { thesis })), ..Entry::filler(4, 1) };
        let recent = RecentEntries::default();
        recent.add_read("live", 6, &numbered(7..=7));
        recent.add_read("live", 3, &[(4, erasure.stored(4).into())]);
        assert_eq!(recent.newest_erasure("live"), 4);
        assert_eq!(recent.read("live", 6, 7, 100), numbered(7..=7));
    }

    #[test]
    fn entries_before_an_erasure_that_is_noted_leave_memory_and_stay_out() {
        let recent = RecentEntries::default();
        recent.add_appended("live", 0, &bodies(1..=5));
        recent.note_erasure("live", 4);
        assert_eq!((recent.get("live", 3), recent.read("live", 3, 5, 100)), (None, numbered(4..=5)));
        assert_eq!(recent.log("live").lock().bytes, 2 * size(&Bytes::from("4")));
        recent.note_erasure("live", 2);
        assert_eq!((recent.newest_erasure("live"), recent.has_appended("live", 0, 5)), (4, true));
        // These entries were read before this erasure and arrive after it.
        recent.note_erasure("live", 9);
        recent.add_read("live", 5, &numbered(6..=7));
        assert!(recent.read("live", 5, 7, 100).is_empty());
        recent.add_read("live", 7, &numbered(8..=10));
        assert_eq!((recent.get("live", 8), recent.read("live", 8, 10, 100)), (None, numbered(9..=10)));
        // The same holds if memory had no entry of the log.
        recent.note_erasure("sandbox", 9);
        recent.add_read("sandbox", 6, &numbered(7..=8));
        recent.add_appended("sandbox", 8, &bodies(9..=9));
        assert_eq!((recent.get("sandbox", 8), recent.get("sandbox", 9)), (None, Some(Bytes::from("9"))));
        assert!(recent.has_appended("sandbox", 8, 9) && !recent.has_appended("sandbox", 7, 9));
    }

    #[test]
    fn a_replaced_entry_is_read_from_then_on() {
        let recent = RecentEntries::default();
        recent.add_appended("live", 4, &bodies(5..=7));
        recent.replace("live", 6, &Bytes::from("erased"));
        for (log, seq) in [("live", 4), ("live", 8), ("sandbox", 6)] {
            recent.replace(log, seq, &Bytes::from("nothing"));
        }
        let read = recent.read("live", 4, 7, 100);
        assert_eq!(read, [(5, Bytes::from("5")), (6, Bytes::from("erased")), (7, Bytes::from("7"))]);
        assert_eq!(recent.log("live").lock().bytes, read.iter().map(|(_, entry)| size(entry)).sum::<usize>());
    }

    #[test]
    fn they_are_bounded() {
        let (recent, entry) = (RecentEntries::default(), Bytes::from(vec![0; MAX_BYTES / 4]));
        for head in 0..10 {
            recent.add_appended("live", head, std::slice::from_ref(&entry));
        }
        assert_eq!(recent.read("live", 7, 10, 100).len(), 3);
        assert!(recent.read("live", 6, 10, 100).is_empty());
        recent.add_appended("live", 10, &[Bytes::from(vec![0; 2 * MAX_BYTES])]);
        assert!(recent.get("live", 11).is_none());
        recent.add_appended("live", 11, &bodies(12..=12));
        assert_eq!(recent.get("live", 12), Some(Bytes::from("12")));
        for number in 0..10 * MAX_LOGS {
            recent.add_appended(&number.to_string(), 0, &bodies(1..=1));
        }
        assert!(recent.logs.len() <= 2 * MAX_LOGS);
    }
}
