//! Slices of the indexes of theses, and the counts of a token's last day.

mod earlier;
mod range;

use std::{
    hash::{Hash as _, Hasher as _},
    pin::pin,
};

use futures::{
    StreamExt as _, TryStreamExt as _,
    future::{Either, select},
    stream,
};

use self::range::{SliceRange, bucket_numbers};
use super::{Bucket, IndexSlice, IndexedRow, RowReader, ThesisStore, count, decode};
use crate::{
    domain::{
        dataset::{Dataset, View},
        derivation::{Counts, TokenTheses, existed_at},
        entry::PROLIFIC_AFTER,
        row::IndexedThesis,
        window::DAY_MS,
    },
    key,
    store::{Row, Scan, StoreResult, Value, schema},
    tables::{
        index_scope::IndexScope,
        recent_theses::{SharedWindow, TokenDay, Window},
    },
};

/// Number of indexes that are read concurrently.
const CONCURRENT_READS: usize = 8;
/// Number of buckets that a read lists at first. Most pages need one or two.
const FIRST_BUCKETS: usize = 8;
/// Maximum number of buckets that it lists after them.
const MAX_BUCKETS: usize = 5_000;
/// All rows of an index.
const EVERYTHING: IndexSlice = IndexSlice { from: i64::MIN / 2, to: i64::MAX / 2, after: None, descending: true };

fn index_in(view: &View, dataset: &Dataset) -> usize {
    view.datasets().iter().position(|of| of == dataset).expect("a dataset counts its own theses")
}

impl ThesisStore {
    /// Counts the theses on a token at `at` that are at most `span` milliseconds old (up to a day), over all datasets
    /// of a view together.
    pub async fn counts(&self, view: &View, token: &str, at: i64, span: i64) -> StoreResult<Counts> {
        let reader = self.direct_reader();
        let mut windows = Vec::with_capacity(view.datasets().len());
        for dataset in view.datasets() {
            windows.push(reader.window(dataset, token, at - span + 1, at, usize::MAX).await?);
        }
        Ok(TokenDay::new(windows, 0).counts(at))
    }

    /// Reads the last day of a token as the events of a dataset count it, with the newest thesis if that is older.
    pub async fn day(&self, dataset: &Dataset, token: &str, at: i64) -> StoreResult<(TokenDay, Option<(i64, String)>)> {
        let (view, reader) = (dataset.counted_with(), self.direct_reader());
        let mut windows = Vec::with_capacity(view.datasets().len());
        for of in view.datasets() {
            windows.push(reader.window(of, token, at - DAY_MS + 1, at, usize::MAX).await?);
        }
        let day = TokenDay::new(windows, index_in(&view, dataset));
        let latest = reader.latest(&view, token, at, &day.counts(at)).await?;
        Ok((day, latest))
    }

    /// The last day of a token as the events of a dataset count it, if the whole day is in memory.
    pub fn day_in_memory(&self, dataset: &Dataset, token: &str, at: i64) -> Option<TokenDay> {
        let recent = self.recent.as_ref()?;
        let view = dataset.counted_with();
        let windows = view.datasets().iter().map(|of| recent.get(of.name(), token, at));
        Some(TokenDay::new(windows.collect::<Option<_>>()?, index_in(&view, dataset)))
    }

    /// Returns whether a bucket has no thesis. The read starts at the newest end: theses are deleted in the order of
    /// their age, and reading past many deleted rows is expensive on a cluster.
    pub async fn is_empty(&self, dataset: &str, Bucket { scope, bucket }: &Bucket) -> StoreResult<bool> {
        let all = Scan::all(&schema::THESIS_INDEX, key![dataset, scope, *bucket], 1);
        Ok(self.backend.scan(&Scan { reverse: true, ..all }).await?.is_empty())
    }

    /// Reads the theses of an author that entries before `version` created and that are not deleted, up to
    /// [`PROLIFIC_AFTER`]. Later ones can be stored already: then this reads on past them.
    pub async fn by_author_before(&self, dataset: &str, author: &str, version: i64) -> StoreResult<Vec<IndexedRow>> {
        let scope = IndexScope::Profile(author.to_owned());
        let (limit, filter) = (usize::from(PROLIFIC_AFTER), RowFilter::Before(version));
        self.direct_reader().rows(dataset, &scope, &EVERYTHING, limit, filter).await
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
        self.direct_reader().rows(dataset.name(), scope, slice, limit, RowFilter::All).await
    }

    /// Guesses the first bucket of a slice: that of its cursor, or the newest that another read found. Its rows are
    /// read together with the list of buckets, which saves a wait on a cluster, and a snapshot elsewhere.
    fn guess_bucket(&self, scope_hash: u64, slice: &IndexSlice, range: &SliceRange) -> Option<i64> {
        let guess = match (&slice.after, slice.descending) {
            (Some(_), true) => range.highest,
            (Some(_), false) => range.lowest,
            (None, true) => self.newest_buckets.get(&scope_hash)?,
            (None, false) => return None,
        };
        (range.lowest..=range.highest).contains(&guess).then_some(guess)
    }

    /// Remembers the newest bucket of a scope, if the slice began with it.
    fn remember_bucket(&self, scope_hash: u64, slice: &IndexSlice, first: Option<&i64>) {
        if let (Some(first), true) = (first, slice.begins_newest()) {
            self.newest_buckets.insert(scope_hash, *first);
        }
    }
}

impl RowReader<'_> {
    /// Counts like [`ThesisStore::counts`], if no dataset has more than `max_theses` of these theses.
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
            let window = self.window(dataset, token, at - span + 1, at, max_theses + 1).await?;
            if window.read().recent.len() > max_theses {
                return Ok(None);
            }
            windows.push(window);
        }
        Ok(Some(TokenDay::new(windows, 0).counts(at)))
    }

    /// Finds the newest thesis on a token at `at`, at any age, with its time. `day` is the result of
    /// [`ThesisStore::counts`] at `at`.
    pub async fn latest(&self, view: &View, token: &str, at: i64, day: &Counts) -> StoreResult<Option<(i64, String)>> {
        if day.latest.is_some() {
            return Ok(day.newest());
        }
        let slice = IndexSlice { from: i64::MIN / 2, to: at, after: None, descending: true };
        let scope = IndexScope::Token(token.to_owned());
        let mut latest = None;
        for dataset in view.datasets() {
            let rows = self.rows(dataset.name(), &scope, &slice, 1, RowFilter::All).await?;
            latest = latest.max(rows.into_iter().next().map(|row| (row.created_at, row.id)));
        }
        Ok(latest)
    }

    /// Returns a token's theses of the last day at `at` from memory, or reads the newest ones since `from`, up to
    /// `limit`.
    async fn window(
        &self,
        dataset: &Dataset,
        token: &str,
        from: i64,
        at: i64,
        limit: usize,
    ) -> StoreResult<SharedWindow> {
        let scope = IndexScope::Token(token.to_owned());
        let read = async |from, limit| -> StoreResult<TokenTheses> {
            let slice = IndexSlice { from, ..EVERYTHING };
            let rows = self.rows(dataset.name(), &scope, &slice, limit, RowFilter::All).await?;
            let theses = rows.into_iter().map(|row| (row.created_at, row.id, row.indexed.profile_id));
            Ok(theses.rev().collect())
        };
        let name = dataset.name();
        if let Some(recent) = self.store.recent.as_ref().filter(|recent| recent.covers(name)) {
            if let Some(window) = recent.get(name, token, at) {
                return Ok(window);
            }
            if let Some(fill) = recent.start_fill(name, token, at) {
                let rows = read(fill.from, usize::MAX).await?;
                return Ok(fill.complete(rows));
            }
        }
        Ok(Window::read(read(from, limit).await?))
    }

    async fn is_prolific(&self, dataset: &str, author: &str) -> StoreResult<bool> {
        let row = self.row(&schema::AUTHOR, key![dataset, author]).await?;
        Ok(row.is_some_and(|row| count(&row) > i64::from(PROLIFIC_AFTER)))
    }

    /// Reads slices of several indexes, in no order, each up to `limit`. All or none of the indexes are of one author
    /// and a token or chain. Then the author's theses are filtered, unless the author is prolific.
    pub async fn slices(
        &self,
        dataset: &Dataset,
        scopes: &[IndexScope],
        slice: &IndexSlice,
        limit: usize,
    ) -> StoreResult<Vec<IndexedRow>> {
        let dataset = dataset.name();
        if let Some(author) = scopes.first().and_then(IndexScope::prolific_author) {
            let by_author = IndexScope::Profile(author.to_owned());
            // Both reads begin together, and the second ends as soon as the first shows a prolific author.
            let is_prolific = pin!(self.is_prolific(dataset, author));
            let filtered = pin!(self.rows(dataset, &by_author, slice, limit, RowFilter::In(scopes)));
            match select(is_prolific, filtered).await {
                Either::Left((is_prolific, filtered)) => {
                    if !is_prolific? {
                        return filtered.await;
                    }
                }
                Either::Right((filtered, is_prolific)) => {
                    if !is_prolific.await? {
                        return filtered;
                    }
                }
            }
        }
        // Most lists have one scope, whose read needs no queue of its own.
        if let [scope] = scopes {
            return self.rows(dataset, scope, slice, limit, RowFilter::All).await;
        }
        let reads = scopes.iter().map(|scope| self.rows(dataset, scope, slice, limit, RowFilter::All));
        let found: Vec<Vec<IndexedRow>> =
            stream::iter(reads.collect::<Vec<_>>()).buffered(CONCURRENT_READS).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Reads the first rows of a slice that a filter has, bucket by bucket.
    async fn rows(
        &self,
        dataset: &str,
        scope: &IndexScope,
        slice: &IndexSlice,
        limit: usize,
        filter: RowFilter<'_>,
    ) -> StoreResult<Vec<IndexedRow>> {
        let Some(mut range) = SliceRange::of(scope, slice) else { return Ok(Vec::new()) };
        let (text, caches) = (scope.text(), slice.begins_newest());
        let page_size = |found: usize| match filter {
            RowFilter::All => limit - found,
            RowFilter::In(_) | RowFilter::Before(_) | RowFilter::At(_) => usize::from(PROLIFIC_AFTER) + 1,
        };
        let (mut buckets, mut first_page) = self.first_buckets(dataset, &text, slice, &range, page_size(0)).await?;
        let mut found = Vec::new();
        loop {
            let last_bucket = buckets.last().copied().filter(|_| buckets.len() >= FIRST_BUCKETS);
            for bucket in buckets {
                let mut has_more = true;
                while has_more && found.len() < limit {
                    let size = page_size(found.len());
                    let mut page = match first_page.take() {
                        Some(page) => page,
                        None => {
                            let scan = range.scan(key![dataset, &text, bucket], slice.descending, size);
                            indexed_rows(self.scan(&scan, caches).await?)?
                        }
                    };
                    has_more = page.len() >= size;
                    if let Some(last) = page.last() {
                        range.continue_after(last, slice.descending);
                    }
                    page.retain(|row| filter.has(row));
                    found.append(&mut page);
                }
            }
            let Some(last_bucket) = last_bucket.filter(|_| found.len() < limit) else { break };
            let rest = range.scan_buckets(key![dataset, &text], slice.descending, Some(last_bucket), MAX_BUCKETS);
            buckets = bucket_numbers(&self.scan(&rest, false).await?);
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Lists the first buckets of a slice, in its order. The first rows of the first bucket come with the list if it
    /// was guessed.
    async fn first_buckets(
        &self,
        dataset: &str,
        scope: &str,
        slice: &IndexSlice,
        range: &SliceRange,
        page_size: usize,
    ) -> StoreResult<(Vec<i64>, Option<Vec<IndexedRow>>)> {
        let scope_hash = hash_of(dataset, scope);
        let guess = self.store.guess_bucket(scope_hash, slice, range);
        let mut scans = vec![range.scan_buckets(key![dataset, scope], slice.descending, None, FIRST_BUCKETS)];
        scans.extend(guess.map(|bucket| range.scan(key![dataset, scope, bucket], slice.descending, page_size)));
        let mut read = self.scan_many(&scans, slice.begins_newest()).await?.into_iter();
        let buckets = bucket_numbers(&read.next().unwrap_or_default());
        if guess.is_some() && buckets.first().copied() == guess {
            return Ok((buckets, read.next().map(indexed_rows).transpose()?));
        }
        self.store.remember_bucket(scope_hash, slice, buckets.first());
        Ok((buckets, None))
    }
}

fn indexed_rows(rows: Vec<Row>) -> StoreResult<Vec<IndexedRow>> {
    let mut found = Vec::with_capacity(rows.len());
    for row in rows {
        let indexed: IndexedThesis = decode(&row)?;
        if let Ok([created_at, Value::Text(id)]) = <[Value; 2]>::try_from(row.clustering) {
            found.push(IndexedRow { created_at: created_at.int(), id, indexed, version: row.version });
        }
    }
    Ok(found)
}

fn hash_of(dataset: &str, scope: &str) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    (dataset, scope).hash(&mut hasher);
    hasher.finish()
}

/// The rows of an index that a read returns.
#[derive(Clone, Copy)]
enum RowFilter<'a> {
    All,
    /// The rows of an author's index that any of these indexes of the same author has.
    In(&'a [IndexScope]),
    /// The rows that an entry before this one wrote.
    Before(i64),
    /// The rows of theses that existed at this time, for indexes of tokens.
    At(i64),
}

impl RowFilter<'_> {
    fn has(self, row: &IndexedRow) -> bool {
        match self {
            Self::All => true,
            Self::In(scopes) => scopes.iter().any(|scope| scope.has(&row.indexed)),
            Self::Before(version) => row.version < version,
            Self::At(at) => existed_at(row.indexed.recorded_at, row.indexed.removed_at, at),
        }
    }
}

#[cfg(test)]
mod tests;
