//! Changes the rule of an alert. Its state stays, and the new rule judges it from then on. Fails with
//! `ALERT_NOT_FOUND`.

use std::sync::Arc;

use thesis_proto::{near, v1};

use super::{
    alert_rule::{check_rule, read_span},
    fields::Fields,
    get_alert::{own_alert, shown},
};
use crate::{
    access::gate::Call,
    control::ControlState,
    domain::{alert::Alert, control::ControlChange},
    error::Result,
    service::Core,
};

/// The fields that a mask may name.
const MASK: [&str; 6] = ["name", "above", "below", "recover", "for", "keep_firing_for"];

/// The fields to change: those of the mask, or without a mask those that are given.
fn changed_fields(message: &v1::UpdateAlertRequest) -> Vec<&str> {
    if let Some(mask) = &message.update_mask {
        return mask.paths.iter().map(String::as_str).collect();
    }
    let given = [
        ("name", message.name.is_some()),
        ("above", message.above.is_some()),
        ("below", message.below.is_some()),
        ("recover", message.recover.is_some()),
        ("for", message.r#for.is_some()),
        ("keep_firing_for", message.keep_firing_for.is_some()),
    ];
    given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
}

/// The alert with the changed fields. Fails if the new rule is wrong.
fn changed(message: &v1::UpdateAlertRequest, alert: &Alert, now_ms: i64) -> Result<Alert> {
    let (mut fields, mut new) = (Fields::default(), alert.clone());
    for name in changed_fields(message) {
        match name {
            "name" => fields.required("name", message.name.as_deref(), 1..=100).clone_into(&mut new.name),
            "above" => new.above = message.above,
            "below" => new.below = message.below,
            "recover" => new.recover = message.recover,
            "for" => new.for_ms = read_span(&mut fields, "for", message.r#for.as_deref()),
            "keep_firing_for" => {
                new.keep_firing_for_ms = read_span(&mut fields, "keep_firing_for", message.keep_firing_for.as_deref());
            }
            other => {
                let rule = format!("must be of: {}", MASK.join(", "));
                fields.reject("update_mask", near::with_nearest(&rule, other, MASK));
            }
        }
    }
    check_rule(&mut fields, &new);
    fields.finish()?;
    if new != *alert {
        // Each change has its own time.
        new.updated_at = now_ms.max(alert.updated_at + 1);
    }
    Ok(new)
}

pub async fn update_alert(
    core: &Core,
    call: &Call,
    message: v1::UpdateAlertRequest,
) -> Result<v1::UpdateAlertResponse> {
    // What is wrong whatever the alert is costs nothing.
    let sane = Alert { above: Some(0.0), ..Alert::default() };
    let alone = v1::UpdateAlertRequest { above: None, below: None, recover: None, ..message.clone() };
    let fields: Vec<String> = changed_fields(&message).into_iter().map(str::to_owned).collect();
    let paths = fields.into_iter().filter(|name| !["above", "below", "recover"].contains(&name.as_str())).collect();
    let alone = v1::UpdateAlertRequest { update_mask: Some(prost_types::FieldMask { paths }), ..alone };
    changed(&alone, &sane, call.now_ms)?;
    call.charge().await?;
    core.idempotency.once(call, &message, async |_: &str| update(core, call, &message).await).await
}

async fn update(core: &Core, call: &Call, message: &v1::UpdateAlertRequest) -> Result<v1::UpdateAlertResponse> {
    let change = |state: &ControlState| {
        let alert = own_alert(state, &call.caller, &message.id)?;
        call.demand_right(state)?;
        let new = changed(message, alert, call.now_ms)?;
        // An earlier attempt of this request may have written the change.
        if new == **alert {
            return Ok((Vec::new(), Arc::clone(alert)));
        }
        Ok((vec![ControlChange::Alert(new.clone())], Arc::new(new)))
    };
    let alert = core.shared.control.change(call.actor().does("alert.updated"), change).await?;
    Ok(v1::UpdateAlertResponse { alert: shown(core, &[alert]).await?.pop() })
}

#[cfg(test)]
mod tests {
    use prost_types::FieldMask;

    use super::*;

    #[test]
    fn only_what_is_named_changes() {
        let alert =
            Alert { name: "a".to_owned(), above: Some(5.0), recover: Some(3.0), updated_at: 5, ..Alert::default() };
        let nothing = v1::UpdateAlertRequest::default();
        assert_eq!(changed(&nothing, &alert, 9).unwrap(), alert);
        let higher = v1::UpdateAlertRequest { above: Some(7.0), ..nothing.clone() };
        let expected = Alert { above: Some(7.0), updated_at: 9, ..alert.clone() };
        assert_eq!(changed(&higher, &alert, 9).unwrap(), expected);
        assert_eq!(changed(&higher, &alert, 4).unwrap().updated_at, 6, "each change is later than the one before");
        let below = v1::UpdateAlertRequest { below: Some(1.0), ..nothing };
        assert!(changed(&below, &alert, 9).is_err(), "it would have two thresholds");
        let paths = ["above", "below", "recover"].map(str::to_owned).to_vec();
        let turned = v1::UpdateAlertRequest { update_mask: Some(FieldMask { paths }), ..below };
        let expected = Alert { above: None, below: Some(1.0), recover: None, updated_at: 9, ..alert.clone() };
        assert_eq!(changed(&turned, &alert, 9).unwrap(), expected);
    }
}
