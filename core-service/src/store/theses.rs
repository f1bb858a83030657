//! Profiles, tokens and theses: rows, their indexes, and the slices that lists are made of.

use std::ops::Bound;

use bytes::Bytes;
use prost::Message;

use super::{Change, Consistency, Row, Scan, SharedBackend, StoreError, StoreResult, Table, tables};
use crate::{
    domain::{
        dataset::{Dataset, View},
        handle,
        reference::address_form,
        row::{IndexedThesis, Profile, Thesis, Token},
        window::DAY_MS,
    },
    key,
};

/// What an index of theses is by. A token fixes its chain, so six scopes serve every combination of filters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum IndexScope {
    /// Every thesis.
    All,
    /// Of a profile.
    Profile(String),
    /// On a token.
    Token(String),
    /// On a chain.
    Chain(String),
    /// Of a profile on a token.
    ProfileToken(String, String),
    /// Of a profile on a chain.
    ProfileChain(String, String),
}

impl IndexScope {
    /// The scopes that a thesis stands in.
    #[must_use]
    pub fn of(thesis: &Thesis) -> [Self; 6] {
        let (profile, token, chain) = (&thesis.profile_id, &thesis.token_id, &thesis.chain);
        [
            Self::All,
            Self::Profile(profile.clone()),
            Self::Token(token.clone()),
            Self::Chain(chain.clone()),
            Self::ProfileToken(profile.clone(), token.clone()),
            Self::ProfileChain(profile.clone(), chain.clone()),
        ]
    }

    fn text(&self) -> String {
        match self {
            Self::All => "all".to_owned(),
            Self::Profile(profile) => format!("p:{profile}"),
            Self::Token(token) => format!("t:{token}"),
            Self::Chain(chain) => format!("c:{chain}"),
            Self::ProfileToken(profile, token) => format!("pt:{profile}:{token}"),
            Self::ProfileChain(profile, chain) => format!("pc:{profile}:{chain}"),
        }
    }

    /// Busy scopes get narrow buckets, sparse ones wide, so that a page is a slice or two either way.
    fn width(&self) -> i64 {
        match self {
            Self::All | Self::Chain(_) => DAY_MS,
            Self::Token(_) => 7 * DAY_MS,
            Self::Profile(_) | Self::ProfileToken(..) | Self::ProfileChain(..) => 90 * DAY_MS,
        }
    }

    fn bucket(&self, created_at: i64) -> i64 {
        created_at.div_euclid(self.width())
    }
}

/// A row of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indexed {
    /// When the thesis was posted.
    pub created_at: i64,
    /// Its id.
    pub id: String,
    /// Its author.
    pub profile_id: String,
}

/// A stretch of an index.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// Lower bound, inclusive.
    pub from: i64,
    /// Upper bound, inclusive.
    pub to: i64,
    /// Go on after this row, exclusive.
    pub after: Option<(i64, String)>,
    /// Newest first.
    pub descending: bool,
}

/// Reads of profiles, tokens and theses.
#[derive(Clone)]
pub struct ThesisStore {
    backend: SharedBackend,
}

fn decode<M: Message + Default>(row: &Row) -> StoreResult<M> {
    M::decode(row.body.clone()).map_err(|error| StoreError::Damaged(error.to_string()))
}

fn put(table: &'static Table, key: Vec<super::Value>, version: i64, body: Bytes) -> Change {
    Change { table, key, version, body: Some(body), ttl: None }
}

/// Changes that store a profile and make it findable.
pub fn profile_changes(dataset: &str, profile: &Profile, version: i64, changes: &mut Vec<Change>) {
    let id = || Bytes::copy_from_slice(profile.id.as_bytes());
    changes.push(put(&tables::PROFILE, key![dataset, &profile.id], version, profile.encode_to_vec().into()));
    changes.push(put(&tables::HANDLE_CLAIM, key![dataset, handle::claim(&profile.handle)], version, id()));
    if !profile.upstream_id.is_empty() {
        changes.push(put(&tables::UPSTREAM_REF, key![dataset, &profile.upstream_id], version, id()));
    }
}

/// Changes that store a token and make it findable.
pub fn token_changes(dataset: &str, token: &Token, version: i64, changes: &mut Vec<Change>) {
    let id = || Bytes::copy_from_slice(token.id.as_bytes());
    let address = address_form(&token.address);
    changes.push(put(&tables::TOKEN, key![dataset, &token.id], version, token.encode_to_vec().into()));
    changes.push(put(&tables::TOKEN_ADDRESS, key![dataset, &address, &token.chain], version, id()));
    changes.push(put(
        &tables::TOKEN_SYMBOL,
        key![dataset, handle::symbol(&token.symbol), &token.chain, &address],
        version,
        id(),
    ));
}

/// Changes that store a thesis and its index rows. `is_new_bucket` tells whether a bucket is not known to be listed yet.
pub fn thesis_changes(
    dataset: &str,
    thesis: &Thesis,
    version: i64,
    mut is_new_bucket: impl FnMut(&str, i64) -> bool,
    changes: &mut Vec<Change>,
) {
    changes.push(put(&tables::THESIS, key![dataset, &thesis.id], version, thesis.encode_to_vec().into()));
    let indexed: Bytes = IndexedThesis { profile_id: thesis.profile_id.clone(), deleted: false }.encode_to_vec().into();
    for scope in IndexScope::of(thesis) {
        let (text, bucket) = (scope.text(), scope.bucket(thesis.created_at));
        if is_new_bucket(&text, bucket) {
            changes.push(put(&tables::INDEX_BUCKET, key![dataset, &text, bucket], version, Bytes::new()));
        }
        let key = key![dataset, text, bucket, thesis.created_at, &thesis.id];
        changes.push(put(&tables::THESIS_INDEX, key, version, indexed.clone()));
    }
}

impl ThesisStore {
    /// Rows of this backend.
    #[must_use]
    pub fn new(backend: SharedBackend) -> Self {
        Self { backend }
    }

    async fn many<M: Message + Default>(
        &self,
        table: &'static Table,
        keys: &[(String, &str)],
    ) -> StoreResult<Vec<Option<M>>> {
        let keys: Vec<_> = keys.iter().map(|(dataset, id)| key![dataset, *id]).collect();
        let rows = self.backend.get_many(table, &keys).await?;
        rows.iter().map(|row| row.as_ref().map(decode).transpose()).collect()
    }

    async fn first<M: Message + Default>(
        &self,
        table: &'static Table,
        view: &View,
        id: &str,
    ) -> StoreResult<Option<(Dataset, M)>> {
        let keys: Vec<_> = view.datasets().iter().map(|dataset| (dataset.to_string(), id)).collect();
        let found = self.many(table, &keys).await?;
        Ok(view.datasets().iter().zip(found).find_map(|(dataset, row)| Some((dataset.clone(), row?))))
    }

    /// Reads a thesis that a view shows, deleted or not.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn thesis(&self, view: &View, id: &str) -> StoreResult<Option<(Dataset, Thesis)>> {
        self.first(&tables::THESIS, view, id).await
    }

    /// Reads a profile that a view shows.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn profile(&self, view: &View, id: &str) -> StoreResult<Option<(Dataset, Profile)>> {
        self.first(&tables::PROFILE, view, id).await
    }

    /// Reads a token that a view shows.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn token(&self, view: &View, id: &str) -> StoreResult<Option<(Dataset, Token)>> {
        self.first(&tables::TOKEN, view, id).await
    }

    /// Reads theses by dataset and id, in the order asked.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn theses(&self, keys: &[(String, &str)]) -> StoreResult<Vec<Option<Thesis>>> {
        self.many(&tables::THESIS, keys).await
    }

    /// Reads profiles by dataset and id, in the order asked.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn profiles(&self, keys: &[(String, &str)]) -> StoreResult<Vec<Option<Profile>>> {
        self.many(&tables::PROFILE, keys).await
    }

    /// Reads tokens by dataset and id, in the order asked.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn tokens(&self, keys: &[(String, &str)]) -> StoreResult<Vec<Option<Token>>> {
        self.many(&tables::TOKEN, keys).await
    }

    async fn id_at(&self, table: &'static Table, view: &View, name: &str) -> StoreResult<Option<String>> {
        let keys: Vec<_> = view.datasets().iter().map(|dataset| key![dataset.to_string(), name]).collect();
        let rows = self.backend.get_many(table, &keys).await?;
        Ok(rows.into_iter().flatten().next().map(|row| String::from_utf8_lossy(&row.body).into_owned()))
    }

    /// The id of the profile that holds a handle.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn profile_id_by_handle(&self, view: &View, handle: &str) -> StoreResult<Option<String>> {
        self.id_at(&tables::HANDLE_CLAIM, view, &handle::claim(handle)).await
    }

    /// The id of the profile with an upstream user id.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn profile_id_by_upstream(&self, view: &View, upstream_id: &str) -> StoreResult<Option<String>> {
        self.id_at(&tables::UPSTREAM_REF, view, upstream_id).await
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
    /// When the store does not answer.
    pub async fn token_ids_by_address(
        &self,
        view: &View,
        address: &str,
        chain: Option<&str>,
        limit: usize,
    ) -> StoreResult<Vec<String>> {
        self.ids_in(&tables::TOKEN_ADDRESS, view, address, chain, limit).await
    }

    /// The ids of tokens with a symbol, over chains unless one is named.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn token_ids_by_symbol(
        &self,
        view: &View,
        symbol: &str,
        chain: Option<&str>,
        limit: usize,
    ) -> StoreResult<Vec<String>> {
        self.ids_in(&tables::TOKEN_SYMBOL, view, symbol, chain, limit).await
    }

    /// Reads a stretch of an index, at most `limit` rows.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn stretch(
        &self,
        dataset: &Dataset,
        scope: &IndexScope,
        stretch: &Stretch,
        limit: usize,
    ) -> StoreResult<Vec<Indexed>> {
        let (dataset, text) = (dataset.to_string(), scope.text());
        let (mut from, mut to) = (Bound::Included(key![stretch.from]), Bound::Included(key![stretch.to]));
        let (mut lowest, mut highest) = (scope.bucket(stretch.from), scope.bucket(stretch.to));
        if let Some((created_at, id)) = &stretch.after {
            let after = Bound::Excluded(key![*created_at, id]);
            if stretch.descending {
                (to, highest) = (after, highest.min(scope.bucket(*created_at)));
            } else {
                (from, lowest) = (after, lowest.max(scope.bucket(*created_at)));
            }
        }
        if stretch.from > stretch.to || lowest > highest {
            return Ok(Vec::new());
        }
        let buckets = Scan {
            table: &tables::INDEX_BUCKET,
            partition: key![&dataset, &text],
            from: Bound::Included(key![lowest]),
            to: Bound::Included(key![highest]),
            reverse: stretch.descending,
            limit: usize::try_from(highest - lowest + 1).unwrap_or(usize::MAX).min(5_000),
            consistency: Consistency::Quorum,
        };
        let mut found: Vec<Indexed> = Vec::new();
        for bucket in self.backend.scan(&buckets).await? {
            let bucket = bucket.clustering.first().map_or(0, super::Value::int);
            let scan = Scan {
                table: &tables::THESIS_INDEX,
                partition: key![&dataset, &text, bucket],
                from: from.clone(),
                to: to.clone(),
                reverse: stretch.descending,
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
