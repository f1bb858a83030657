//! The page of one request, with the same call as code.

use std::sync::Arc;

use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use thesis_proto::{time::from_millis, v1};

use super::{KeyNames, TAB, Workspace, badge, code, sdk::parameters};
use crate::{
    Page,
    failure::Failed,
    view::{Badge, Layout, render},
    workspace::code_sample::CodeSample,
};

#[derive(Template)]
#[template(path = "request.html")]
struct RequestPage {
    layout: Layout,
    workspace: Workspace,
    request: v1::LoggedRequest,
    badge: Badge,
    key: String,
    /// The parameters of the query, decoded.
    parameters: Vec<(String, String)>,
    samples: Vec<CodeSample>,
    /// True if the request may have had a body, which the log does not keep.
    had_body: bool,
    /// The path of the list with the other requests of the key.
    of_key: String,
}

pub(super) async fn show(workspace: Workspace, Path((_, _, at, id)): Path<(String, String, i64, String)>) -> Page {
    let message = v1::GetLoggedRequestRequest {
        project_id: workspace.access.project.id.clone(),
        environment: if workspace.live { v1::Environment::Live } else { v1::Environment::Test }.into(),
        began_at: Some(from_millis(at)),
        id,
    };
    let getting = async {
        let answer = workspace.core().accounts.get_logged_request(workspace.signed_in.request(message)).await?;
        answer.into_inner().request.ok_or_else(Failed::missing)
    };
    let (request, keys) = tokio::try_join!(getting, KeyNames::read(&workspace))?;
    let had_body = ["POST", "PATCH"].contains(&&*request.method);
    let console = Arc::clone(&workspace.signed_in.visit.console);
    let page = RequestPage {
        layout: workspace.layout(&format!("{} {}", request.method, request.route)),
        badge: badge(&request.status),
        key: keys.name(&request.key_id).to_owned(),
        parameters: parameters(&request.query),
        samples: code::samples(&request, &console.operations, &console.public_url, had_body),
        had_body,
        of_key: crate::page_query::link(&workspace.path(TAB), &[("key", &request.key_id)]),
        request,
        workspace,
    };
    render(StatusCode::OK, &page)
}
