//! Batches under way: the log has their entries, and a task writes their rows. Meanwhile the writer drafts and appends
//! the next batch.
//!
//! Rows and checkpoints are written in the order of the log. If a write fails, so do those of all later batches. The
//! writer then catches up: it writes all missing rows from the log before it appends again.
//!
//! Readers see nothing of these batches, so a position, a count or a response never gets ahead of the rows. The writer
//! itself must not draft on rows that are older than the log. It adds these entries to what it reads.

use std::{collections::VecDeque, sync::Arc};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use tokio::sync::watch;

use super::advance;
use crate::{
    domain::{
        entry::{Entry, Kind, SequencedEntry},
        row::Thesis,
    },
    notifications::Notifications,
    store::{StoreError, StoreResult},
};

/// Maximum number of batches under way: the rows of one are written, and the next one is in the log. More would make
/// the batches smaller.
const MAX_BATCHES: usize = 2;

/// Maximum number of batches between two moments at which all rows are written, those without entries included. Another
/// core that appends to the log drafts when the rows are written, so it would lose every race to a writer that never
/// waits for them.
const MAX_BATCHES_IN_A_ROW: usize = 8;

/// Ends when the rows of a batch and of all earlier ones are written, or with the first error.
pub(super) type RowsWritten = Shared<BoxFuture<'static, StoreResult<()>>>;

struct Batch {
    entries: Arc<Vec<SequencedEntry>>,
    rows: RowsWritten,
}

/// The batches under way, oldest first. One whose rows are written may still be here.
#[derive(Default)]
pub(super) struct BatchesUnderWay {
    batches: VecDeque<Batch>,
    /// Number of batches added since all rows were written.
    in_a_row: usize,
}

impl BatchesUnderWay {
    /// Adds a batch that the log has. `write` writes its rows; it begins after the rows of all earlier batches.
    pub(super) fn add(
        &mut self,
        entries: Arc<Vec<SequencedEntry>>,
        write: impl Future<Output = StoreResult<()>> + Send + 'static,
    ) {
        let before = self.newest();
        let writing = tokio::spawn(async move {
            if let Some(before) = before {
                before.await?;
            }
            write.await
        });
        let rows = async move {
            match writing.await {
                Ok(written) => written,
                Err(error) => Err(StoreError::Unavailable(format!("writing rows broke off: {error}"))),
            }
        };
        self.in_a_row += 1;
        self.batches.push_back(Batch { entries, rows: rows.boxed().shared() });
    }

    /// Counts a batch without entries. Its callers wait for the rows of all batches, so their number is bounded.
    pub(super) fn note_empty(&mut self) {
        self.in_a_row += 1;
    }

    /// Waits until another batch may be added. After an error the batches stay.
    pub(super) async fn make_room(&mut self) -> StoreResult<()> {
        if self.in_a_row >= MAX_BATCHES_IN_A_ROW {
            return self.finish().await;
        }
        while let Some(oldest) = self.batches.front() {
            let rows = oldest.rows.clone();
            match rows.clone().now_or_never() {
                Some(written) => written?,
                None if self.batches.len() >= MAX_BATCHES => rows.await?,
                None => break,
            }
            self.batches.pop_front();
        }
        if self.batches.is_empty() {
            self.in_a_row = 0;
        }
        Ok(())
    }

    /// Waits until all rows are written. After an error the batches stay.
    pub(super) async fn finish(&mut self) -> StoreResult<()> {
        if let Some(newest) = self.newest() {
            newest.await?;
        }
        *self = Self::default();
        Ok(())
    }

    /// The end of the oldest batch; none if there is no batch.
    pub(super) fn oldest(&self) -> Option<RowsWritten> {
        self.batches.front().map(|oldest| oldest.rows.clone())
    }

    /// The end of all batches so far; none if there is no batch.
    pub(super) fn newest(&self) -> Option<RowsWritten> {
        self.batches.back().map(|newest| newest.rows.clone())
    }

    /// The entries of all batches, in order.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.batches.iter().flat_map(|batch| batch.entries.iter()).map(|sequenced| &sequenced.entry)
    }

    /// The new theses on a token.
    pub(super) fn theses_on(&self, token: &str) -> impl Iterator<Item = &Thesis> {
        self.entries().filter_map(move |entry| match &entry.kind {
            Some(Kind::ThesisCreated(created)) if created.thesis.token_id == token => Some(&created.thesis),
            _ => None,
        })
    }
}

/// The position of the rows, for readers here and for other cores.
#[derive(Clone)]
pub(super) struct RowsPosition {
    pub(super) name: String,
    pub(super) notifications: Arc<Notifications>,
    /// Entries up to here may be shown.
    pub(super) position: watch::Sender<u64>,
    /// The projector's theses in memory include all entries up to here.
    pub(super) followed: watch::Sender<u64>,
}

impl RowsPosition {
    /// Moves the position past rows that this core has written.
    pub(super) fn note_written(&self, upto: u64) {
        self.followed.send_replace(upto);
        self.position.send_if_modified(|position| advance(position, upto));
        self.notifications.log_applied(&self.name, upto);
    }

    /// Moves the position past rows that this core or another one has written.
    pub(super) fn note_followed(&self, upto: u64) {
        self.followed.send_replace(upto);
        if self.position.send_if_modified(|position| advance(position, upto)) {
            self.notifications.log_applied(&self.name, upto);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{sync::oneshot, task::yield_now};

    use super::*;

    /// Adds a batch. Its rows are written once the sender sends.
    fn add(under_way: &mut BatchesUnderWay) -> oneshot::Sender<()> {
        let (written, rows) = oneshot::channel();
        under_way.add(Arc::default(), async move {
            rows.await.map_err(|_| StoreError::Unavailable("the rows are not written".to_owned()))
        });
        written
    }

    /// Returns whether another batch may be added at once.
    async fn has_room(under_way: &mut BatchesUnderWay) -> bool {
        for _ in 0..10 {
            yield_now().await;
        }
        under_way.make_room().now_or_never().is_some_and(|room| room.is_ok())
    }

    /// Adds batches, each while one is under way. Returns the sender of the newest.
    async fn add_run(under_way: &mut BatchesUnderWay, batches: usize) -> oneshot::Sender<()> {
        let mut newest = add(under_way);
        for _ in 1..batches {
            assert!(has_room(under_way).await);
            let before = std::mem::replace(&mut newest, add(under_way));
            before.send(()).unwrap();
        }
        newest
    }

    #[tokio::test]
    async fn a_third_batch_waits_for_the_rows_of_the_first() {
        let mut under_way = BatchesUnderWay::default();
        assert!(has_room(&mut under_way).await);
        let first = add(&mut under_way);
        assert!(has_room(&mut under_way).await);
        let second = add(&mut under_way);
        assert!(!has_room(&mut under_way).await);
        first.send(()).unwrap();
        assert!(has_room(&mut under_way).await);
        assert_eq!((under_way.in_a_row, under_way.batches.len()), (2, 1));
        second.send(()).unwrap();
        under_way.newest().unwrap().await.unwrap();
        assert!(has_room(&mut under_way).await);
        assert_eq!((under_way.in_a_row, under_way.batches.len()), (0, 0));
    }

    #[tokio::test]
    async fn a_writer_that_always_has_a_batch_under_way_waits_for_its_rows_every_eighth_batch() {
        let mut under_way = BatchesUnderWay::default();
        for _ in 0..3 {
            let newest = add_run(&mut under_way, MAX_BATCHES_IN_A_ROW).await;
            assert!(!has_room(&mut under_way).await);
            newest.send(()).unwrap();
            assert!(has_room(&mut under_way).await && under_way.newest().is_none());
        }
    }

    #[tokio::test]
    async fn a_moment_at_which_all_rows_are_written_begins_another_run_of_batches() {
        let mut under_way = BatchesUnderWay::default();
        for _ in 0..3 {
            let newest = add_run(&mut under_way, MAX_BATCHES_IN_A_ROW - 1).await;
            assert!(has_room(&mut under_way).await);
            newest.send(()).unwrap();
            assert!(has_room(&mut under_way).await && under_way.newest().is_none());
        }
    }

    #[tokio::test]
    async fn a_batch_without_entries_counts_only_behind_others() {
        let mut under_way = BatchesUnderWay::default();
        for _ in 1..MAX_BATCHES_IN_A_ROW {
            under_way.note_empty();
            assert!(has_room(&mut under_way).await);
        }
        let written = add(&mut under_way);
        for _ in 1..MAX_BATCHES_IN_A_ROW {
            assert!(has_room(&mut under_way).await);
            under_way.note_empty();
        }
        assert!(!has_room(&mut under_way).await);
        written.send(()).unwrap();
        assert!(has_room(&mut under_way).await);
    }

    #[tokio::test]
    async fn rows_that_are_not_written_stop_all_later_batches() {
        let mut under_way = BatchesUnderWay::default();
        drop(add(&mut under_way));
        let later = add(&mut under_way);
        assert!(under_way.newest().unwrap().await.is_err());
        assert!(later.send(()).is_err(), "its rows were begun");
        assert!(under_way.make_room().await.is_err() && under_way.finish().await.is_err());
        assert_eq!(under_way.batches.len(), 2);
    }

    #[test]
    fn a_position_never_goes_back() {
        let mut position = 5;
        assert_eq!(
            [4, 5, 6, 5].map(|to| (advance(&mut position, to), position)),
            [(false, 5), (false, 5), (true, 6), (false, 6)]
        );
    }
}
