//! Theses of responses: index rows, joined with the present authors and tokens.

use std::{collections::HashMap, sync::Arc};

use futures::future::try_join_all;
use thesis_proto::v1;

use crate::{
    convert,
    domain::{
        dataset::{Dataset, View},
        row::{Profile, Thesis, Token},
        window::Floor,
    },
    error::Result,
    search::ListedThesis,
    service::Core,
    store::StoreResult,
    tables::{
        index_scope::IndexScope,
        theses::{IndexSlice, RowReader},
    },
};

/// Reads the theses of index rows that still exist. Some may have been deleted in between.
pub(super) async fn still_there(
    reader: &RowReader<'_>,
    rows: impl IntoIterator<Item = (Dataset, String)>,
) -> StoreResult<Vec<(Dataset, Arc<Thesis>)>> {
    let rows: Vec<(Dataset, String)> = rows.into_iter().collect();
    let keys: Vec<(String, &str)> = rows.iter().map(|(dataset, id)| (dataset.to_string(), id.as_str())).collect();
    let theses = reader.theses(&keys).await?;
    let found = rows.iter().zip(theses).filter_map(|((dataset, _), thesis)| Some((dataset.clone(), thesis?)));
    Ok(found.filter(|(_, thesis)| thesis.deleted_at.is_none() && !thesis.is_awaited()).collect())
}

/// The slices of the index to merge.
pub(super) struct Slices {
    /// Their scopes, as [`ThesisStore::slices`] takes them.
    pub scopes: Vec<IndexScope>,
    /// The lower bound of each dataset.
    pub floor: Floor,
    /// The upper bound, inclusive.
    pub to: i64,
    /// Newest first.
    pub descending: bool,
}

/// Merges the slices of the datasets and scopes, after the given time and id.
pub(super) async fn by_time(
    core: &Core,
    view: &View,
    slices: &Slices,
    after: Option<(i64, String)>,
    limit: usize,
) -> Result<Vec<ListedThesis>> {
    let mut rows = Vec::new();
    let Slices { floor, to, descending, .. } = *slices;
    let reads = view.datasets().iter().map(|dataset| {
        let slice = IndexSlice { from: floor.bound_for(dataset), to, after: after.clone(), descending };
        async move { core.shared.theses.slices(dataset, &slices.scopes, &slice, limit).await }
    });
    for (dataset, found) in view.datasets().iter().zip(try_join_all(reads).await?) {
        rows.extend(found.into_iter().map(|row| ListedThesis {
            dataset: dataset.clone(),
            id: row.id,
            likes: None,
            created_at: row.created_at,
        }));
    }
    rows.sort_unstable_by(|a, b| {
        let order = (a.created_at, &a.id).cmp(&(b.created_at, &b.id));
        if descending { order.reverse() } else { order }
    });
    rows.truncate(limit);
    Ok(rows)
}

/// Gives each thesis its author and token.
pub(super) async fn with_references(
    reader: &RowReader<'_>,
    theses: &[(Dataset, Arc<Thesis>)],
) -> StoreResult<Vec<v1::Thesis>> {
    let home = |dataset: &Dataset, shared: bool| if shared { Dataset::Sandbox } else { dataset.clone() }.to_string();
    let mut profiles: HashMap<&str, (String, Option<Arc<Profile>>)> = HashMap::new();
    let mut tokens: HashMap<&str, (String, Option<Arc<Token>>)> = HashMap::new();
    for (dataset, thesis) in theses {
        profiles.entry(&thesis.profile_id).or_insert_with(|| (home(dataset, thesis.sandbox_profile), None));
        tokens.entry(&thesis.token_id).or_insert_with(|| (home(dataset, thesis.sandbox_token), None));
    }
    let profile_keys: Vec<(String, &str)> = profiles.iter().map(|(id, (home, _))| (home.clone(), *id)).collect();
    let token_keys: Vec<(String, &str)> = tokens.iter().map(|(id, (home, _))| (home.clone(), *id)).collect();
    let (authors, of_tokens) = tokio::try_join!(reader.profiles(&profile_keys), reader.tokens(&token_keys))?;
    for (slot, row) in profiles.values_mut().zip(authors) {
        slot.1 = row;
    }
    for (slot, row) in tokens.values_mut().zip(of_tokens) {
        slot.1 = row;
    }
    Ok(theses
        .iter()
        .filter_map(|(dataset, thesis)| {
            let author = profiles.get(thesis.profile_id.as_str())?.1.as_ref()?;
            let token = tokens.get(thesis.token_id.as_str())?.1.as_ref()?;
            Some(convert::row::thesis(dataset, thesis, author, token))
        })
        .collect())
}
