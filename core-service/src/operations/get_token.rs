//! Reads a token with its counts. Fails with `TOKEN_NOT_FOUND`, `AMBIGUOUS_TOKEN` or `UPSTREAM_UNAVAILABLE`.

use thesis_proto::v1;

use super::{fields::Fields, refresh, token_counts::counted};
use crate::{access::gate::Call, error::Result, service::Core};

pub async fn get_token(core: &Core, call: &Call, message: v1::GetTokenRequest) -> Result<v1::GetTokenResponse> {
    let mut fields = Fields::default();
    let reference = fields.token(message.r#ref, message.chain);
    fields.finish()?;
    call.charge().await?;
    let (found, stale) = refresh::read_token(core, call, &reference).await?;
    let mut token = counted(core, call, &found.reader, &found.dataset, &found.token).await?;
    token.stale = stale.then_some(true);
    Ok(v1::GetTokenResponse { token: Some(token) })
}
