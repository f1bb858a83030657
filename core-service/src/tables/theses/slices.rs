//! Slices of the indexes of theses, and the counts of a token's last day.

use std::ops::Bound;

use super::{Bucket, IndexSlice, Indexed, ThesisStore, decode};
use crate::{
    domain::{
        dataset::{Dataset, View},
        derivation::{self, Counts, Recent},
        row::IndexedThesis,
    },
    key,
    store::{Consistency, Scan, StoreResult, schema},
    tables::{
        index_scope::IndexScope,
        recent_theses::{SharedWindow, Window},
    },
};

impl ThesisStore {
    /// Counts the theses on a token at `at` that are at most `span` milliseconds old (up to a day), over all datasets
    /// of a view together.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn counts(&self, view: &View, token: &str, at: i64, span: i64) -> StoreResult<Counts> {
        let mut windows = Vec::with_capacity(view.datasets().len());
        for dataset in view.datasets() {
            windows.push(self.window(dataset, token, at, span).await?);
        }
        // Recursive: a writer that waits for one window must not block two readers of both.
        let guards: Vec<_> = windows.iter().map(|window| window.read_recursive()).collect();
        let mut parts: Vec<&Recent> = guards.iter().map(|window| &window.recent).collect();
        // The authors of all parts but the first must be looked up.
        parts.sort_unstable_by_key(|recent| std::cmp::Reverse(recent.len()));
        Ok(derivation::count(&parts, at))
    }

    /// The newest thesis on a token at `at`, however old, with its time; `day` is the result of [`Self::counts`] then.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn latest(&self, view: &View, token: &str, at: i64, day: &Counts) -> StoreResult<Option<(i64, String)>> {
        if day.latest.is_some() {
            return Ok(day.latest.clone());
        }
        let slice = IndexSlice { from: i64::MIN / 2, to: at, after: None, descending: true };
        let scope = IndexScope::Token(token.to_owned());
        let mut latest = None;
        for dataset in view.datasets() {
            let rows = self.slice(dataset, &scope, &slice, 1).await?;
            latest = latest.max(rows.into_iter().next().map(|row| (row.created_at, row.id)));
        }
        Ok(latest)
    }

    async fn window(&self, dataset: &Dataset, token: &str, at: i64, span: i64) -> StoreResult<SharedWindow> {
        let scope = IndexScope::Token(token.to_owned());
        let read = async |from, to| -> StoreResult<Recent> {
            let slice = IndexSlice { from, to, after: None, descending: false };
            let rows = self.slice(dataset, &scope, &slice, usize::MAX).await?;
            Ok(rows.into_iter().map(|row| (row.created_at, row.id, row.profile_id)).collect())
        };
        let name = dataset.to_string();
        if let Some(recent) = self.recent.as_ref().filter(|recent| recent.covers(&name)) {
            if let Some(window) = recent.get(&name, token, at) {
                return Ok(window);
            }
            if let Some(filling) = recent.fill(&name, token, at) {
                let rows = read(filling.from, i64::MAX / 2).await?;
                return Ok(filling.with(rows));
            }
        }
        Ok(Window::read(read(at - span + 1, at).await?))
    }

    /// Whether a bucket has no thesis. Looks from its newest end: theses deleted in the order of their age come after
    /// those left, and reading past many deleted ones costs a cluster much.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn is_empty(&self, dataset: &str, Bucket { scope, bucket }: &Bucket) -> StoreResult<bool> {
        let all = Scan::all(&schema::THESIS_INDEX, key![dataset, scope, *bucket], 1);
        Ok(self.backend.scan(&Scan { reverse: true, ..all }).await?.is_empty())
    }

    /// Reads a stretch of an index, at most `limit` rows.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn slice(
        &self,
        dataset: &Dataset,
        scope: &IndexScope,
        slice: &IndexSlice,
        limit: usize,
    ) -> StoreResult<Vec<Indexed>> {
        let (dataset, text) = (dataset.to_string(), scope.text());
        let (mut from, mut to) = (Bound::Included(key![slice.from]), Bound::Included(key![slice.to]));
        let (mut lowest, mut highest) = (scope.bucket(slice.from), scope.bucket(slice.to));
        if let Some((created_at, id)) = &slice.after {
            let after = Bound::Excluded(key![*created_at, id]);
            if slice.descending {
                (to, highest) = (after, highest.min(scope.bucket(*created_at)));
            } else if *created_at >= slice.from {
                // A row before the lower bound was of a dataset that reaches further back.
                (from, lowest) = (after, scope.bucket(*created_at));
            }
        }
        if slice.from > slice.to || lowest > highest {
            return Ok(Vec::new());
        }
        let buckets = Scan {
            table: &schema::INDEX_BUCKET,
            partition: key![&dataset, &text],
            from: Bound::Included(key![lowest]),
            to: Bound::Included(key![highest]),
            reverse: slice.descending,
            limit: usize::try_from(highest - lowest + 1).unwrap_or(usize::MAX).min(5_000),
            consistency: Consistency::Quorum,
        };
        let mut found: Vec<Indexed> = Vec::new();
        for bucket in self.backend.scan(&buckets).await? {
            let bucket = bucket.clustering.first().map_or(0, crate::store::Value::int);
            let scan = Scan {
                table: &schema::THESIS_INDEX,
                partition: key![&dataset, &text, bucket],
                from: from.clone(),
                to: to.clone(),
                reverse: slice.descending,
                limit: limit - found.len(),
                consistency: Consistency::Quorum,
            };
            for row in self.backend.scan(&scan).await? {
                let indexed: IndexedThesis = decode(&row)?;
                if let [created_at, id] = row.clustering.as_slice() {
                    found.push(Indexed {
                        created_at: created_at.int(),
                        id: id.text().to_owned(),
                        profile_id: indexed.profile_id,
                    });
                }
            }
            if found.len() >= limit {
                break;
            }
        }
        Ok(found)
    }
}
