//! Slices of the indexes of theses, and the counts of a token's last day.

use std::{
    hash::{Hash as _, Hasher as _},
    ops::Bound,
};

use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::{Bucket, IndexSlice, IndexedRow, ThesisStore, decode};
use crate::{
    domain::{
        dataset::{Dataset, View},
        derivation::{Counts, TokenTheses},
        entry::PROLIFIC_AFTER,
        row::IndexedThesis,
        window::DAY_MS,
    },
    key,
    store::{Consistency, Scan, StoreResult, Value, schema},
    tables::{
        index_scope::IndexScope,
        recent_theses::{SharedWindow, TokenDay, Window},
    },
};

/// Number of indexes that are read concurrently.
const CONCURRENT_READS: usize = 8;
/// All rows of an index.
const EVERYTHING: IndexSlice = IndexSlice { from: i64::MIN / 2, to: i64::MAX / 2, after: None, descending: true };

fn index_in(view: &View, dataset: &Dataset) -> usize {
    view.datasets().iter().position(|of| of == dataset).expect("a dataset counts its own theses")
}

impl ThesisStore {
    /// Counts the theses on a token at `at` that are at most `span` milliseconds old (up to a day), over all datasets
    /// of a view together.
    pub async fn counts(&self, view: &View, token: &str, at: i64, span: i64) -> StoreResult<Counts> {
        let mut windows = Vec::with_capacity(view.datasets().len());
        for dataset in view.datasets() {
            windows.push(self.window(dataset, token, (at - span + 1, at), at, usize::MAX).await?);
        }
        Ok(TokenDay::new(windows, 0).counts(at))
    }

    /// Counts like [`Self::counts`], if no dataset has more than `max_theses` of these theses.
    pub async fn counts_of_few(
        &self,
        view: &View,
        token: &str,
        at: i64,
        span: i64,
        max_theses: usize,
    ) -> StoreResult<Option<Counts>> {
        let mut windows = Vec::with_capacity(view.datasets().len());
        for dataset in view.datasets() {
            let window = self.window(dataset, token, (at - span + 1, at), at, max_theses + 1).await?;
            if window.read().recent.len() > max_theses {
                return Ok(None);
            }
            windows.push(window);
        }
        Ok(Some(TokenDay::new(windows, 0).counts(at)))
    }

    /// Reads the last day of a token as the events of a dataset count it, with the newest thesis if that is older.
    pub async fn day(&self, dataset: &Dataset, token: &str, at: i64) -> StoreResult<(TokenDay, Option<(i64, String)>)> {
        let view = dataset.counted_with();
        let mut windows = Vec::with_capacity(view.datasets().len());
        for of in view.datasets() {
            windows.push(self.window(of, token, (at - DAY_MS + 1, i64::MAX / 2), at, usize::MAX).await?);
        }
        let day = TokenDay::new(windows, index_in(&view, dataset));
        let latest = self.latest(&view, token, at, &day.counts(at)).await?;
        Ok((day, latest))
    }

    /// The last day of a token as the events of a dataset count it, if the whole day is in memory.
    pub fn day_in_memory(&self, dataset: &Dataset, token: &str, at: i64) -> Option<TokenDay> {
        let recent = self.recent.as_ref()?;
        let view = dataset.counted_with();
        let windows = view.datasets().iter().map(|of| recent.get(&of.to_string(), token, at));
        Some(TokenDay::new(windows.collect::<Option<_>>()?, index_in(&view, dataset)))
    }

    /// Finds the newest thesis on a token at `at`, at any age, with its time. `day` is the result of [`Self::counts`]
    /// at `at`.
    pub async fn latest(&self, view: &View, token: &str, at: i64, day: &Counts) -> StoreResult<Option<(i64, String)>> {
        if day.latest.is_some() {
            return Ok(day.newest());
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

    /// Returns a token's theses of the last day at `at` from memory, or reads at most `limit` within these bounds.
    async fn window(
        &self,
        dataset: &Dataset,
        token: &str,
        (from, to): (i64, i64),
        at: i64,
        limit: usize,
    ) -> StoreResult<SharedWindow> {
        let scope = IndexScope::Token(token.to_owned());
        let read = async |from, to, limit| -> StoreResult<TokenTheses> {
            let slice = IndexSlice { from, to, after: None, descending: false };
            let rows = self.slice(dataset, &scope, &slice, limit).await?;
            Ok(rows.into_iter().map(|row| (row.created_at, row.id, row.indexed.profile_id)).collect())
        };
        let name = dataset.to_string();
        if let Some(recent) = self.recent.as_ref().filter(|recent| recent.covers(&name)) {
            if let Some(window) = recent.get(&name, token, at) {
                return Ok(window);
            }
            if let Some(fill) = recent.start_fill(&name, token, at) {
                let rows = read(fill.from, i64::MAX / 2, usize::MAX).await?;
                return Ok(fill.complete(rows));
            }
        }
        Ok(Window::read(read(from, to, limit).await?))
    }

    /// Returns whether a bucket has no thesis. The read starts at the newest end: theses are deleted in the order of
    /// their age, and reading past many deleted rows is expensive on a cluster.
    pub async fn is_empty(&self, dataset: &str, Bucket { scope, bucket }: &Bucket) -> StoreResult<bool> {
        let all = Scan::all(&schema::THESIS_INDEX, key![dataset, scope, *bucket], 1);
        Ok(self.backend.scan(&Scan { reverse: true, ..all }).await?.is_empty())
    }

    /// Counts an author's theses in a dataset. For a prolific author the result is one more than [`PROLIFIC_AFTER`].
    pub async fn count_by_author(&self, dataset: &str, author: &str) -> StoreResult<i64> {
        if self.is_prolific(dataset, author).await? {
            return Ok(i64::from(PROLIFIC_AFTER) + 1);
        }
        let theses = self.by_author(dataset, author).await?;
        Ok(i64::try_from(theses.len()).unwrap_or(i64::MAX))
    }

    async fn is_prolific(&self, dataset: &str, author: &str) -> StoreResult<bool> {
        let key = key![dataset, author];
        Ok(self.backend.get(&schema::PROLIFIC_AUTHOR, &key, Consistency::Quorum).await?.is_some())
    }

    /// Reads the theses of an author; not all of a prolific one.
    pub async fn by_author(&self, dataset: &str, author: &str) -> StoreResult<Vec<IndexedRow>> {
        let index = IndexScope::Profile(author.to_owned());
        self.rows(dataset, &index, &EVERYTHING, usize::from(PROLIFIC_AFTER), None).await
    }

    /// Reads slices of several indexes, in no order, each up to `limit`. All or none of the indexes are of one author
    /// and a token or chain. Then the author's theses are filtered, unless there are too many.
    pub async fn slices(
        &self,
        dataset: &Dataset,
        scopes: &[IndexScope],
        slice: &IndexSlice,
        limit: usize,
    ) -> StoreResult<Vec<IndexedRow>> {
        let dataset = dataset.to_string();
        if let Some(author) = scopes.first().and_then(IndexScope::prolific_author) {
            let matches = RowMatches { scopes, wanted: limit };
            if let Some(rows) = self.filtered(&dataset, author, slice, &matches).await? {
                return Ok(rows);
            }
        }
        let reads = scopes.iter().map(|scope| self.rows(&dataset, scope, slice, limit, None));
        let found: Vec<Vec<IndexedRow>> =
            stream::iter(reads.collect::<Vec<_>>()).buffered(CONCURRENT_READS).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Filters an author's theses. None for a prolific author with many theses that do not match: the other indexes
    /// have them.
    ///
    /// The rows come from several reads. Theses that are created and deleted between these reads, and an append that is
    /// not projected to its end, can show more theses than the author ever had at once. So only the row that the
    /// projection writes for a prolific author decides.
    async fn filtered(
        &self,
        dataset: &str,
        author: &str,
        slice: &IndexSlice,
        matches: &RowMatches<'_>,
    ) -> StoreResult<Option<Vec<IndexedRow>>> {
        let (index, max_filtered) = (IndexScope::Profile(author.to_owned()), usize::from(PROLIFIC_AFTER));
        let mut rows = self.rows(dataset, &index, slice, max_filtered + 1, Some(matches)).await?;
        if let Some(last) = rows.get(max_filtered)
            && !matches.are_enough(&rows)
        {
            if self.is_prolific(dataset, author).await? {
                return Ok(None);
            }
            let rest = IndexSlice { after: Some((last.created_at, last.id.clone())), ..slice.clone() };
            rows.extend(self.rows(dataset, &index, &rest, usize::MAX, None).await?);
        }
        rows.retain(|row| matches.has(row));
        rows.truncate(matches.wanted);
        Ok(Some(rows))
    }

    /// Reads a slice of an index as it is stored: those of one author and a token or chain have only the theses of
    /// prolific authors.
    pub async fn slice(
        &self,
        dataset: &Dataset,
        scope: &IndexScope,
        slice: &IndexSlice,
        limit: usize,
    ) -> StoreResult<Vec<IndexedRow>> {
        self.rows(&dataset.to_string(), scope, slice, limit, None).await
    }

    /// Reads a slice bucket by bucket, up to `limit` rows. It also ends with the bucket that brings enough matches.
    async fn rows(
        &self,
        dataset: &str,
        scope: &IndexScope,
        slice: &IndexSlice,
        limit: usize,
        matches: Option<&RowMatches<'_>>,
    ) -> StoreResult<Vec<IndexedRow>> {
        let Some(range) = SliceRange::of(scope, slice) else { return Ok(Vec::new()) };
        let text = scope.text();
        let buckets = Scan {
            table: &schema::INDEX_BUCKET,
            partition: key![dataset, &text],
            from: Bound::Included(key![range.lowest]),
            to: Bound::Included(key![range.highest]),
            reverse: slice.descending,
            limit: usize::try_from(range.highest - range.lowest + 1).unwrap_or(usize::MAX).min(5_000),
            consistency: Consistency::Quorum,
        };
        let rows_of = |bucket: i64, limit: usize| Scan {
            table: &schema::THESIS_INDEX,
            partition: key![dataset, &text, bucket],
            from: range.from.clone(),
            to: range.to.clone(),
            reverse: slice.descending,
            limit,
            consistency: Consistency::Quorum,
        };
        let scope_hash = self.followed.as_ref().map(|_| hash_of(dataset, &text));
        let guess = self.guess_bucket(scope_hash, slice, &range);
        let guessed = async {
            match guess {
                Some(bucket) => self.indexed_rows(&rows_of(bucket, limit)).await,
                None => Ok(Vec::new()),
            }
        };
        let (buckets, guessed) = tokio::try_join!(self.backend.scan(&buckets), guessed)?;
        let buckets: Vec<i64> = buckets.iter().filter_map(|row| Some(row.clustering.first()?.int())).collect();
        let (mut found, rest) = match buckets.as_slice() {
            [first, rest @ ..] if guess == Some(*first) => (guessed, rest),
            all => {
                self.remember_bucket(scope_hash, slice, all.first());
                (Vec::new(), all)
            }
        };
        for bucket in rest {
            if found.len() >= limit || matches.is_some_and(|matches| matches.are_enough(&found)) {
                break;
            }
            found.extend(self.indexed_rows(&rows_of(*bucket, limit - found.len())).await?);
        }
        Ok(found)
    }

    async fn indexed_rows(&self, scan: &Scan) -> StoreResult<Vec<IndexedRow>> {
        let mut found = Vec::new();
        for row in self.backend.scan(scan).await? {
            let indexed: IndexedThesis = decode(&row)?;
            if let [created_at, id] = row.clustering.as_slice() {
                found.push(IndexedRow { created_at: created_at.int(), id: id.text().to_owned(), indexed });
            }
        }
        Ok(found)
    }

    /// Guesses the first bucket of a slice: that of its cursor, or the newest that another read found. On a cluster its
    /// rows are read together with the list of buckets, which saves a wait. There is no hash where nothing is guessed.
    fn guess_bucket(&self, scope_hash: Option<u64>, slice: &IndexSlice, range: &SliceRange) -> Option<i64> {
        let scope_hash = scope_hash?;
        let guess = match (&slice.after, slice.descending) {
            (Some(_), true) => range.highest,
            (Some(_), false) => range.lowest,
            (None, true) => self.newest_buckets.get(&scope_hash)?,
            (None, false) => return None,
        };
        (range.lowest..=range.highest).contains(&guess).then_some(guess)
    }

    /// Remembers the newest bucket of a scope, if the slice began with it.
    fn remember_bucket(&self, scope_hash: Option<u64>, slice: &IndexSlice, first: Option<&i64>) {
        let begins_newest = slice.descending && slice.after.is_none() && slice.to >= i64::MAX / 2;
        if let (Some(scope_hash), Some(first), true) = (scope_hash, first, begins_newest) {
            self.newest_buckets.insert(scope_hash, *first);
        }
    }
}

/// The rows of an author's index that a list wants.
struct RowMatches<'a> {
    /// Scopes of this author.
    scopes: &'a [IndexScope],
    /// Number of wanted rows.
    wanted: usize,
}

impl RowMatches<'_> {
    fn has(&self, row: &IndexedRow) -> bool {
        self.scopes.iter().any(|scope| scope.has(&row.indexed))
    }

    fn are_enough(&self, rows: &[IndexedRow]) -> bool {
        rows.iter().filter(|row| self.has(row)).count() >= self.wanted
    }
}

fn hash_of(dataset: &str, scope: &str) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    (dataset, scope).hash(&mut hasher);
    hasher.finish()
}

/// The rows and buckets that a slice spans.
struct SliceRange {
    from: Bound<Vec<Value>>,
    to: Bound<Vec<Value>>,
    /// Lowest bucket, inclusive.
    lowest: i64,
    /// Highest bucket, inclusive.
    highest: i64,
}

impl SliceRange {
    /// The range of a slice; none if it is empty.
    fn of(scope: &IndexScope, slice: &IndexSlice) -> Option<Self> {
        let (mut from, mut to) = (Bound::Included(key![slice.from]), Bound::Included(key![slice.to]));
        let (mut lowest, mut highest) = (scope.bucket(slice.from), scope.bucket(slice.to));
        if let Some((created_at, id)) = &slice.after {
            let after = Bound::Excluded(key![*created_at, id]);
            if slice.descending {
                (to, highest) = (after, highest.min(scope.bucket(*created_at)));
            } else if *created_at >= slice.from {
                // A row before the lower bound comes from a dataset that reaches further back.
                (from, lowest) = (after, scope.bucket(*created_at));
            }
        }
        (slice.from <= slice.to && lowest <= highest).then_some(Self { from, to, lowest, highest })
    }
}

#[cfg(test)]
mod tests;
