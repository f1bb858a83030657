//! Asks the index, on a thread that may block, once it holds the entries that the answer needs.

use std::{future::Future, sync::Arc, time::Duration};

use thesis_proto::error::{ApiError, ErrorCode, FieldError};
use tokio::time::timeout;

use crate::{
    domain::dataset::View,
    error::{Error, Result},
    log::datasets::Datasets,
    search::{Cancellation, ListedThesis, SearchError, SearchFilter, SearchIndex, cancel::CancelOnDrop},
};

/// Longest wait of an answer for the index.
const WAIT: Duration = Duration::from_millis(250);
/// Time in which a search must have its turn and its end.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(2);
/// Seconds after which a search that was too slow may be tried again.
const RETRY_AFTER: u32 = 1;

impl From<SearchError> for Error {
    fn from(error: SearchError) -> Self {
        if let SearchError::TooBroad(prefix) = &error {
            let text = format!("has `{prefix}*`, which matches too many words; write more letters of it");
            return ApiError::validation(&[FieldError::new("q", text)]).into();
        }
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

/// Searches for an organization on the threads of searches. The search ends soon when the caller gives up.
///
/// # Errors
/// `RATE_LIMITED` when too many searches of the organization run or wait, `SERVICE_UNAVAILABLE` when it takes too long or
/// too many of all wait, 422 when it is too broad.
pub async fn in_turn<T: Send + 'static>(
    index: &Arc<SearchIndex>,
    organization: &str,
    cancellation: &Cancellation,
    work: impl FnOnce(&SearchIndex) -> std::result::Result<T, SearchError> + Send + 'static,
) -> Result<T> {
    let _cancel = CancelOnDrop(cancellation.clone());
    let searching = async {
        let turn = index.turns.take_turn(organization).await?;
        let searched = Arc::clone(index);
        let work = move || {
            let found = work(&searched);
            drop(turn);
            found
        };
        Ok(index.turns.threads.run(work).await.map_err(Error::internal)??)
    };
    timeout(SEARCH_TIMEOUT, searching).await.unwrap_or_else(|_| {
        let text = "the search takes too long; narrow it, or try again later";
        Err(ApiError::new(ErrorCode::ServiceUnavailable, text).with_retry_after(RETRY_AFTER).into())
    })
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

/// Reads theses for an organization in the order of likes, exactly as they are after all writes acknowledged before.
///
/// # Errors
/// `SERVICE_UNAVAILABLE` when the index is not ready within 250 ms, or when store or index do not answer; those of
/// [`in_turn`].
pub async fn likes_page(
    (index, organization): (&Arc<SearchIndex>, &str),
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
    let (view, cancellation) = (view.clone(), narrow.cancellation.clone());
    in_turn(index, organization, &cancellation, move |index| {
        let after = after.as_ref().map(|(likes, created_at, id)| (*likes, *created_at, id.as_str()));
        index.likes_page(&view, &narrow, after, limit)
    })
    .await
}
