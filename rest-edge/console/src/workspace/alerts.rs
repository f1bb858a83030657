//! Pages of alerts: the list, a new one, and one alert with its chart, its history and its changes.

mod chart;
mod form;
mod list;
mod show;

use axum::{
    Router,
    extract::Path,
    response::Response,
    routing::{get, post},
};
use thesis_proto::v1;

use super::Workspace;
use crate::{failure::see_other, page_query::encoded, view::Badge};

const TAB: &str = "/alerts";

/// The path parameters: project, environment and alert.
type AlertPath = Path<(String, String, String)>;

pub(super) fn routes() -> Router {
    Router::new()
        .route("/console/projects/{id}/{environment}/alerts", get(list::show).post(form::create))
        .route("/console/projects/{id}/{environment}/alerts/new", get(form::new).post(form::preview))
        .route("/console/projects/{id}/{environment}/alerts/{alert}", get(show::show).post(show::edit))
        .route("/console/projects/{id}/{environment}/alerts/{alert}/delete", post(show::delete).get(back))
}

/// Redirects from a form's address to the page with the form.
async fn back(workspace: Workspace, Path((_, _, id)): AlertPath) -> Response {
    see_other(&workspace.alert_path(&id))
}

impl Workspace {
    pub(super) fn alert_path(&self, id: &str) -> String {
        self.path(&format!("{TAB}/{}", encoded(id)))
    }
}

pub(super) const fn badge(state: v1::AlertState) -> Badge {
    let (word, class) = match state {
        v1::AlertState::Ok => ("Ok", "good"),
        v1::AlertState::Pending => ("Pending", "warn"),
        v1::AlertState::Firing => ("Firing", "bad"),
        v1::AlertState::NoData | v1::AlertState::Unspecified => ("No data", "warn"),
    };
    Badge { word, class }
}

/// The symbol of an alert's token.
pub(super) fn symbol(alert: &v1::Alert) -> &str {
    alert.token.as_ref().map_or("", |token| &token.symbol)
}

/// The time for which the threshold must be crossed before the alert fires.
pub(super) fn wait(alert: &v1::Alert) -> &str {
    &alert.r#for
}

/// A rule as one line, such as `thesis_count_1h above 20, recovers at 12`.
pub(super) fn rule(alert: &v1::Alert) -> String {
    let metric = thesis_proto::names::alert_metric_name(alert.metric());
    let (direction, threshold) = match alert.above {
        Some(above) => ("above", above),
        None => ("below", alert.below.unwrap_or_default()),
    };
    format!("{metric} {direction} {threshold}, recovers at {}", alert.recover)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_one_line() {
        let metric = v1::AlertMetric::ThesisCount1h.into();
        let alert = v1::Alert { metric, above: Some(20.0), recover: 12.5, ..v1::Alert::default() };
        assert_eq!(rule(&alert), "thesis_count_1h above 20, recovers at 12.5");
        let alert = v1::Alert { above: None, below: Some(1.0), ..alert };
        assert_eq!(rule(&alert), "thesis_count_1h below 1, recovers at 12.5");
    }
}
