//! Theses on a token as they were at an earlier time: recorded by then, and not removed by then. The projections have
//! all entries up to that time.
//!
//! Deleted theses are read after the others. So a thesis that is deleted meanwhile is in one of both lists, or in both.

use std::{slice, sync::Arc};

use futures::future::try_join_all;

use super::{IndexSlice, IndexedRow, RowFilter, RowReader, SliceRange, ThesisStore, indexed_rows};
use crate::{
    domain::{
        dataset::{Dataset, View},
        derivation::{self, Counts, TokenTheses},
        window::DAY_MS,
    },
    key,
    store::{Scan, StoreResult},
    tables::index_scope::IndexScope,
};

/// Number of an author's theses that are read together.
const PAGE: usize = 16;

/// The lists of a token's theses, in the order in which they are read.
fn lists_of(token: &str) -> [IndexScope; 2] {
    [IndexScope::Token(token.to_owned()), IndexScope::DeletedOnToken(token.to_owned())]
}

impl ThesisStore {
    /// Counts like [`Self::counts`], as of `at`. The time is closed in each dataset, so the counts never change.
    pub async fn counts_at(&self, view: &View, token: &str, at: i64, span: i64) -> StoreResult<Counts> {
        let moment = (view.clone(), token.to_owned(), at, span);
        if let Some(counts) = self.past_counts.get(&moment) {
            return Ok(Counts::clone(&counts));
        }
        let reads = view.datasets().iter().map(|dataset| self.theses_at(dataset.name(), token, at - span + 1, at));
        let theses = try_join_all(reads).await?;
        let counts = derivation::count(&theses.iter().collect::<Vec<_>>(), at);
        self.past_counts.insert(moment, Arc::new(counts.clone()));
        Ok(counts)
    }

    /// Reads the theses on a token at `at` that are not older than `from`.
    async fn theses_at(&self, dataset: &str, token: &str, from: i64, at: i64) -> StoreResult<TokenTheses> {
        let slice = IndexSlice { from, to: at, after: None, descending: false };
        let mut rows = Vec::new();
        for scope in lists_of(token) {
            let Some(range) = SliceRange::of(&scope, &slice) else { continue };
            // A window is in one bucket or two, so their list is not read.
            let scan = |bucket| range.scan(key![dataset, scope.text(), bucket], false, usize::MAX);
            let scans: Vec<Scan> = (range.lowest..=range.highest).map(scan).collect();
            for found in self.backend.scan_many(&scans).await? {
                rows.extend(indexed_rows(found)?);
            }
        }
        rows.retain(|row| RowFilter::At(at).has(row));
        rows.sort_unstable_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Ok(rows.into_iter().map(|row| (row.created_at, row.id, row.indexed.profile_id)).collect())
    }

    /// Finds the time of the newest thesis on a token at `at` that was older than a day.
    pub async fn latest_at(&self, view: &View, token: &str, at: i64) -> StoreResult<Option<i64>> {
        let slice = IndexSlice { from: i64::MIN / 2, to: at - DAY_MS, after: None, descending: true };
        let (reader, mut latest) = (self.direct_reader(), None);
        for dataset in view.datasets() {
            for scope in lists_of(token) {
                let rows = reader.rows(dataset.name(), &scope, &slice, 1, RowFilter::At(at)).await?;
                latest = latest.max(rows.first().map(|row| row.created_at));
            }
        }
        Ok(latest)
    }

    /// Returns whether an author had a thesis on a token at `at`, in a dataset that records theses when they are posted
    /// or later.
    pub async fn had_author(&self, dataset: &Dataset, token: &str, author: &str, at: i64) -> StoreResult<bool> {
        let (token, author, reader) = (token.to_owned(), author.to_owned(), self.direct_reader());
        let present = IndexScope::ProfileToken(author.clone(), token.clone());
        for scope in [present, IndexScope::Deleted(author, token)] {
            let mut slice = IndexSlice { from: i64::MIN / 2, to: at, after: None, descending: true };
            loop {
                let rows = reader.slices(dataset, slice::from_ref(&scope), &slice, PAGE).await?;
                let keys: Vec<_> = rows.iter().map(|row| (dataset.name(), row.id.as_str())).collect();
                let theses = reader.theses(&keys).await?;
                if theses.iter().flatten().any(|thesis| was_there(thesis.recorded_at, thesis.removed_at, at)) {
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
    /// Reads the rows of a token's index that were recorded by `at`, up to `limit`.
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

/// Returns whether a thesis was recorded by `at` and not removed.
pub(super) fn was_there(recorded_at: i64, removed_at: Option<i64>, at: i64) -> bool {
    recorded_at <= at && removed_at.is_none_or(|removed_at| removed_at > at)
}
