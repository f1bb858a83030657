//! Profiles and tokens by their names.

use std::ops::Bound;

use futures::future::try_join_all;
use thesis_proto::reference::handle_form;

use super::{RowReader, decode};
use crate::{
    domain::{dataset::View, row::HandleClaim},
    key,
    store::{Row, Scan, StoreResult, Table, schema},
};

fn id_of(row: &Row) -> String {
    String::from_utf8_lossy(&row.body).into_owned()
}

impl RowReader<'_> {
    /// Finds the profile that holds a handle: the one with the latest claim.
    pub async fn profile_id_by_handle(&self, view: &View, handle: &str) -> StoreResult<Option<String>> {
        let handle = handle_form(handle);
        for dataset in view.datasets() {
            let claims = Scan::all(&schema::HANDLE_CLAIMS, key![dataset.name(), &handle], usize::MAX);
            let mut latest = None;
            for row in self.scan(&claims, true).await? {
                let claim: HandleClaim = decode(&row)?;
                latest = latest.max(row.clustering.first().map(|profile| (claim, profile.text().to_owned())));
            }
            if let Some((_, profile)) = latest {
                return Ok(Some(profile));
            }
        }
        Ok(None)
    }

    pub async fn profile_id_by_upstream(&self, view: &View, upstream_id: &str) -> StoreResult<Option<String>> {
        let reads = view.datasets().iter();
        let reads = reads.map(|dataset| self.row(&schema::UPSTREAM_REF, key![dataset.name(), upstream_id]));
        Ok(try_join_all(reads).await?.iter().flatten().map(id_of).next())
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
            let mut scan = Scan::all(table, key![dataset.name(), name], limit - ids.len());
            if let Some(chain) = chain {
                scan.from = Bound::Included(key![chain]);
                scan.to = Bound::Included(key![chain]);
            }
            ids.extend(self.scan(&scan, true).await?.iter().map(id_of));
            if ids.len() >= limit {
                break;
            }
        }
        Ok(ids)
    }

    /// Finds the tokens at an address, on all chains unless one is given.
    pub async fn token_ids_by_address(
        &self,
        view: &View,
        address: &str,
        chain: Option<&str>,
        limit: usize,
    ) -> StoreResult<Vec<String>> {
        self.ids_in(&schema::TOKEN_ADDRESS, view, address, chain, limit).await
    }

    /// Finds the tokens with a symbol, on all chains unless one is given.
    pub async fn token_ids_by_symbol(
        &self,
        view: &View,
        symbol: &str,
        chain: Option<&str>,
        limit: usize,
    ) -> StoreResult<Vec<String>> {
        self.ids_in(&schema::TOKEN_SYMBOL, view, symbol, chain, limit).await
    }

    /// Finds the tokens that have or had a symbol.
    pub async fn token_ids_by_any_symbol(&self, view: &View, symbol: &str, limit: usize) -> StoreResult<Vec<String>> {
        let mut ids = Vec::new();
        for dataset in view.datasets() {
            let scan = Scan::all(&schema::EVENT_SYMBOL, key![dataset.name(), symbol], limit);
            let rows = self.scan(&scan, true).await?;
            ids.extend(rows.iter().filter_map(|row| Some(row.clustering.first()?.text().to_owned())));
        }
        Ok(ids)
    }
}
