//! Theses of responses: index rows, joined with the present authors and tokens.

use std::sync::Arc;

use futures::future::try_join_all;
use thesis_proto::{json::RenderedRows, v1};

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
    let keys: Vec<(&str, &str)> = rows.iter().map(|(dataset, id)| (dataset.name(), id.as_str())).collect();
    let theses = reader.theses(&keys).await?;
    let found = rows.into_iter().zip(theses).filter_map(|((dataset, _), thesis)| Some((dataset, thesis?)));
    Ok(found.filter(|(_, thesis)| thesis.deleted_at.is_none() && !thesis.is_awaited()).collect())
}

/// The slices of the index to merge.
pub(super) struct Slices {
    /// Their scopes, as [`RowReader::slices`] takes them.
    pub scopes: Vec<IndexScope>,
    /// The lower bound of each dataset.
    pub floor: Floor,
    /// The upper bound, inclusive.
    pub to: i64,
    /// Newest first.
    pub descending: bool,
    /// If set, theses recorded after this time are left out. All scopes must be of tokens.
    pub as_of: Option<i64>,
}

/// Merges the slices of the datasets and scopes, after the given time and id.
pub(super) async fn by_time(
    reader: &RowReader<'_>,
    view: &View,
    slices: &Slices,
    after: Option<(i64, String)>,
    limit: usize,
) -> Result<Vec<ListedThesis>> {
    let mut rows = Vec::new();
    let Slices { floor, to, descending, as_of, .. } = *slices;
    let reads = view.datasets().iter().map(|dataset| {
        let slice = IndexSlice { from: floor.bound_for(dataset), to, after: after.clone(), descending };
        async move {
            let Some(at) = as_of else { return reader.slices(dataset, &slices.scopes, &slice, limit).await };
            let reads = slices.scopes.iter().map(|scope| reader.recorded_by(dataset, scope, &slice, at, limit));
            Ok(try_join_all(reads).await?.concat())
        }
    });
    for (dataset, found) in view.datasets().iter().zip(try_join_all(reads).await?) {
        rows.extend(found.into_iter().map(|row| (row.created_at, row.id, dataset)));
    }
    // Each slice is in order, so a sort that finds ordered parts only has to merge them.
    rows.sort_by(|(at, id, _), (other_at, other_id, _)| {
        let order = (at, id).cmp(&(other_at, other_id));
        if descending { order.reverse() } else { order }
    });
    rows.truncate(limit);
    let listed = |(created_at, id, dataset): (i64, String, &Dataset)| {
        let dataset = dataset.clone();
        ListedThesis { dataset, id, likes: None, created_at }
    };
    Ok(rows.into_iter().map(listed).collect())
}

/// A thesis with its author and token as they are now.
struct JoinedThesis<'a> {
    dataset: &'a Dataset,
    thesis: &'a Arc<Thesis>,
    author: Arc<Profile>,
    token: Arc<Token>,
}

/// Reads the authors and tokens of theses. A thesis whose author or token is missing is left out.
async fn joined<'a>(
    reader: &RowReader<'_>,
    theses: &'a [(Dataset, Arc<Thesis>)],
) -> StoreResult<Vec<JoinedThesis<'a>>> {
    fn home(dataset: &Dataset, is_of_sandbox: bool) -> &str {
        if is_of_sandbox { Dataset::SANDBOX_NAME } else { dataset.name() }
    }
    let authors = theses.iter().map(|(dataset, thesis)| (home(dataset, thesis.sandbox_profile), &*thesis.profile_id));
    let tokens = theses.iter().map(|(dataset, thesis)| (home(dataset, thesis.sandbox_token), &*thesis.token_id));
    let (author_keys, token_keys) = (authors.collect::<Vec<_>>(), tokens.collect::<Vec<_>>());
    let (authors, tokens) = tokio::try_join!(reader.profiles(&author_keys), reader.tokens(&token_keys))?;
    let rows = theses.iter().zip(authors).zip(tokens).filter_map(|(((dataset, thesis), author), token)| {
        Some(JoinedThesis { dataset, thesis, author: author?, token: token? })
    });
    Ok(rows.collect())
}

/// The JSON of the theses of index rows that still exist, each with its author and token.
pub(super) async fn rendered(
    core: &Core,
    reader: &RowReader<'_>,
    rows: Vec<(Dataset, String)>,
) -> StoreResult<RenderedRows> {
    let (lists, steps) = (&core.shared.rendered, reader.write_steps());
    if let Some(known) = steps.and_then(|steps| lists.known_theses(&rows, steps)) {
        return Ok(RenderedRows(known));
    }
    let theses = still_there(reader, rows).await?;
    let render = |row: JoinedThesis<'_>| lists.thesis(row.dataset, row.thesis, &row.author, &row.token, steps);
    Ok(RenderedRows(joined(reader, &theses).await?.into_iter().map(render).collect()))
}

/// Gives each thesis its author and token.
pub(super) async fn with_references(
    reader: &RowReader<'_>,
    theses: &[(Dataset, Arc<Thesis>)],
) -> StoreResult<Vec<v1::Thesis>> {
    let joined = joined(reader, theses).await?;
    Ok(joined.iter().map(|row| convert::row::thesis(row.dataset, row.thesis, &row.author, &row.token)).collect())
}
