//! Reads the receipt of a thesis that the caller sees, deleted or not. Fails with `THESIS_NOT_FOUND`, `HISTORY_LIMIT`
//! or `RECEIPT_UNAVAILABLE`.

use thesis_proto::{error::ErrorCode, v1};

use super::{missing::missing, receipts::receipt};
use crate::{access::gate::Call, error::Result, service::Core};

pub async fn get_receipt(core: &Core, call: &Call, message: v1::GetReceiptRequest) -> Result<v1::GetReceiptResponse> {
    call.charge().await?;
    let id = &message.thesis_id;
    let found = core.shared.theses.thesis(&call.caller.view, id).await?;
    let (dataset, thesis) = found.ok_or_else(|| missing(ErrorCode::ThesisNotFound, id))?;
    call.demand_in_history(&dataset, thesis.created_at)?;
    Ok(v1::GetReceiptResponse { receipt: Some(receipt(core, &dataset, &thesis).await?) })
}
