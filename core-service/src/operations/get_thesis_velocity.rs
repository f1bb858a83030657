//! Reads how fast theses on a token arrive, now or as of a time. Fails with `TOKEN_NOT_FOUND`, `AMBIGUOUS_TOKEN` or
//! `UPSTREAM_UNAVAILABLE`.

use thesis_proto::{time::from_millis, v1};

use super::{fields::Fields, refresh, token_figures::TokenFigures};
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
    let as_of = fields.as_of(message.as_of.as_ref(), call);
    fields.finish()?;
    call.charge().await?;
    let found = refresh::find_token(core, call, &reference).await?;
    let figures = TokenFigures::new(core, call, &found.reader, &found.token, as_of).await?;
    let counts = figures.counts(2 * HOUR_MS).await?;
    let (last_1h, previous_1h) = (counts.last_1h, counts.previous_1h);
    let velocity = v1::ThesisVelocity {
        token: Some(convert::row::token_ref(&found.token)),
        last_5m: counts.last_5m,
        last_1h,
        previous_1h,
        change_pct: ThesisVelocity { last_1h, previous_1h, ..ThesisVelocity::default() }.change_pct(),
        livemode: call.caller.view.livemode(),
        computed_at: Some(from_millis(figures.at)),
    };
    Ok(v1::GetThesisVelocityResponse { velocity: Some(velocity) })
}
