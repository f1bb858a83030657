//! The form that verifies a thesis and explains its checks.

mod code;
mod verdict;

use askama::Template;
use thesis_proto::{error::ApiError, v1};
use tonic::Status;

use self::{code::RequestCode, verdict::Verdict};
use super::{VERDICT_RECEIPT, VERIFY, token::candidates};
use crate::{
    Page,
    form::Faults,
    page_query::{PageQuery, link},
    view::{Layout, render},
    workspace::Workspace,
};

/// The fields of the form, as the API names them.
const FIELDS: &[&str] = &["handle", "profile_id", "token", "chain", "created_after", "created_before", "contains"];

#[derive(Template)]
#[template(path = "verify.html")]
struct VerifyPage {
    layout: Layout,
    workspace: Workspace,
    query: PageQuery,
    verdict: Option<Verdict>,
    /// The verification as a request to the API.
    code: Option<RequestCode>,
    /// Path and id of the thesis in the verdict.
    thesis: Option<(String, String)>,
    /// Path and id of the profile in the verdict.
    profile: Option<(String, String)>,
    /// Path of the verdict's receipt.
    receipt_href: String,
    /// Tokens that match an ambiguous reference: a text, and the link that verifies with this token.
    candidates: Vec<(String, String)>,
    faults: Faults,
}

fn request(query: &PageQuery, receipt: bool) -> Result<v1::VerifyThesisRequest, Status> {
    let mut read = query.reader();
    let message = v1::VerifyThesisRequest {
        handle: read.text("handle"),
        profile_id: read.text("profile_id"),
        token: read.text("token"),
        chain: read.text("chain"),
        created_after: read.time("created_after"),
        created_before: read.time("created_before"),
        // Spaces count in this text.
        contains: read.exact("contains"),
        receipt: receipt.then_some(true),
    };
    read.finish(message)
}

/// Verifies the claim of the query. With `receipt` the verification has a receipt or a signed statement.
pub(super) async fn verify(
    workspace: &Workspace,
    query: &PageQuery,
    receipt: bool,
) -> Result<v1::ThesisVerification, Status> {
    let answer = workspace.core().theses.verify_thesis(workspace.request(request(query, receipt)?)).await?;
    Ok(answer.into_inner().verification.unwrap_or_default())
}

/// The path of a page with the fields of the form, but this token.
fn link_with(path: &str, query: &PageQuery, token: &str) -> String {
    let value = |name: &'static str| match name {
        "token" => (name, token),
        "contains" => (name, query.exact(name)),
        _ => (name, query.text(name)),
    };
    let params: Vec<_> = FIELDS.iter().copied().map(value).collect();
    link(path, &params)
}

/// The tokens that match an ambiguous reference, each with a link to the same verification.
fn candidate_links(workspace: &Workspace, query: &PageQuery, status: &Status) -> Vec<(String, String)> {
    let found = candidates(&ApiError::from_status(status)).into_iter();
    let link_for = |id: &str| link_with(&workspace.path(VERIFY), query, id);
    found
        .map(|token| (format!("{} on {}, {}", token.symbol, token.chain, token.address), link_for(&token.id)))
        .collect()
}

pub(super) async fn show(workspace: Workspace, query: PageQuery) -> Page {
    let (mut candidates, mut answer) = (Vec::new(), Ok(None));
    if query.has_any(FIELDS) {
        answer = verify(&workspace, &query, false).await.map(Some);
    }
    if let Err(status) = &answer {
        candidates = candidate_links(&workspace, &query, status);
    }
    let (verified, faults) = Faults::of_query(answer)?;
    let named = verified.as_ref();
    let thesis = named.and_then(|verified| verdict::readable(verified).map(str::to_owned));
    let profile = named.and_then(|verified| verified.profile_id.clone());
    let public_url = &workspace.signed_in.visit.console.public_url;
    let code = match request(&query, false) {
        Ok(message) if named.is_some() => Some(RequestCode::of(&message, public_url)),
        _ => None,
    };
    let page = VerifyPage {
        layout: workspace.layout("Verify a thesis"),
        verdict: named.map(Verdict::of),
        code,
        thesis: thesis.map(|id| (workspace.thesis_path(&id), id)),
        profile: profile.map(|id| (workspace.profile_path(&id), id)),
        receipt_href: link_with(&workspace.path(VERDICT_RECEIPT), &query, query.text("token")),
        candidates,
        query,
        workspace,
        faults,
    };
    render(page.faults.status(), &page)
}
