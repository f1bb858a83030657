//! Profiles, tokens and theses: rows, their indexes, and the slices that lists are made of.

mod changes;
mod slices;

use std::{ops::Bound, sync::Arc};

use prost::Message;
use thesis_proto::reference::handle_form;

use super::{
    index_scope::IndexScope,
    recent_theses::{Moved, RecentTheses},
    row_cache::{Cached, RowCache},
};
use crate::{
    domain::{
        dataset::{Dataset, View},
        entry::{DatasetTotals, Totals},
        row::{HandleClaim, Profile, Thesis, Token},
    },
    key,
    store::{Change, Row, Scan, SharedBackend, StoreError, StoreResult, Table, schema},
};

pub use self::changes::{
    bucket_removal, creation_changes, deletion_changes, handle_release, profile_changes, symbol_release, thesis_change,
    token_changes, totals_changes,
};

/// Stands in place of a token's id in the row with the totals of the whole dataset.
pub const ALL_TOKENS: &str = "*";

/// A bucket of a scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// The scope's text.
    pub scope: String,
    /// The bucket's number.
    pub bucket: i64,
}

impl Bucket {
    /// The buckets that a thesis stands in while it is not deleted.
    #[must_use]
    pub fn of(thesis: &Thesis) -> [Self; 6] {
        IndexScope::of(thesis).map(|scope| Self { scope: scope.text(), bucket: scope.bucket(thesis.created_at) })
    }
}

/// A row of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indexed {
    /// When the thesis was posted.
    pub created_at: i64,
    /// Its id.
    pub id: String,
    /// Its author, in the index of a token; empty in others.
    pub profile_id: String,
}

/// A stretch of an index.
#[derive(Clone, Debug)]
pub struct IndexSlice {
    /// Lower bound, inclusive.
    pub from: i64,
    /// Upper bound, inclusive.
    pub to: i64,
    /// The row to continue after, exclusive.
    pub after: Option<(i64, String)>,
    /// Newest first.
    pub descending: bool,
}

/// Reads of profiles, tokens and theses.
#[derive(Clone)]
pub struct ThesisStore {
    backend: SharedBackend,
    /// Rows kept in memory where this process is the only writer.
    rows: Option<Arc<RowCache>>,
    /// The last day of busy tokens, where whoever uses this store knows of every write.
    recent: Option<Arc<RecentTheses>>,
}

fn decode<M: Message + Default>(row: &Row) -> StoreResult<M> {
    M::decode(row.body.clone()).map_err(|error| StoreError::Damaged(error.to_string()))
}

fn count(row: &Row) -> i64 {
    row.body.as_ref().try_into().map(i64::from_be_bytes).unwrap_or_default()
}

impl ThesisStore {
    /// Rows of this backend.
    #[must_use]
    pub fn new(backend: SharedBackend) -> Self {
        let is_exclusive = backend.is_exclusive();
        Self { backend, rows: is_exclusive.then(Arc::default), recent: is_exclusive.then(Arc::default) }
    }

    /// The store of a dataset's writer, which makes its rows or hears that others made them.
    #[must_use]
    pub fn of_writer(&self, dataset: &str) -> Self {
        let recent = || Arc::new(RecentTheses::of(dataset));
        Self { recent: self.recent.clone().or_else(|| Some(recent())), ..self.clone() }
    }

    /// Others have made rows: what a writer keeps of its dataset is read again.
    pub fn forget_recent(&self) {
        if let Some(recent) = self.recent.as_ref().filter(|_| !self.backend.is_exclusive()) {
            recent.clear();
        }
    }

    /// Makes changes of rows, in the store and in memory.
    ///
    /// # Errors
    /// Fails when the store does not answer.
    pub async fn apply(&self, changes: Vec<Change>) -> StoreResult<()> {
        self.in_step(changes, async |changes| Ok((true, self.backend.apply(changes).await?))).await
    }

    /// Makes changes of rows by a write that tells whether it made them.
    ///
    /// # Errors
    /// The error of the write.
    pub async fn in_step<T>(
        &self,
        changes: Vec<Change>,
        write: impl AsyncFnOnce(Vec<Change>) -> StoreResult<(bool, T)>,
    ) -> StoreResult<T> {
        let Some(recent) = &self.recent else { return write(changes).await.map(|(_, answer)| answer) };
        let moved = changes.iter().filter_map(Moved::by).collect();
        let _writing = self.rows.as_ref().map(|rows| {
            let written = changes.iter().filter(|change| RowCache::keeps(change.table));
            rows.write(
                written.filter_map(|change| Some((change.table, change.key.last()?.text().to_owned()))).collect(),
            )
        });
        let outcome = write(changes).await;
        match &outcome {
            Ok((true, _)) => recent.tell(moved),
            Ok((false, _)) => {}
            Err(_) => recent.clear(),
        }
        outcome.map(|(_, answer)| answer)
    }

    async fn many<M: Cached>(&self, keys: &[(String, &str)]) -> StoreResult<Vec<Option<Arc<M>>>> {
        let kept = |(dataset, id): &(String, &str)| self.rows.as_ref().and_then(|rows| rows.get::<M>(dataset, id));
        let mut found: Vec<Option<Arc<M>>> = keys.iter().map(kept).collect();
        let missing: Vec<usize> = (0..keys.len()).filter(|index| found[*index].is_none()).collect();
        if missing.is_empty() {
            return Ok(found);
        }
        let epoch = self.rows.as_ref().map(|rows| rows.epoch());
        let wanted: Vec<_> = missing.iter().map(|index| key![&keys[*index].0, keys[*index].1]).collect();
        for (index, row) in missing.into_iter().zip(self.backend.get_many(M::TABLE, &wanted).await?) {
            let Some(row) = row else { continue };
            let row = Arc::new(decode::<M>(&row)?);
            if let (Some(rows), Some(epoch)) = (&self.rows, epoch) {
                rows.keep(epoch, &keys[index].0, keys[index].1, &row);
            }
            found[index] = Some(row);
        }
        Ok(found)
    }

    async fn first<M: Cached>(&self, view: &View, id: &str) -> StoreResult<Option<(Dataset, Arc<M>)>> {
        let keys: Vec<_> = view.datasets().iter().map(|dataset| (dataset.to_string(), id)).collect();
        if let Some(rows) = &self.rows {
            // A row is in one dataset only, so a kept one is not looked for in the others.
            let kept = |(name, id): &(String, &str)| rows.get::<M>(name, id);
            let found = view.datasets().iter().zip(&keys).find_map(|(dataset, key)| Some((dataset, kept(key)?)));
            if let Some((dataset, row)) = found {
                return Ok(Some((dataset.clone(), row)));
            }
        }
        let found = self.many(&keys).await?;
        Ok(view.datasets().iter().zip(found).find_map(|(dataset, row)| Some((dataset.clone(), row?))))
    }

    /// Reads a thesis that a view shows, deleted or not.
    ///
    /// # Errors
    /// Fails when the store does not answer.
    pub async fn thesis(&self, view: &View, id: &str) -> StoreResult<Option<(Dataset, Arc<Thesis>)>> {
        let found: Option<(Dataset, Arc<Thesis>)> = self.first(view, id).await?;
        Ok(found.filter(|(_, thesis)| !thesis.is_awaited()))
    }

    /// Reads a profile that a view shows.
    ///
    /// # Errors
    /// Fails when the store does not answer.
    pub async fn profile(&self, view: &View, id: &str) -> StoreResult<Option<(Dataset, Arc<Profile>)>> {
        self.first(view, id).await
    }

    /// Reads a token that a view shows.
    ///
    /// # Errors
    /// Fails when the store does not answer.
    pub async fn token(&self, view: &View, id: &str) -> StoreResult<Option<(Dataset, Arc<Token>)>> {
        self.first(view, id).await
    }

    /// Reads theses by dataset and id, in the order asked; awaited ones too.
    ///
    /// # Errors
    /// Fails when the store does not answer.
    pub async fn theses(&self, keys: &[(String, &str)]) -> StoreResult<Vec<Option<Arc<Thesis>>>> {
        self.many(keys).await
    }

    /// Reads profiles by dataset and id, in the order asked.
    ///
    /// # Errors
    /// Fails when the store does not answer.
    pub async fn profiles(&self, keys: &[(String, &str)]) -> StoreResult<Vec<Option<Arc<Profile>>>> {
        self.many(keys).await
    }

    /// Reads tokens by dataset and id, in the order asked.
    ///
    /// # Errors
    /// Fails when the store does not answer.
    pub async fn tokens(&self, keys: &[(String, &str)]) -> StoreResult<Vec<Option<Arc<Token>>>> {
        self.many(keys).await
    }

    async fn id_at(&self, table: &'static Table, view: &View, name: &str) -> StoreResult<Option<String>> {
        let keys: Vec<_> = view.datasets().iter().map(|dataset| key![dataset.to_string(), name]).collect();
        let rows = self.backend.get_many(table, &keys).await?;
        Ok(rows.into_iter().flatten().next().map(|row| String::from_utf8_lossy(&row.body).into_owned()))
    }

    /// The id of the profile that holds a handle: of those that have it, the one with the latest claim.
    ///
    /// # Errors
    /// Fails when the store does not answer.
    pub async fn profile_id_by_handle(&self, view: &View, handle: &str) -> StoreResult<Option<String>> {
        let handle = handle_form(handle);
        for dataset in view.datasets() {
            let scan = Scan::all(&schema::HANDLE_CLAIMS, key![dataset.to_string(), &handle], usize::MAX);
            let mut latest = None;
            for row in self.backend.scan(&scan).await? {
                let claim: HandleClaim = decode(&row)?;
                latest = latest.max(row.clustering.first().map(|profile| (claim, profile.text().to_owned())));
            }
            if let Some((_, profile)) = latest {
                return Ok(Some(profile));
            }
        }
        Ok(None)
    }

    /// The id of the profile with an upstream user id.
    ///
    /// # Errors
    /// Fails when the store does not answer.
    pub async fn profile_id_by_upstream(&self, view: &View, upstream_id: &str) -> StoreResult<Option<String>> {
        self.id_at(&schema::UPSTREAM_REF, view, upstream_id).await
    }

    async fn ids_in(
        &self,
        table: &'static Table,
        view: &View,
        name: &str,
        chain: Option<&str>,
        limit: usize,
    ) -> StoreResult<Vec<String>> {
        let mut ids = Vec::new();
        for dataset in view.datasets() {
            let mut scan = Scan::all(table, key![dataset.to_string(), name], limit - ids.len());
            if let Some(chain) = chain {
                scan.from = Bound::Included(key![chain]);
                scan.to = Bound::Included(key![chain]);
            }
            let rows = self.backend.scan(&scan).await?;
            ids.extend(rows.into_iter().map(|row| String::from_utf8_lossy(&row.body).into_owned()));
            if ids.len() >= limit {
                break;
            }
        }
        Ok(ids)
    }

    /// The ids of tokens at an address, over chains unless one is named.
    ///
    /// # Errors
    /// Fails when the store does not answer.
    pub async fn token_ids_by_address(
        &self,
        view: &View,
        address: &str,
        chain: Option<&str>,
        limit: usize,
    ) -> StoreResult<Vec<String>> {
        self.ids_in(&schema::TOKEN_ADDRESS, view, address, chain, limit).await
    }

    /// The ids of tokens with a symbol, over chains unless one is named.
    ///
    /// # Errors
    /// Fails when the store does not answer.
    pub async fn token_ids_by_symbol(
        &self,
        view: &View,
        symbol: &str,
        chain: Option<&str>,
        limit: usize,
    ) -> StoreResult<Vec<String>> {
        self.ids_in(&schema::TOKEN_SYMBOL, view, symbol, chain, limit).await
    }

    /// The totals of tokens in a dataset, in the order asked.
    ///
    /// # Errors
    /// Fails when the store does not answer.
    pub async fn totals(&self, dataset: &str, tokens: &[&str]) -> StoreResult<Vec<Totals>> {
        let keys: Vec<_> = tokens.iter().map(|token| key![dataset, *token]).collect();
        let rows = self.backend.get_many(&schema::TOKEN_TOTALS, &keys).await?;
        rows.iter().map(|row| row.as_ref().map_or(Ok(Totals::default()), decode)).collect()
    }

    /// The totals of a project's dataset.
    ///
    /// # Errors
    /// Fails when the store does not answer.
    pub async fn dataset_totals(&self, dataset: &str) -> StoreResult<DatasetTotals> {
        let rows = self.backend.get_many(&schema::TOKEN_TOTALS, &[key![dataset, ALL_TOKENS]]).await?;
        rows.first().and_then(Option::as_ref).map_or(Ok(DatasetTotals::default()), decode)
    }

    /// How many theses authors have on tokens in a dataset, by token and author, in the order asked.
    ///
    /// # Errors
    /// Fails when the store does not answer.
    pub async fn of_authors(&self, dataset: &str, pairs: &[(&str, &str)]) -> StoreResult<Vec<i64>> {
        let keys: Vec<_> = pairs.iter().map(|(token, author)| key![dataset, *token, *author]).collect();
        let rows = self.backend.get_many(&schema::TOKEN_AUTHOR, &keys).await?;
        Ok(rows.iter().map(|row| row.as_ref().map_or(0, count)).collect())
    }

    /// All authors with theses on a token in a dataset: only for a dataset with few.
    ///
    /// # Errors
    /// Fails when the store does not answer.
    pub async fn authors(&self, dataset: &str, token: &str) -> StoreResult<Vec<String>> {
        let scan = Scan::all(&schema::TOKEN_AUTHOR, key![dataset, token], usize::MAX);
        let rows = self.backend.scan(&scan).await?;
        let author = |row: &Row| row.clustering.first().map(|author| author.text().to_owned());
        Ok(rows.iter().filter(|row| count(row) > 0).filter_map(author).collect())
    }
}
