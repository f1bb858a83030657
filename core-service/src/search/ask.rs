//! Asks the index, on a thread that may block, once it holds the entries that the answer needs.

use std::{future::Future, sync::Arc, time::Duration};

use thesis_proto::error::ApiError;

use crate::{
    domain::dataset::View,
    error::{Error, Result},
    log::datasets::Datasets,
    search::{ListedThesis, SearchError, SearchFilter, SearchIndex},
};

/// Longest wait of an answer for the index.
const WAIT: Duration = Duration::from_millis(250);

impl From<SearchError> for Error {
    fn from(error: SearchError) -> Self {
        Self { api: Box::new(ApiError::unavailable()), why: Some(error.to_string()) }
    }
}

/// Works with the index on a thread that may block.
pub async fn with_index<T: Send + 'static>(
    index: &Arc<SearchIndex>,
    work: impl FnOnce(&SearchIndex) -> std::result::Result<T, SearchError> + Send + 'static,
) -> Result<T> {
    let index = Arc::clone(index);
    Ok(tokio::task::spawn_blocking(move || work(&index)).await.map_err(Error::internal)??)
}

/// Waits a short time for the index; the request fails if it is not ready then.
pub async fn in_time(there: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::time::timeout(WAIT, there).await.map_err(|_| {
        let why = "the search index is behind".to_owned();
        Error { api: Box::new(ApiError::unavailable()), why: Some(why) }
    })?
}

/// Waits until the index has taken in all that the logs of a view held when they were first asked for: a partial answer
/// would look like a whole one.
pub async fn whole(index: &SearchIndex, view: &View) {
    view.datasets().iter().for_each(|dataset| index.ask_for(dataset));
    for dataset in view.datasets() {
        index.whole(dataset).await;
    }
}

/// Reads theses in the order of likes, exactly as they are after all writes acknowledged before.
///
/// # Errors
/// `SERVICE_UNAVAILABLE` when the index is not ready within 250 ms, or when store or index do not answer.
pub async fn likes_page(
    index: &Arc<SearchIndex>,
    datasets: &Datasets,
    view: &View,
    narrow: SearchFilter,
    after: Option<(Option<i64>, i64, String)>,
    limit: usize,
) -> Result<Vec<ListedThesis>> {
    in_time(async {
        whole(index, view).await;
        for dataset in view.datasets() {
            index.reach(dataset, datasets.refresh(dataset).await?).await;
        }
        Ok(())
    })
    .await?;
    let view = view.clone();
    with_index(index, move |index| {
        let after = after.as_ref().map(|(likes, created_at, id)| (*likes, *created_at, id.as_str()));
        index.likes_page(&view, &narrow, after, limit)
    })
    .await
}
