//! Reads a dataset's log for an export.

use std::sync::Arc;

use thesis_proto::v1;

use super::{audit_dataset_action, invalid, known_dataset};
use crate::{domain::account::Actor, error::Result, service::Core, store::StoreError};

/// Entries of one part.
const PAGE: usize = 256;
/// Byte limit of a part, not counting its last entry.
const PAGE_BYTES: usize = 256 * 1024;

/// A running export.
pub struct DatasetExport {
    core: Arc<Core>,
    dataset: String,
    /// The last entry of the export.
    head: u64,
    /// The last exported entry; none before the first part, which has no entries.
    after: Option<u64>,
}

impl DatasetExport {
    /// Starts an export of the entries that readers see now, and writes an audit row.
    ///
    /// # Errors
    /// 422, `PROJECT_NOT_FOUND`, or when the store does not answer.
    pub async fn begin(core: &Arc<Core>, actor: &Actor, name: &str) -> Result<Self> {
        let dataset = known_dataset(core, name).await?;
        let head = core.datasets.refresh(&dataset).await?;
        if core.shared.log.import(name).await?.is_some_and(|import| head < import.entries) {
            return Err(invalid("dataset", "is being imported; end its import first"));
        }
        if let Err(error) = audit_dataset_action(core, actor, "dataset.export_begun", &dataset).await {
            // A copy is most useful when the disk is full, so the export goes on without its audit row.
            tracing::warn!(%dataset, %error, "the audit log cannot tell of an export, which is made all the same");
        }
        Ok(Self { core: Arc::clone(core), dataset: name.to_owned(), head, after: None })
    }

    /// Reads the next part; none after the last one.
    pub async fn next(&mut self) -> Result<Option<v1::ExportDatasetResponse>> {
        let head = self.head;
        let Some(after) = self.after else {
            self.after = Some(0);
            return Ok(Some(v1::ExportDatasetResponse { head, after: 0, entries: Vec::new() }));
        };
        if after >= head {
            return Ok(None);
        }
        let rows = self.core.shared.log.read(&self.dataset, after, head, PAGE).await?;
        if rows.is_empty() {
            return Err(StoreError::Damaged(format!("log {} has no entry {}", self.dataset, after + 1)).into());
        }
        let mut bytes = 0;
        let fits = rows.into_iter().take_while(|(_, body)| {
            let is_room = bytes < PAGE_BYTES;
            bytes += body.len();
            is_room
        });
        let entries: Vec<_> = fits.map(|(_, body)| body).collect();
        self.after = Some(after + entries.len() as u64);
        Ok(Some(v1::ExportDatasetResponse { head, after, entries }))
    }
}
