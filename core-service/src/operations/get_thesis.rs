//! Reads one thesis that the caller sees, within its history window. Fails with `THESIS_NOT_FOUND` or `HISTORY_LIMIT`.

use thesis_proto::{error::ErrorCode, v1};

use super::{missing::missing, theses::with_references};
use crate::{
    access::gate::Call,
    error::{Error, Result},
    service::Core,
};

pub async fn get_thesis(core: &Core, call: &Call, message: v1::GetThesisRequest) -> Result<v1::GetThesisResponse> {
    call.charge().await?;
    let id = &message.id;
    let reader = core.shared.theses.reader(&call.caller.view).await?;
    let found = reader.thesis(&call.caller.view, id).await?;
    let found = found.filter(|(_, thesis)| thesis.deleted_at.is_none());
    let found = found.ok_or_else(|| missing(ErrorCode::ThesisNotFound, id))?;
    call.demand_in_history(&found.0, found.1.created_at)?;
    let thesis = with_references(&reader, &[found]).await?.pop();
    let thesis = thesis.ok_or_else(|| Error::internal(format!("thesis {id} lacks its author or token")))?;
    Ok(v1::GetThesisResponse { thesis: Some(thesis) })
}
