//! Reads the theses on a token that existed at an earlier time: recorded by then, and not removed by then. The
//! projections must have all entries up to that time.
//!
//! It reads the list of deleted theses last. So a thesis that is deleted during the reads is in at least one of the
//! lists.

use std::{
    ops::{Bound, RangeInclusive},
    slice,
    sync::Arc,
};

use futures::future::try_join_all;

use super::{IndexSlice, IndexedRow, RowFilter, RowReader, ThesisStore, indexed_rows};
use crate::{
    domain::{
        dataset::{Dataset, View},
        derivation::{PastTheses, existed_at},
        window::{CLOCK_SKEW_MS, DAY_MS},
    },
    key,
    store::{Scan, StoreError, StoreResult, schema},
    tables::{
        index_scope::IndexScope,
        theses::{
            ALL_AUTHORS,
            past_blocks::{BLOCK_MS, PastBlock},
        },
    },
};

/// Number of an author's theses in one read.
const PAGE: usize = 16;

/// The lists of a token's theses, in the order in which they are read.
fn lists_of(token: &str) -> [IndexScope; 2] {
    [IndexScope::Token(token.to_owned()), IndexScope::DeletedOnToken(token.to_owned())]
}

/// Makes a scan of one block of a list.
fn block_scan(dataset: &str, scope: &IndexScope, number: i64) -> Scan {
    let (first, last) = (number * BLOCK_MS, (number + 1) * BLOCK_MS - 1);
    let partition = key![dataset, scope.text(), scope.bucket(first)];
    let (from, to) = (Bound::Included(key![first]), Bound::Included(key![last]));
    Scan { from, to, ..Scan::all(&schema::THESIS_INDEX, partition, usize::MAX) }
}

impl ThesisStore {
    /// Returns the theses on a token that were posted in the last `span` milliseconds before `at`, up to a day, and
    /// some earlier and later ones. The logs of the view must be projected up to these positions, which cover all
    /// entries up to `at`.
    pub async fn past_theses(
        &self,
        view: &View,
        projected: &[u64],
        token: &str,
        at: i64,
        span: i64,
    ) -> StoreResult<Arc<PastTheses>> {
        let numbers = (at - span + 1).div_euclid(BLOCK_MS)..=at.div_euclid(BLOCK_MS);
        let reads = view
            .datasets()
            .iter()
            .zip(projected)
            .map(|(dataset, projected)| self.blocks(dataset, *projected, token, numbers.clone()));
        let blocks = try_join_all(reads).await?;
        Ok(self.past.merge(view, token, &numbers, &blocks))
    }

    /// Returns blocks of a token in their order, from memory, or reads them.
    async fn blocks(
        &self,
        dataset: &Dataset,
        projected: u64,
        token: &str,
        numbers: RangeInclusive<i64>,
    ) -> StoreResult<Vec<Arc<PastBlock>>> {
        let noted_after = match &self.followed {
            Some(followed) => followed.note_past_blocks(dataset, projected).await,
            None => 0,
        };
        let dataset = dataset.name();
        let (mut blocks, mut uncertain, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        for number in numbers {
            let changed_in = self.past.changed_in(dataset, token, number);
            match self.past.get(dataset, token, number).filter(|block| block.includes(changed_in)) {
                Some(block) if block.includes(noted_after) => {
                    block.stays_right_up_to(projected);
                    blocks.push((number, block));
                }
                Some(block) => uncertain.push((number, block)),
                None => missing.push(number),
            }
        }
        if !uncertain.is_empty() {
            let changed_in = self.last_change(dataset, token).await?;
            for (number, block) in uncertain {
                if block.includes(changed_in) {
                    block.stays_right_up_to(projected);
                    blocks.push((number, block));
                } else {
                    missing.push(number);
                }
            }
        }
        blocks.extend(self.read_blocks(dataset, projected, token, &missing).await?);
        blocks.sort_unstable_by_key(|(number, _)| *number);
        Ok(blocks.into_iter().map(|(_, block)| block).collect())
    }

    /// The last entry that created or deleted a thesis on a token.
    async fn last_change(&self, dataset: &str, token: &str) -> StoreResult<u64> {
        // Each such entry writes this row.
        let totals = self.backend.get_many(&schema::TOKEN_TOTALS, &[key![dataset, token, ALL_AUTHORS]]).await?;
        Ok(totals.into_iter().flatten().next().map_or(0, |row| row.version.unsigned_abs()))
    }

    /// Reads blocks of a token, and caches them.
    async fn read_blocks(
        &self,
        dataset: &str,
        projected: u64,
        token: &str,
        numbers: &[i64],
    ) -> StoreResult<Vec<(i64, Arc<PastBlock>)>> {
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let mut rows: Vec<Vec<IndexedRow>> = vec![Vec::new(); numbers.len()];
        for scope in lists_of(token) {
            let scans: Vec<Scan> = numbers.iter().map(|number| block_scan(dataset, &scope, *number)).collect();
            for (found, rows) in self.backend.scan_many(&scans).await?.into_iter().zip(&mut rows) {
                rows.extend(indexed_rows(found)?);
            }
        }
        let read = numbers.iter().zip(rows).map(|(number, rows)| {
            let block = Arc::new(PastBlock::new(projected, rows));
            self.past.put(dataset, token, *number, &block);
            (*number, block)
        });
        Ok(read.collect())
    }

    /// Finds the time of the newest thesis on a token at `at` that was older than a day.
    pub async fn latest_at(&self, view: &View, token: &str, at: i64) -> StoreResult<Option<i64>> {
        let mut slice = IndexSlice { from: i64::MIN / 2, to: at - DAY_MS, after: None, descending: true };
        let (reader, mut latest) = (self.direct_reader(), None);
        for scope in lists_of(token) {
            let (reader, scope, times) = (&reader, &scope, &slice);
            let reads = view.datasets().iter().map(|dataset| async move {
                let rows = reader.rows(dataset.name(), scope, times, 1, RowFilter::At(at)).await?;
                Ok::<_, StoreError>(rows.first().map(|row| row.created_at))
            });
            latest = latest.max(try_join_all(reads).await?.into_iter().flatten().max());
            // Skip older theses: the list of deleted theses may have very many that were removed before `at`.
            slice.from = latest.unwrap_or(slice.from);
        }
        Ok(latest)
    }

    /// Returns whether an author had a thesis on a token at `at`, in a dataset that never records a thesis before it is
    /// posted.
    pub async fn had_author(&self, dataset: &Dataset, token: &str, author: &str, at: i64) -> StoreResult<bool> {
        let (token, author, reader) = (token.to_owned(), author.to_owned(), self.direct_reader());
        let present = IndexScope::ProfileToken(author.clone(), token.clone());
        for scope in [present, IndexScope::Deleted(author, token)] {
            // The clock of the core that appended the thesis may be behind that of the core which set the time of the
            // post.
            let to = at + CLOCK_SKEW_MS;
            let mut slice = IndexSlice { from: i64::MIN / 2, to, after: None, descending: true };
            loop {
                let rows = reader.slices(dataset, slice::from_ref(&scope), &slice, PAGE).await?;
                let keys: Vec<_> = rows.iter().map(|row| (dataset.name(), row.id.as_str())).collect();
                let theses = reader.theses(&keys).await?;
                if theses.iter().flatten().any(|thesis| existed_at(thesis.recorded_at, thesis.removed_at, at)) {
                    return Ok(true);
                }
                let Some(last) = rows.last().filter(|_| rows.len() == PAGE) else { break };
                slice.after = Some((last.created_at, last.id.clone()));
            }
        }
        Ok(false)
    }
}

impl RowReader<'_> {
    /// Reads up to `limit` rows of a token's index whose theses existed at `at`.
    pub async fn recorded_by(
        &self,
        dataset: &Dataset,
        scope: &IndexScope,
        slice: &IndexSlice,
        at: i64,
        limit: usize,
    ) -> StoreResult<Vec<IndexedRow>> {
        self.rows(dataset.name(), scope, slice, limit, RowFilter::At(at)).await
    }
}
