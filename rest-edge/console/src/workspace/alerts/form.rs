//! The form of an alert, and the page of a new one.

use askama::Template;
use prost_types::FieldMask;
use serde::Deserialize;
use thesis_proto::{
    error::{ApiError, ErrorCode, FieldError},
    names::{ALERT_METRICS, alert_metric_name, parse_alert_metric},
    v1,
};
use tonic::Status;

use super::chart::{self, Chart};
use crate::{
    Page,
    failure::{Failed, see_other},
    form::{Faults, Posted},
    view::{Choice, Layout, choices, render},
    workspace::Workspace,
};

const CHANGED: [&str; 6] = ["name", "above", "below", "recover", "for", "keep_firing_for"];
const ABOVE: &str = "above";
const DIRECTIONS: [(&str, &str); 2] = [(ABOVE, "Above"), ("below", "Below")];
/// Maximum size of a threshold. Core has the same limit.
const MAX_VALUE: f64 = 1e12;

/// The typed fields of an alert's form.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct TypedAlert {
    name: String,
    token: String,
    metric: String,
    direction: String,
    threshold: String,
    recover: String,
    #[serde(rename = "for")]
    wait: String,
    keep_firing_for: String,
    /// The idempotency token of the form.
    once: String,
}

/// A typed number; core reports one that is none.
fn number(text: &str) -> f64 {
    text.trim().parse().unwrap_or(f64::NAN)
}

/// A typed text; none if it is blank.
fn given(text: &str) -> Option<String> {
    Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned)
}

impl TypedAlert {
    /// The values above and below which it fires; one of them is none.
    fn thresholds(&self) -> (Option<f64>, Option<f64>) {
        let threshold = Some(number(&self.threshold));
        if self.direction == ABOVE { (threshold, None) } else { (None, threshold) }
    }

    fn recover(&self) -> Option<f64> {
        given(&self.recover).as_deref().map(number)
    }

    /// The rule that a chart shows. Name and spans may be missing yet, and the threshold too.
    fn drawn_rule(&self) -> Result<v1::Alert, Status> {
        let mut faults = Vec::new();
        if self.token.trim().is_empty() {
            faults.push(FieldError::new("token", "is required"));
        }
        let metric = parse_alert_metric(&self.metric);
        if metric.is_none() {
            faults.push(FieldError::new("metric", "must be one of those that can be chosen"));
        }
        let threshold = given(&self.threshold).as_deref().map(number);
        let (above, below) = if self.direction == ABOVE { (threshold, None) } else { (None, threshold) };
        let recover = self.recover();
        for (name, value) in [(ABOVE, above), ("below", below), ("recover", recover)] {
            if value.is_some_and(|value| !value.is_finite() || value.abs() > MAX_VALUE) {
                faults.push(FieldError::new(name, "must be a number from -1e12 to 1e12"));
            }
        }
        if !faults.is_empty() {
            return Err(ApiError::validation(&faults).to_status(""));
        }
        let recover = recover.or(threshold).unwrap_or_default();
        Ok(v1::Alert { metric: metric.unwrap_or_default().into(), above, below, recover, ..v1::Alert::default() })
    }

    fn new_alert(&self) -> v1::CreateAlertRequest {
        let (above, below) = self.thresholds();
        v1::CreateAlertRequest {
            name: Some(self.name.trim().to_owned()),
            token: Some(self.token.trim().to_owned()),
            metric: parse_alert_metric(&self.metric).unwrap_or_default().into(),
            above,
            below,
            recover: self.recover(),
            r#for: given(&self.wait),
            keep_firing_for: given(&self.keep_firing_for),
        }
    }

    /// The request that changes the alert. The mask names empty fields too, so core gives them their defaults.
    pub(super) fn changes(&self, id: &str) -> v1::UpdateAlertRequest {
        let (above, below) = self.thresholds();
        v1::UpdateAlertRequest {
            id: id.to_owned(),
            update_mask: Some(FieldMask { paths: CHANGED.map(str::to_owned).to_vec() }),
            name: Some(self.name.trim().to_owned()),
            above,
            below,
            recover: self.recover(),
            r#for: given(&self.wait),
            keep_firing_for: given(&self.keep_firing_for),
        }
    }
}

pub(super) struct AlertForm {
    pub(super) name: String,
    pub(super) token: String,
    pub(super) metrics: Vec<Choice>,
    pub(super) directions: Vec<Choice>,
    pub(super) threshold: String,
    pub(super) recover: String,
    /// The field `for`.
    pub(super) wait: String,
    pub(super) keep_firing_for: String,
    /// True for a new alert: token and metric of another never change.
    pub(super) is_new: bool,
    pub(super) faults: Faults,
}

impl AlertForm {
    /// The form with the typed values and their faults.
    pub(super) fn again(typed: TypedAlert, is_new: bool, faults: Faults) -> Self {
        Self {
            metrics: choices(ALERT_METRICS.iter().map(|(_, name)| (*name, *name)), &typed.metric),
            directions: choices(DIRECTIONS, &typed.direction),
            name: typed.name,
            token: typed.token,
            threshold: typed.threshold,
            recover: typed.recover,
            wait: typed.wait,
            keep_firing_for: typed.keep_firing_for,
            is_new,
            faults,
        }
    }

    /// The form with the current values of an alert.
    pub(super) fn of(alert: &v1::Alert, faults: Faults) -> Self {
        let direction = if alert.above.is_some() { ABOVE } else { "below" };
        let threshold = alert.above.or(alert.below).unwrap_or_default().to_string();
        // Left empty, it follows a changed threshold.
        let recover = Some(alert.recover.to_string()).filter(|recover| *recover != threshold).unwrap_or_default();
        let typed = TypedAlert {
            name: alert.name.clone(),
            metric: alert_metric_name(alert.metric()).to_owned(),
            direction: direction.to_owned(),
            threshold,
            recover,
            wait: alert.r#for.clone(),
            keep_firing_for: alert.keep_firing_for.clone(),
            ..TypedAlert::default()
        };
        Self::again(typed, false, faults)
    }

    /// The fault of the threshold, whichever its direction is.
    pub(super) fn threshold_fault(&self) -> Option<&str> {
        self.faults.field(ABOVE).or_else(|| self.faults.field("below"))
    }
}

#[derive(Template)]
#[template(path = "alert_new.html")]
struct NewPage {
    layout: Layout,
    workspace: Workspace,
    form: AlertForm,
    /// The chart of the typed rule, if the visitor pressed "Show chart".
    drawn: Option<Chart>,
}

fn show_new(workspace: Workspace, form: AlertForm, drawn: Option<Chart>) -> Page {
    let page = NewPage { layout: workspace.layout("New alert"), workspace, form, drawn };
    render(page.form.faults.status(), &page)
}

pub(super) async fn new(workspace: Workspace) -> Page {
    show_new(workspace, AlertForm::again(TypedAlert::default(), true, Faults::none()), None)
}

/// Reads the faults of a new alert's form from core's status. Reads of a token name its reference `ref`. An unknown
/// token is a fault of its field.
fn faults_of(status: &Status) -> Result<Faults, Failed> {
    let error = ApiError::from_status(status);
    let mut faults: Vec<FieldError> = error.field_errors().collect();
    for fault in faults.iter_mut().filter(|fault| fault.param == "ref") {
        "token".clone_into(&mut fault.param);
    }
    if error.code == ErrorCode::TokenNotFound {
        faults.push(FieldError::new("token", error.message));
    }
    if faults.is_empty() { Faults::of(status) } else { Faults::of(&ApiError::validation(&faults).to_status("")) }
}

/// Shows the form again with the chart of the typed rule. It creates nothing. Members who may not create alerts get no
/// chart.
pub(super) async fn preview(workspace: Workspace, Posted(typed): Posted<TypedAlert>) -> Page {
    // Their page has no form, and a chart takes many reads of core.
    if !workspace.access.may_change() {
        return new(workspace).await;
    }
    let read = match typed.drawn_rule() {
        Ok(rule) => chart::read(&workspace, typed.token.trim(), &rule).await,
        Err(status) => Err(status),
    };
    let (drawn, faults) = match read {
        Ok(chart) => (Some(chart), Faults::none()),
        Err(status) => (None, faults_of(&status)?),
    };
    show_new(workspace, AlertForm::again(typed, true, faults), drawn)
}

pub(super) async fn create(workspace: Workspace, Posted(typed): Posted<TypedAlert>) -> Page {
    let request = workspace.request_once(&typed.once, typed.new_alert());
    match workspace.change(workspace.core().alerts.create_alert(request)).await {
        Ok(answer) => {
            let alert = answer.into_inner().alert.unwrap_or_default();
            Ok(see_other(&format!("{}?done=created", workspace.alert_path(&alert.id))))
        }
        Err(status) => show_new(workspace, AlertForm::again(typed, true, faults_of(&status)?), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_becomes_an_alert() {
        let typed = TypedAlert {
            name: " busy ".to_owned(),
            token: "$RUN".to_owned(),
            metric: "thesis_count_1h".to_owned(),
            direction: "below".to_owned(),
            threshold: " 2.5 ".to_owned(),
            wait: "5m".to_owned(),
            ..TypedAlert::default()
        };
        let new = typed.new_alert();
        assert_eq!((new.name.as_deref(), new.metric()), (Some("busy"), v1::AlertMetric::ThesisCount1h));
        assert_eq!((new.above, new.below, new.recover), (None, Some(2.5), None));
        assert_eq!((new.r#for.as_deref(), new.keep_firing_for), (Some("5m"), None));
        let changes = typed.changes("al_1");
        assert_eq!((changes.below, changes.update_mask.unwrap().paths.len()), (Some(2.5), 6));
        for (recover, expected) in [(12.5, "12.5"), (20.0, "")] {
            let alert = v1::Alert { above: Some(20.0), recover, ..v1::Alert::default() };
            let form = AlertForm::of(&alert, Faults::none());
            assert_eq!((form.threshold.as_str(), form.recover.as_str()), ("20", expected));
        }
        let wrong = TypedAlert { threshold: "many".to_owned(), direction: ABOVE.to_owned(), ..TypedAlert::default() };
        assert!(wrong.new_alert().above.unwrap().is_nan());
    }

    #[test]
    fn a_chart_needs_a_token_and_numbers_but_no_threshold() {
        let typed = |threshold: &str, recover: &str| TypedAlert {
            token: "$RUN".to_owned(),
            metric: "change_pct".to_owned(),
            direction: "below".to_owned(),
            threshold: threshold.to_owned(),
            recover: recover.to_owned(),
            ..TypedAlert::default()
        };
        for (threshold, recover, lines) in
            [(" 5 ", "", (Some(5.0), 5.0)), ("5", "7", (Some(5.0), 7.0)), ("", "", (None, 0.0))]
        {
            let rule = typed(threshold, recover).drawn_rule().unwrap();
            assert_eq!(
                (rule.metric(), rule.above, (rule.below, rule.recover)),
                (v1::AlertMetric::ChangePct, None, lines)
            );
        }
        let wrong = |typed: TypedAlert| -> Vec<String> {
            let error = ApiError::from_status(&typed.drawn_rule().unwrap_err());
            error.field_errors().map(|fault| fault.param).collect()
        };
        assert_eq!(wrong(typed("many", "1e13")), ["below", "recover"]);
        assert_eq!(wrong(TypedAlert::default()), ["token", "metric"]);
    }
}
