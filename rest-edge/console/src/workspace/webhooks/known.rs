//! Finds names in a webhook's filters that no token or profile has yet. They are allowed, since one may appear later.

use futures::future::join_all;
use thesis_proto::v1;
use tonic::Code;

use crate::workspace::Workspace;

/// Maximum number of names that a page looks up.
const MAX_NAMES: usize = 6;

/// Finds the tokens and handles of filters that do not exist yet. A name whose read fails otherwise is left out.
pub(super) async fn unknown_names(workspace: &Workspace, filters: Option<&v1::EventFilters>) -> Vec<String> {
    let Some(filters) = filters else { return Vec::new() };
    let tokens = filters.token.iter().map(|name| (name, true));
    let handles = filters.handle.iter().map(|name| (name, false));
    let lookups = tokens.chain(handles).take(MAX_NAMES).map(|(name, is_token)| async move {
        let is_missing =
            if is_token { is_missing_token(workspace, name).await } else { is_missing_profile(workspace, name).await };
        is_missing.then(|| name.clone())
    });
    join_all(lookups).await.into_iter().flatten().collect()
}

async fn is_missing_token(workspace: &Workspace, name: &str) -> bool {
    let message = v1::GetTokenRequest { r#ref: name.to_owned(), ..v1::GetTokenRequest::default() };
    let answer = workspace.core().tokens.get_token(workspace.request(message)).await;
    answer.is_err_and(|status| status.code() == Code::NotFound)
}

async fn is_missing_profile(workspace: &Workspace, name: &str) -> bool {
    let message = v1::GetProfileRequest { r#ref: Some(name.to_owned()), ..v1::GetProfileRequest::default() };
    let answer = workspace.core().profiles.get_profile(workspace.request(message)).await;
    answer.is_err_and(|status| status.code() == Code::NotFound)
}
