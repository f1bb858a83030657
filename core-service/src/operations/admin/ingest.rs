//! How live data follows its upstream, and fetching what changed there since a time.

use std::sync::Arc;

use futures::stream::BoxStream;
use thesis_proto::{
    error::ErrorCode,
    time::is_time,
    v1::{self, backfill_request::Scope},
};

use super::invalid;
use crate::{
    error::{Error, Result},
    operations::Core,
};

/// The progress of a backfill, until its last message says that it is done.
pub type Progress = BoxStream<'static, Result<v1::BackfillResponse>>;

/// Tells how live data follows its upstream.
///
/// # Errors
/// When the core that follows it, or the store, does not answer.
pub async fn status(_core: &Core) -> Result<v1::IngestStatus> {
    Ok(v1::IngestStatus {
        state: v1::IngestState::Off.into(),
        breaker: v1::Breaker::Closed.into(),
        look_ups: Some(v1::LookUps::default()),
        ..v1::IngestStatus::default()
    })
}

/// Begins to fetch what changed upstream; the work is done while its progress is read.
///
/// # Errors
/// 422, when no upstream is configured too, or when the upstream or the store does not answer.
pub async fn backfill(_core: &Arc<Core>, asked: v1::BackfillRequest) -> Result<Progress> {
    if !asked.since.as_ref().is_some_and(is_time) {
        return Err(invalid("since", "must be a time of the years 1 to 9999"));
    }
    match &asked.scope {
        Some(Scope::Token(token)) if token.chain.is_empty() || token.address.is_empty() => {
            return Err(invalid("token", "must have a chain and an address"));
        }
        Some(Scope::Profile(id)) if id.is_empty() => return Err(invalid("profile", "must not be empty")),
        None | Some(Scope::All(false)) => {
            return Err(invalid("all", "must be true unless a token or profile is named"));
        }
        Some(Scope::Token(_) | Scope::Profile(_) | Scope::All(true)) => {}
    }
    Err(Error::new(ErrorCode::ValidationFailed, "no upstream is configured (SVC_UPSTREAM_URL)"))
}
