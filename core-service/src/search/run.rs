//! Runs searches on threads that may block, once the index holds the entries that the response needs.

use std::{future::Future, sync::Arc, time::Duration};

use thesis_net::blocking;
use thesis_proto::error::{ApiError, ErrorCode, FieldError};
use tokio::time::timeout;

use crate::{
    domain::dataset::View,
    error::{Error, Result},
    search::{
        Cancellation, SearchError, SearchIndex,
        cancel::{CancelOnDrop, MAX_DOCUMENTS},
    },
};

/// A request waits for the index at most this time.
const INDEX_TIMEOUT: Duration = Duration::from_millis(250);
/// A search must get its turn and end within this time.
pub(super) const SEARCH_TIMEOUT: Duration = Duration::from_secs(2);
/// Seconds after which a client may retry a search that was too slow.
const RETRY_AFTER_SECONDS: u32 = 1;

impl From<SearchError> for Error {
    fn from(error: SearchError) -> Self {
        match &error {
            SearchError::TooBroad(prefix) => {
                let text = format!("has `{prefix}*`, which matches too many words; write more letters of it");
                ApiError::validation(&[FieldError::new("q", text)]).into()
            }
            SearchError::Exhausted => {
                let text = format!("must be later: more than {MAX_DOCUMENTS} rows match; narrow the window");
                ApiError::validation(&[FieldError::new("created_after", text)]).into()
            }
            _ => Self { api: Box::new(ApiError::unavailable()), why: Some(error.to_string()) },
        }
    }
}

pub(super) fn too_slow() -> Error {
    let text = "the search takes too long; narrow it, or try again later";
    ApiError::new(ErrorCode::ServiceUnavailable, text).with_retry_after(RETRY_AFTER_SECONDS).into()
}

/// Runs work on the index on a thread that may block.
pub async fn with_index<T: Send + 'static>(
    index: &Arc<SearchIndex>,
    work: impl FnOnce(&SearchIndex) -> std::result::Result<T, SearchError> + Send + 'static,
) -> Result<T> {
    let index = Arc::clone(index);
    Ok(blocking::run(move || work(&index)).await.map_err(Error::internal)??)
}

/// Runs a search of an organization on the search threads. The search ends soon after the caller gives up.
///
/// # Errors
/// `RATE_LIMITED` when too many searches of the organization run or wait, `SERVICE_UNAVAILABLE` when it takes too long
/// or too many searches of all organizations wait, 422 when it is too broad or matches too many documents.
pub async fn run_in_turn<T: Send + 'static>(
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
    timeout(SEARCH_TIMEOUT, searching).await.unwrap_or_else(|_| Err(too_slow()))
}

/// Waits a short time for the index. The request fails if the index is not ready by then.
pub async fn with_timeout(ready: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::time::timeout(INDEX_TIMEOUT, ready).await.map_err(|_| {
        let why = "the search index is behind".to_owned();
        Error { api: Box::new(ApiError::unavailable()), why: Some(why) }
    })?
}

/// Waits until the index holds all entries that the logs of a view had at their first request. Before that, a partial
/// result would look like a complete one.
pub async fn wait_until_complete(index: &SearchIndex, view: &View) {
    view.datasets().iter().for_each(|dataset| index.request_dataset(dataset));
    for dataset in view.datasets() {
        index.wait_until_complete(dataset).await;
    }
}
