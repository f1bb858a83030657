//! Downloads: the receipt of a thesis, and the receipt or signed statement of a verdict.

use axum::{extract::Path, response::IntoResponse as _};
use http::{
    HeaderValue,
    header::{CONTENT_DISPOSITION, CONTENT_TYPE},
};
use serde::Serialize;
use thesis_proto::{error::ApiError, json, v1};

use super::{missing, verify::verify};
use crate::{Page, failure::Failed, page_query::PageQuery, workspace::Workspace};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const RECEIPT: HeaderValue = HeaderValue::from_static("attachment; filename=\"receipt.json\"");
const STATEMENT: HeaderValue = HeaderValue::from_static("attachment; filename=\"statement.json\"");

pub(super) async fn of_thesis(workspace: Workspace, Path((_, _, id)): Path<(String, String, String)>) -> Page {
    let request = workspace.request(v1::GetReceiptRequest { thesis_id: id });
    let response = workspace.core().log.get_receipt(request).await;
    let answer = response.map_err(|status| missing(ApiError::from_status(&status)))?.into_inner();
    file(RECEIPT, &json::Receipt::from(&answer.receipt.unwrap_or_default()))
}

/// Verifies again, with the query of the form: a verified thesis has a receipt, any other verdict a signed statement.
pub(super) async fn of_verdict(workspace: Workspace, query: PageQuery) -> Page {
    let verified = verify(&workspace, &query, true).await?;
    match (&verified.receipt, &verified.statement) {
        (Some(receipt), _) => file(RECEIPT, &json::Receipt::from(receipt)),
        (None, Some(statement)) => file(STATEMENT, &json::Statement::from(statement)),
        (None, None) => Err(ApiError::internal().into()),
    }
}

/// A JSON document that the browser saves.
fn file(disposition: HeaderValue, document: &impl Serialize) -> Page {
    let text = serde_json::to_vec(document).map_err(|_| Failed::from(ApiError::internal()))?;
    Ok(([(CONTENT_TYPE, JSON), (CONTENT_DISPOSITION, disposition)], text).into_response())
}
