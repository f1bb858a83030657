//! Reads the receipt of the log entry that has the hash of an archive file. Fails with `FEATURE_DISABLED`,
//! `ARCHIVE_FILE_NOT_FOUND`, `HISTORY_LIMIT` or `RECEIPT_UNAVAILABLE`.

use thesis_proto::v1;

use super::{
    archive::{dataset, find},
    receipts::file_receipt,
};
use crate::{access::gate::Call, error::Result, service::Core};

pub async fn get_archive_receipt(
    core: &Core,
    call: &Call,
    message: v1::GetArchiveReceiptRequest,
) -> Result<v1::GetArchiveReceiptResponse> {
    call.charge().await?;
    let archived = find(core, call, &message.date, &message.kind).await?;
    let receipt = file_receipt(core, &dataset(call), &archived).await?;
    Ok(v1::GetArchiveReceiptResponse { receipt: Some(receipt) })
}
