//! Acknowledged changes of rows that are not durable yet.

use std::time::Duration;

use crate::store::Change;

/// Interval in which changes that did not wait for the disk are made durable.
pub(super) const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Number of such changes after which they are made durable. The more changes a flush has, the more of them share a
/// page, and the pages of this number fit into the engine's buffer.
const MAX_CHANGES: usize = 100_000;
/// Bytes of their keys and bodies after which they are made durable.
const MAX_BYTES: usize = 32 << 20;

/// The changes, which are repeated when the files are opened again.
#[derive(Default)]
pub(super) struct Unsynced {
    changes: Vec<Change>,
    bytes: usize,
    /// The time of the first commit that is not durable.
    since: Option<i64>,
}

impl Unsynced {
    /// Notes a commit that is not durable.
    pub(super) fn note_commit(&mut self, now_ms: i64) {
        self.since.get_or_insert(now_ms);
    }

    /// Adds the changes of a commit that is not durable.
    pub(super) fn extend(&mut self, changes: impl Iterator<Item = Change>) {
        for change in changes {
            let key: usize = change.key.iter().map(|column| column.text().len()).sum();
            self.bytes += key + change.body.as_ref().map_or(0, |body| body.len());
            self.changes.push(change);
        }
    }

    pub(super) fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// True if all commits are durable.
    pub(super) const fn is_empty(&self) -> bool {
        self.since.is_none()
    }

    /// True if it is time to make the changes durable.
    pub(super) fn is_due(&self, now_ms: i64) -> bool {
        self.changes.len() >= MAX_CHANGES
            || self.bytes >= MAX_BYTES
            || self.since.is_some_and(|since| has_passed(SYNC_INTERVAL, since, now_ms))
    }

    /// Forgets the changes: they are durable.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// True if an interval has passed since a time, or if the clock was set back by as much.
pub(super) fn has_passed(interval: Duration, since_ms: i64, now_ms: i64) -> bool {
    u128::from(now_ms.abs_diff(since_ms)) >= interval.as_millis()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{key, store::schema::PROFILE};

    #[test]
    fn many_changes_or_bytes_are_due_and_so_is_a_second() {
        let change = |body: usize| {
            let body = Some(Bytes::from(vec![0; body]));
            Change { table: &PROFILE, key: key!["d", "id"], version: 1, body, ttl: None }
        };
        let mut unsynced = Unsynced::default();
        let mut is_due = |changes: usize, body: usize| {
            unsynced.clear();
            unsynced.note_commit(5);
            unsynced.extend((0..changes).map(|_| change(body)));
            assert!(unsynced.is_due(1_005) && unsynced.is_due(-995));
            unsynced.is_due(1_004)
        };
        assert!(!is_due(MAX_CHANGES - 1, 0) && is_due(MAX_CHANGES, 0));
        assert!(!is_due(31, 1 << 20) && is_due(32, 1 << 20));
    }
}
