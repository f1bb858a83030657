//! The page of one alert, and the forms that change it.

use askama::Template;
use axum::extract::Path;
use thesis_proto::v1::{self, event::Data};
use tonic::Status;

use super::{
    AlertPath, TAB,
    chart::{self, Chart},
    form::{AlertForm, TypedAlert},
};
use crate::{
    Page,
    failure::see_other,
    form::{Faults, NoFields, Posted},
    page_query::PageQuery,
    view::{Layout, render},
    workspace::Workspace,
};

/// Maximum number of events in the history. They are those of the alert among the newest of its token.
const HISTORY: i32 = 100;

/// The notices after a change, by the word in `?done=`.
const DONE: &[(&str, &str)] = &[
    ("created", "The alert is created. It judges the count from now on."),
    ("saved", "The alert is saved. The new rule judges it from now on."),
];

#[derive(Template)]
#[template(path = "alert.html")]
struct AlertPage {
    layout: Layout,
    workspace: Workspace,
    alert: v1::Alert,
    form: AlertForm,
    chart: Chart,
    /// Its events, newest first.
    rows: Vec<v1::Event>,
}

/// The events of an alert, newest first.
async fn history(workspace: &Workspace, alert: &v1::Alert) -> Result<Vec<v1::Event>, Status> {
    let of_alerts = [v1::EventType::AlertFiring, v1::EventType::AlertResolved];
    let token = alert.token.iter().map(|token| token.id.clone()).collect();
    let message = v1::ListEventsRequest {
        types: of_alerts.map(i32::from).to_vec(),
        filters: Some(v1::EventFilters { token, ..v1::EventFilters::default() }),
        limit: Some(HISTORY),
        ..v1::ListEventsRequest::default()
    };
    let mut events = workspace.core().events.list_events(workspace.request(message)).await?.into_inner().data;
    events.retain(|event| match &event.data {
        Some(Data::Alert(data)) => data.alert.as_ref().is_some_and(|of| of.id == alert.id),
        _ => false,
    });
    Ok(events)
}

async fn show_alert(workspace: Workspace, id: &str, done: &str, typed: Option<TypedAlert>, faults: Faults) -> Page {
    let request = workspace.request(v1::GetAlertRequest { id: id.to_owned() });
    let alert = workspace.core().alerts.get_alert(request).await?.into_inner().alert.unwrap_or_default();
    let token = alert.token.as_ref().map_or("", |token| &token.id);
    let (chart, rows) = tokio::try_join!(chart::read(&workspace, token, &alert), history(&workspace, &alert))?;
    let form = match typed {
        Some(typed) => AlertForm::again(typed, false, faults),
        None => AlertForm::of(&alert, faults),
    };
    let page = AlertPage {
        layout: workspace.layout(&format!("Alert {}", alert.id)).with_notice(done, DONE),
        workspace,
        alert,
        form,
        chart,
        rows,
    };
    render(page.form.faults.status(), &page)
}

pub(super) async fn show(workspace: Workspace, Path((_, _, id)): AlertPath, query: PageQuery) -> Page {
    show_alert(workspace, &id, query.text("done"), None, Faults::none()).await
}

pub(super) async fn edit(workspace: Workspace, Path((_, _, id)): AlertPath, Posted(typed): Posted<TypedAlert>) -> Page {
    match workspace.change(workspace.core().alerts.update_alert(workspace.request(typed.changes(&id)))).await {
        Ok(_) => Ok(see_other(&format!("{}?done=saved", workspace.alert_path(&id)))),
        Err(status) => {
            let faults = Faults::of(&status)?;
            show_alert(workspace, &id, "", Some(typed), faults).await
        }
    }
}

pub(super) async fn delete(workspace: Workspace, Path((_, _, id)): AlertPath, _: Posted<NoFields>) -> Page {
    let request = workspace.request(v1::DeleteAlertRequest { id: id.clone() });
    match workspace.change(workspace.core().alerts.delete_alert(request)).await {
        Ok(_) => Ok(see_other(&format!("{}?done=deleted", workspace.path(TAB)))),
        Err(status) => {
            let faults = Faults::of(&status)?;
            show_alert(workspace, &id, "", None, faults).await
        }
    }
}
