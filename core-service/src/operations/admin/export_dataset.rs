//! Exports a dataset: the entries of its log that readers see at the start. The audit log records it.

use std::{future::ready, sync::Arc};

use futures::{
    Stream, StreamExt as _,
    stream::{once, try_unfold},
};
use thesis_proto::v1;

use super::{audit_dataset_action, invalid, known_dataset};
use crate::{
    domain::account::Actor,
    error::{Error, Result},
    service::Core,
    store::StoreError,
};

/// Entries of one part.
const PAGE: usize = 256;
/// Byte limit of a part, not counting its last entry.
const PAGE_BYTES: usize = 256 * 1024;

pub async fn export_dataset(
    core: &Arc<Core>,
    actor: &Actor,
    message: &v1::ExportDatasetRequest,
) -> Result<impl Stream<Item = Result<v1::ExportDatasetResponse>> + Send + use<>> {
    let name = message.dataset.clone();
    let dataset = known_dataset(core, &name).await?;
    let head = core.datasets.refresh(&dataset).await?;
    if core.shared.log.import(&name).await?.is_some_and(|import| head < import.entries) {
        return Err(invalid("dataset", "is being imported; end its import first"));
    }
    if let Err(error) = audit_dataset_action(core, actor, "dataset.export_begun", &dataset).await {
        // A copy is most useful when the disk is full, so the export goes on without its audit row.
        tracing::warn!(%dataset, %error, "the audit log cannot tell of an export, which is made all the same");
    }
    let first = v1::ExportDatasetResponse { head, after: 0, entries: Vec::new() };
    let parts = try_unfold((Arc::clone(core), name, 0), move |(core, name, after)| async move {
        if after >= head {
            return Ok::<_, Error>(None);
        }
        let part = read_part(&core, &name, after, head).await?;
        let next = after + part.entries.len() as u64;
        Ok(Some((part, (core, name, next))))
    });
    Ok(once(ready(Ok(first))).chain(parts))
}

async fn read_part(core: &Core, name: &str, after: u64, head: u64) -> Result<v1::ExportDatasetResponse> {
    let rows = core.shared.log.read(name, after, head, PAGE).await?;
    if rows.is_empty() {
        return Err(StoreError::Damaged(format!("log {name} has no entry {}", after + 1)).into());
    }
    let mut bytes = 0;
    let fits = rows.into_iter().take_while(|(_, body)| {
        let is_room = bytes < PAGE_BYTES;
        bytes += body.len();
        is_room
    });
    Ok(v1::ExportDatasetResponse { head, after, entries: fits.map(|(_, body)| body).collect() })
}
