//! The rule of an alert, as callers give it.

use thesis_proto::v1;

use super::fields::Fields;
use crate::domain::{
    alert::Alert,
    window::{DAY_MS, parse_span},
};

/// Maximum size of a threshold: counts are far below, and calculations cannot overflow.
const MAX_VALUE: f64 = 1e12;
/// Maximum of `for` and `keep_firing_for`, in milliseconds.
const MAX_SPAN_MS: i64 = 7 * DAY_MS;

/// Checks the parts of a rule that depend on each other.
pub(super) fn check_rule(fields: &mut Fields, alert: &Alert) {
    for (name, value) in [("above", alert.above), ("below", alert.below), ("recover", alert.recover)] {
        if value.is_some_and(|value| !value.is_finite() || value.abs() > MAX_VALUE) {
            fields.reject(name, "must be a number from -1e12 to 1e12");
        }
    }
    match (alert.above, alert.below, alert.recover) {
        (None, None, _) => fields.reject("above", "is required, unless you give below"),
        (Some(_), Some(_), _) => fields.reject("below", "must not be given beside above; make two alerts"),
        (Some(above), None, Some(recover)) if recover > above => {
            fields.reject("recover", "must not be greater than above");
        }
        (None, Some(below), Some(recover)) if recover < below => {
            fields.reject("recover", "must not be less than below");
        }
        _ => {}
    }
}

/// Checks the metric, which is required.
pub(super) fn check_metric(fields: &mut Fields, number: i32) {
    let is_known = v1::AlertMetric::try_from(number).is_ok_and(|metric| metric != v1::AlertMetric::Unspecified);
    if !is_known {
        let known: Vec<&str> = thesis_proto::names::ALERT_METRICS.iter().map(|(_, name)| *name).collect();
        fields.reject("metric", format!("must be of: {}", known.join(", ")));
    }
}

/// Reads a span in milliseconds; 0 if it is absent.
pub(super) fn read_span(fields: &mut Fields, name: &str, given: Option<&str>) -> i64 {
    let Some(given) = given else { return 0 };
    let span = parse_span(given).filter(|span| *span <= MAX_SPAN_MS);
    if span.is_none() {
        fields.reject(name, "must be a number and s, m, h or d, such as 5m, up to 7d");
    }
    span.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(above: Option<f64>, below: Option<f64>, recover: Option<f64>) -> Vec<String> {
        let mut fields = Fields::default();
        check_rule(&mut fields, &Alert { above, below, recover, ..Alert::default() });
        let error = fields.finish().err();
        error.map(|error| error.api.field_errors().map(|error| error.param).collect()).unwrap_or_default()
    }

    #[test]
    fn a_rule_has_one_threshold_and_recovers_on_its_safe_side() {
        assert_eq!(rejected(Some(5.0), None, None), [""; 0]);
        assert_eq!(rejected(Some(5.0), None, Some(5.0)), [""; 0]);
        assert_eq!(rejected(None, Some(5.0), Some(6.0)), [""; 0]);
        assert_eq!(rejected(None, None, None), ["above"]);
        assert_eq!(rejected(Some(5.0), Some(5.0), None), ["below"]);
        assert_eq!(rejected(Some(5.0), None, Some(5.1)), ["recover"]);
        assert_eq!(rejected(None, Some(5.0), Some(4.9)), ["recover"]);
        for wrong in [f64::NAN, f64::INFINITY, 1e13] {
            assert_eq!(rejected(Some(wrong), None, None), ["above"], "{wrong}");
        }
    }

    #[test]
    fn spans_reach_seven_days() {
        let read = |given| {
            let mut fields = Fields::default();
            (read_span(&mut fields, "for", given), fields.finish().is_ok())
        };
        assert_eq!(read(None), (0, true));
        assert_eq!(read(Some("90s")), (90_000, true));
        assert_eq!(read(Some("7d")), (MAX_SPAN_MS, true));
        for wrong in ["8d", "5", "m", "-1s", ""] {
            assert_eq!(read(Some(wrong)), (0, false), "{wrong}");
        }
    }
}
