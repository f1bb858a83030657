//! Creates an alert over a token. Fails with `TOKEN_NOT_FOUND`, `AMBIGUOUS_TOKEN`, `UPSTREAM_UNAVAILABLE` or
//! `ALERT_LIMIT_REACHED`.

use std::sync::Arc;

use thesis_proto::{
    error::{ApiError, ErrorCode},
    v1,
};

use super::{
    alert_rule::{check_metric, check_rule, read_span},
    fields::Fields,
    get_alert::shown,
    refresh::find_token,
};
use crate::{
    access::gate::Call,
    domain::{alert::Alert, control::ControlChange, id, reference::TokenReference},
    error::Result,
    service::Core,
};

/// Prefix of the ids of alerts.
const PREFIX: &str = "al_";

pub async fn create_alert(
    core: &Core,
    call: &Call,
    message: v1::CreateAlertRequest,
) -> Result<v1::CreateAlertResponse> {
    let mut fields = Fields::default();
    let name = fields.required("name", message.name.as_deref(), 1..=100).to_owned();
    fields.required("token", message.token.as_deref(), 1..=140);
    check_metric(&mut fields, message.metric);
    let rule = Alert {
        project_id: call.caller.project.id.clone(),
        live: call.caller.key.live,
        name,
        metric: message.metric,
        above: message.above,
        below: message.below,
        recover: message.recover,
        for_ms: read_span(&mut fields, "for", message.r#for.as_deref()),
        keep_firing_for_ms: read_span(&mut fields, "keep_firing_for", message.keep_firing_for.as_deref()),
        created_at: call.now_ms,
        updated_at: call.now_ms,
        ..Alert::default()
    };
    check_rule(&mut fields, &rule);
    fields.finish()?;
    call.charge().await?;
    core.idempotency.once(call, &message, async |seed: &str| create(core, call, (&message, &rule), seed).await).await
}

/// Creates an alert with an id derived from the seed.
async fn create(
    core: &Core,
    call: &Call,
    (message, rule): (&v1::CreateAlertRequest, &Alert),
    seed: &str,
) -> Result<v1::CreateAlertResponse> {
    let caller = &call.caller;
    let reference = TokenReference::new(message.token.clone().unwrap_or_default(), None);
    let token = find_token(core, call, &reference).await?.token;
    let new = Alert { id: id::derive(PREFIX, &[seed]), token: Arc::unwrap_or_clone(token), ..rule.clone() };
    let limit = caller.plan.alerts;
    let alert = core
        .shared
        .control
        .change(call.actor().does("alert.created"), |state| {
            call.demand_right(state)?;
            // Only an earlier attempt of this request can have created it.
            if let Some(existing) = state.alerts().get(&new.id) {
                return Ok((Vec::new(), Arc::clone(existing)));
            }
            let used = state.alerts().of(&caller.project.id, caller.key.live).count();
            if used >= usize::try_from(limit).unwrap_or(usize::MAX) {
                let environment = if caller.key.live { "live" } else { "test" };
                let message = format!(
                    "the plan allows {limit} alerts per project and environment; delete one, or ask for another plan"
                );
                let details = serde_json::json!({ "limit": limit, "environment": environment });
                return Err(ApiError::new(ErrorCode::AlertLimitReached, message).with_details(details).into());
            }
            Ok((vec![ControlChange::Alert(new.clone())], Arc::new(new.clone())))
        })
        .await?;
    let alert = shown(core, std::slice::from_ref(&alert)).await?.pop();
    Ok(v1::CreateAlertResponse { alert })
}
