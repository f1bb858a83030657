//! Verification as a form that explains its checks.

mod words;

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use thesis_proto::{error::ApiError, v1};
use tonic::Status;

use self::words::Verdict;
use super::{
    TAB, VERIFY,
    asked::{Asked, link},
    faults_of,
    rows::{profile_path, thesis_path},
    token::candidates,
};
use crate::console::{
    Console, Page,
    form::Faults,
    view::{Layout, render},
    workspace::Workspace,
};

/// The fields of the form, as the API names them.
const FIELDS: &[&str] = &["handle", "profile_id", "token", "chain", "created_after", "created_before", "contains"];

/// The page of the verification.
#[derive(Template)]
#[template(path = "verify.html")]
struct VerifyPage {
    layout: Layout,
    workspace: Workspace,
    tab: &'static str,
    part: &'static str,
    asked: Asked,
    verdict: Option<Verdict>,
    /// Where the thesis of the verdict can be read, and its id.
    thesis: Option<(String, String)>,
    /// Where the profile of the verdict can be read, and its id.
    profile: Option<(String, String)>,
    /// Tokens that may be meant: what they are, and where they are verified.
    candidates: Vec<(String, String)>,
    faults: Faults,
}

fn request(asked: &Asked) -> Result<v1::VerifyThesisRequest, Status> {
    let (created_after, created_before) = asked.bounds()?;
    Ok(v1::VerifyThesisRequest {
        handle: asked.given("handle"),
        profile_id: asked.given("profile_id"),
        token: asked.given("token"),
        chain: asked.given("chain"),
        created_after,
        created_before,
        // Blanks count in it.
        contains: Some(asked.exact("contains").to_owned()).filter(|text| !text.is_empty()),
    })
}

async fn verify(console: &Console, workspace: &Workspace, asked: &Asked) -> Result<v1::ThesisVerification, Status> {
    let answer = console.core.theses.verify_thesis(workspace.request(request(asked)?)).await?;
    Ok(answer.into_inner().verification.unwrap_or_default())
}

/// The tokens that an ambiguous one may be, each with the same question about it.
fn questions(workspace: &Workspace, asked: &Asked, status: &Status) -> Vec<(String, String)> {
    let found = candidates(&ApiError::from_status(status)).into_iter();
    let question = |id: &str| {
        let value = |name: &'static str| match name {
            "token" => (name, id),
            "contains" => (name, asked.exact(name)),
            _ => (name, asked.text(name)),
        };
        let query: Vec<_> = FIELDS.iter().copied().map(value).collect();
        link(&workspace.path(VERIFY), &query)
    };
    found
        .map(|token| (format!("{} on {}, {}", token.symbol, token.chain, token.address), question(&token.id)))
        .collect()
}

pub(super) async fn show(State(console): State<Arc<Console>>, workspace: Workspace, asked: Asked) -> Page {
    let (mut verified, mut candidates, mut faults) = (None, Vec::new(), Faults::none());
    if asked.has_any(FIELDS) {
        match verify(&console, &workspace, &asked).await {
            Ok(verification) => verified = Some(verification),
            Err(status) => {
                candidates = questions(&workspace, &asked, &status);
                faults = faults_of(&status)?;
            }
        }
    }
    let named = verified.as_ref();
    let thesis = named.and_then(|verified| words::readable(verified).map(str::to_owned));
    let profile = named.and_then(|verified| verified.profile_id.clone());
    let status = faults.status();
    let page = VerifyPage {
        layout: workspace.layout("Verify a thesis"),
        tab: TAB,
        part: VERIFY,
        verdict: named.map(Verdict::of),
        thesis: thesis.map(|id| (thesis_path(&workspace, &id), id)),
        profile: profile.map(|id| (profile_path(&workspace, &id), id)),
        candidates,
        asked,
        workspace,
        faults,
    };
    render(status, &page)
}
