//! Reads the state of the upstream feed, and backfills changes since a time.

use futures::{Stream, stream};
use thesis_proto::{
    time::{from_millis, to_millis},
    v1::{self, backfill_request::Scope, looked_up_page::Scope as Pages},
};

use super::{invalid, time};
use crate::{domain::account::Actor, error::Result, service::Core};

pub async fn get_ingest_status(
    core: &Core,
    _: &Actor,
    _: &v1::GetIngestStatusRequest,
) -> Result<v1::GetIngestStatusResponse> {
    let status = match &core.upstream {
        Some(upstream) => upstream.read_status().await,
        None => v1::IngestStatus {
            state: v1::IngestState::Off.into(),
            breaker: v1::Breaker::Closed.into(),
            look_ups: Some(v1::LookUps::default()),
            ..v1::IngestStatus::default()
        },
    };
    Ok(v1::GetIngestStatusResponse { status: Some(status) })
}

/// Starts a backfill of upstream changes. The work happens while the caller reads its progress, until the last message
/// says that it is done.
pub async fn backfill(
    core: &Core,
    _: &Actor,
    request: &v1::BackfillRequest,
) -> Result<impl Stream<Item = Result<v1::BackfillResponse>> + Send + use<>> {
    let since_ms = time("since", request.since.as_ref())?;
    let (field, scope) = match request.scope.clone() {
        Some(Scope::Token(token)) if token.chain.is_empty() || token.address.is_empty() => {
            return Err(invalid("token", "must have a chain and an address"));
        }
        Some(Scope::Profile(id)) if id.is_empty() => return Err(invalid("profile", "must not be empty")),
        None | Some(Scope::All(false)) => {
            return Err(invalid("all", "must be true unless a token or profile is named"));
        }
        Some(Scope::Token(token)) => ("token", Pages::Token(token)),
        Some(Scope::Profile(id)) => ("profile", Pages::Profile(id)),
        Some(Scope::All(true)) => ("all", Pages::All(true)),
    };
    let Some(upstream) = core.upstream.clone() else {
        return Err(invalid(field, "cannot be fetched while no upstream is configured; set SVC_UPSTREAM_URL"));
    };
    let page = v1::LookedUpPage { scope: Some(scope), since_ms, cursor: None };
    let begun = (upstream, page, v1::BackfillResponse::default());
    Ok(stream::unfold(begun, async |(upstream, mut page, mut response)| {
        if response.done {
            return None;
        }
        let result = upstream.next_page(&mut page).await;
        response.pages += 1;
        response.theses += result.theses;
        response.applied += result.applied;
        let reached = response.reached.as_ref().map(to_millis).into_iter().chain(result.oldest_ms).min();
        response.reached = reached.map(from_millis);
        response.done = page.cursor.is_none();
        Some((Ok(response), (upstream, page, response)))
    }))
}
