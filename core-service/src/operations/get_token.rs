//! Reads a token with its counts, now or as of a time. Fails with `TOKEN_NOT_FOUND`, `AMBIGUOUS_TOKEN` or
//! `UPSTREAM_UNAVAILABLE`.

use thesis_proto::v1;

use super::{fields::Fields, refresh, token_figures::TokenFigures};
use crate::{access::gate::Call, error::Result, service::Core};

pub async fn get_token(core: &Core, call: &Call, message: v1::GetTokenRequest) -> Result<v1::GetTokenResponse> {
    let mut fields = Fields::default();
    let reference = fields.token(message.r#ref, message.chain);
    let as_of = fields.as_of(message.as_of.as_ref(), call);
    fields.finish()?;
    call.charge().await?;
    let (found, stale) = refresh::read_token(core, call, &reference).await?;
    let figures = TokenFigures::new(core, call, &found.reader, &found.token, as_of).await?;
    let mut token = figures.read_token(&found.dataset).await?;
    token.stale = stale.then_some(true);
    Ok(v1::GetTokenResponse { token: Some(token) })
}
