//! Reads how fast theses on a token arrive.

use thesis_proto::{time::from_millis, v1};

use super::refresh;
use crate::{
    access::gate::Call,
    convert,
    domain::{row::Token, window::HOUR_MS},
    error::Result,
    service::Core,
};

/// Reads how fast theses on a token arrive.
///
/// # Errors
/// `TOKEN_NOT_FOUND`, `AMBIGUOUS_TOKEN`, `UPSTREAM_UNAVAILABLE`, or when the store does not answer.
pub async fn get_thesis_velocity(
    core: &Core,
    call: &Call,
    reference: &str,
    chain: Option<&str>,
) -> Result<v1::ThesisVelocity> {
    let (_, token) = refresh::find_token(core, call, reference, chain).await?;
    let (view, at) = (&call.caller.view, call.now_ms);
    let counts = core.datasets.counts(view, &token.id, at, 2 * HOUR_MS).await?;
    let velocity = crate::domain::entry::ThesisVelocity {
        token: Token::clone(&token),
        last_5m: counts.last_5m,
        last_1h: counts.last_1h,
        previous_1h: counts.previous_1h,
    };
    Ok(v1::ThesisVelocity {
        token: Some(convert::row::token_ref(&velocity.token)),
        last_5m: velocity.last_5m,
        last_1h: velocity.last_1h,
        previous_1h: velocity.previous_1h,
        change_pct: velocity.change_pct(),
        livemode: view.livemode(),
        computed_at: Some(from_millis(at)),
    })
}
