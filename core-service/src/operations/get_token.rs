//! Reads a token.

use thesis_proto::v1;

use super::{refresh, token_counts::counted};
use crate::{access::gate::Call, error::Result, service::Core};

/// Reads a token's metadata and counts.
///
/// # Errors
/// `TOKEN_NOT_FOUND`, `AMBIGUOUS_TOKEN`, `UPSTREAM_UNAVAILABLE`, or when the store does not answer.
pub async fn get_token(core: &Core, call: &Call, reference: &str, chain: Option<&str>) -> Result<v1::Token> {
    let (dataset, token, stale) = refresh::read_token(core, call, reference, chain).await?;
    let mut shown = counted(core, call, &dataset, &token).await?;
    shown.stale = stale.then_some(true);
    Ok(shown)
}
