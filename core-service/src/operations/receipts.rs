//! Receipts in responses. A call fails with `RECEIPT_UNAVAILABLE` if the service has no key for its logs, or if the
//! thesis is of a project's own test data.

use std::sync::Arc;

use serde_json::{Map, Value};
use thesis_proto::{
    error::ErrorCode,
    json,
    time::{format_millis, to_millis},
    v1,
};

use crate::{
    domain::{dataset::Dataset, row::Thesis},
    error::{Error, Result},
    log::tree::{NoReceipt, Trees},
    service::Core,
    tables::{archive_files::ArchivedFile, signed_trees::SignedTree},
};

fn unavailable(text: impl Into<String>) -> Error {
    Error::new(ErrorCode::ReceiptUnavailable, text)
}

/// The trees of this service, if it signs them.
pub(super) fn trees(core: &Core) -> Result<&Arc<Trees>> {
    let text = "this service does not sign its log, so it gives no receipts; ask who runs it";
    core.trees.as_ref().ok_or_else(|| unavailable(text))
}

/// The newest checkpoint of a dataset.
pub(super) async fn checkpoint(core: &Core, dataset: &Dataset) -> Result<SignedTree> {
    let signed = trees(core)?.checkpoint(dataset).await?;
    signed.ok_or_else(|| unavailable(NoReceipt::Uncovered.to_string()))
}

/// The receipt of a thesis.
pub(super) async fn receipt(core: &Core, dataset: &Dataset, thesis: &Thesis) -> Result<v1::Receipt> {
    let trees = trees(core)?;
    if dataset.project_id().is_some() {
        let text = "a thesis of the project's own test data has no receipt; take one of the sandbox to try receipts";
        return Err(unavailable(text));
    }
    trees.receipt_of(dataset, thesis).await.map_err(refused)
}

/// The receipt of the entry that has the hash of an archive file.
pub(super) async fn file_receipt(core: &Core, dataset: &Dataset, file: &ArchivedFile) -> Result<v1::ArchiveReceipt> {
    trees(core)?.receipt_of_file(dataset, file).await.map_err(refused)
}

fn refused(error: NoReceipt) -> Error {
    match error {
        NoReceipt::Store(error) => error.into(),
        NoReceipt::Uncovered | NoReceipt::Erased | NoReceipt::Unrecorded => unavailable(error.to_string()),
    }
}

/// The signed statement of a verdict. It names a checkpoint that was read before the verdict.
pub(super) fn statement(
    core: &Core,
    dataset: &Dataset,
    signed: &SignedTree,
    claim: &Value,
    verdict: &v1::ThesisVerification,
) -> Result<v1::Statement> {
    let verdict = serde_json::to_value(json::ThesisVerification::from(verdict)).map_err(Error::internal)?;
    let statement = trees(core)?.state(dataset, signed, claim, &verdict);
    statement.ok_or_else(|| unavailable("the log gets a new key just now; try again in two seconds"))
}

/// The claim of a request for a statement: the fields that the request gives.
pub(super) fn claim(message: &v1::VerifyThesisRequest) -> Value {
    let text = |text: &Option<String>| text.clone().map(Value::from);
    let time =
        |time: &Option<prost_types::Timestamp>| time.as_ref().map(|time| Value::from(format_millis(to_millis(time))));
    let fields = [
        ("handle", text(&message.handle)),
        ("profile_id", text(&message.profile_id)),
        ("token", text(&message.token)),
        ("chain", text(&message.chain)),
        ("created_after", time(&message.created_after)),
        ("created_before", time(&message.created_before)),
        ("contains", text(&message.contains)),
    ];
    let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(given.collect::<Map<String, Value>>())
}
