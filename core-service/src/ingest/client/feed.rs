//! The feed's connection.

use bytes::Bytes;
use reqwest::{
    Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE},
};
use thesis_proto::time::{parse_iso8601, to_millis};
use tokio::time::timeout;

use super::{
    UpstreamClient,
    response::{LookupError, MAX_OBJECT, whole, why},
    send,
};
use crate::ingest::objects::json;

/// The reason why the feed is not open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    #[error("the upstream no longer has the position")]
    PositionLost {
        /// The time of the oldest frame that the upstream has.
        oldest_at_ms: Option<i64>,
    },
    /// The feed may be opened later.
    #[error("{why}")]
    Failed {
        status: Option<u16>,
        /// The pause that the upstream requests, in seconds.
        retry_after_s: Option<u64>,
        /// The reason for the operator, without any part of the response body.
        why: String,
    },
}

impl From<LookupError> for FeedError {
    fn from(error: LookupError) -> Self {
        match error {
            LookupError::NotFound => Self::Failed { status: Some(404), retry_after_s: None, why: error.to_string() },
            LookupError::Failed { status, retry_after_s, why } => Self::Failed { status, retry_after_s, why },
        }
    }
}

/// An open feed. It has no read timeout: the reader watches the time since the last frame.
#[derive(Debug)]
pub struct Feed {
    response: Response,
}

impl Feed {
    /// The next piece, or the reason of a failure; none at the end. The future can be dropped without loss.
    pub async fn next(&mut self) -> Option<Result<Bytes, String>> {
        self.response.chunk().await.map_err(why).transpose()
    }
}

impl UpstreamClient {
    /// Opens the feed behind a position, or from now.
    pub async fn feed(&self, after: Option<&str>) -> Result<Feed, FeedError> {
        let opened = self.open(after);
        timeout(self.timeout, opened).await.unwrap_or_else(|_| Err(self.late().into()))
    }

    async fn open(&self, after: Option<&str>) -> Result<Feed, FeedError> {
        let query: Vec<_> = after.map(|after| ("after", after)).into_iter().collect();
        let url = self.url(&["feed"], &query).ok_or(LookupError::NotFound)?;
        let response = send(self.http.get(url).header(ACCEPT, "text/event-stream")).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::GONE if after.is_some() => {
                return Err(FeedError::PositionLost { oldest_at_ms: oldest(response).await });
            }
            _ => return Err(LookupError::from_response(&response).into()),
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.to_ascii_lowercase().starts_with("text/event-stream") {
            Ok(Feed { response })
        } else {
            Err(LookupError::failed("the upstream answers with no stream of events".to_owned()).into())
        }
    }
}

async fn oldest(response: Response) -> Option<i64> {
    let body = json(&whole(response, MAX_OBJECT).await.ok()?).ok()?;
    body.get("oldest_at")?.as_str().and_then(parse_iso8601).as_ref().map(to_millis)
}
