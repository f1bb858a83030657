//! Reads how fast theses on a token arrive. Fails with `TOKEN_NOT_FOUND`, `AMBIGUOUS_TOKEN` or `UPSTREAM_UNAVAILABLE`.

use thesis_proto::{time::from_millis, v1};

use super::{
    fields::Fields,
    refresh::{self, FoundToken},
};
use crate::{
    access::gate::Call,
    convert,
    domain::{entry::ThesisVelocity, window::HOUR_MS},
    error::Result,
    service::Core,
};

pub async fn get_thesis_velocity(
    core: &Core,
    call: &Call,
    message: v1::GetThesisVelocityRequest,
) -> Result<v1::GetThesisVelocityResponse> {
    let mut fields = Fields::default();
    let reference = fields.token(message.r#ref, message.chain);
    fields.finish()?;
    call.charge().await?;
    let FoundToken { token, reader, .. } = refresh::find_token(core, call, &reference).await?;
    let (view, at) = (&call.caller.view, call.now_ms);
    let counts = core.datasets.counts(&reader, view, &token.id, at, 2 * HOUR_MS).await?;
    let (last_1h, previous_1h) = (counts.last_1h, counts.previous_1h);
    let velocity = v1::ThesisVelocity {
        token: Some(convert::row::token_ref(&token)),
        last_5m: counts.last_5m,
        last_1h,
        previous_1h,
        change_pct: ThesisVelocity { last_1h, previous_1h, ..ThesisVelocity::default() }.change_pct(),
        livemode: view.livemode(),
        computed_at: Some(from_millis(at)),
    };
    Ok(v1::GetThesisVelocityResponse { velocity: Some(velocity) })
}
