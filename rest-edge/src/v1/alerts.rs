//! Alerts.

use std::mem::take;

use http::StatusCode;
use thesis_proto::{error::ErrorCode, json, names, v1};

use crate::{
    answer::{Answer, Failure, json},
    call::Call,
    context::Context,
    input::{Kind, Param, enum_texts},
    route::{Route, route},
};

const TAG: &str = "Alerts";
const ID: &str = "The alert, `al_…`";
const SCOPE: Option<&str> = Some("alerts:write");

const NAME: &str = "For people";
const ABOVE: &str = "Fire above this value; give either this or `below`";
const BELOW: &str = "Fire below this value";
const RECOVER: &str = "Resolve at this value, which must not be beyond the threshold; the threshold unless given";
const FOR: &str = "Fire once the threshold was crossed for this long, such as `5m`, up to `7d`; at once unless given";
const KEEP: &str = "Go on firing for this long after the recovery; not at all unless given";

fn metrics() -> Vec<&'static str> {
    enum_texts(names::ALERT_METRICS)
}

const CREATE: &[Param] = &[
    Param::required("name", Kind::Text(1, 100), NAME),
    Param::required("token", Kind::Text(1, 140), "The token: `$SYMBOL`, address, `chain:address`, `tk_` id"),
    Param::required("metric", Kind::OneOf(metrics), "Which count of the token it watches"),
    Param::new("above", Kind::NullableNumber, ABOVE),
    Param::new("below", Kind::NullableNumber, BELOW),
    Param::new("recover", Kind::NullableNumber, RECOVER),
    Param::new("for", Kind::Text(2, 10), FOR),
    Param::new("keep_firing_for", Kind::Text(2, 10), KEEP),
];

const UPDATE: &[Param] = &[
    Param::new("name", Kind::Text(1, 100), NAME),
    Param::new("above", Kind::NullableNumber, ABOVE),
    Param::new("below", Kind::NullableNumber, BELOW),
    Param::new("recover", Kind::NullableNumber, RECOVER),
    Param::new("for", Kind::Text(2, 10), FOR),
    Param::new("keep_firing_for", Kind::Text(2, 10), KEEP),
];

const LIST: &[Param] = &[Param::LIMIT, Param::CURSOR];

/// The routes of `/v1/alerts`.
pub(super) fn routes() -> Vec<Route> {
    let mut routes = list_routes();
    routes.extend(alert_routes());
    routes
}

fn list_routes() -> Vec<Route> {
    vec![
        route!(GET, "/v1/alerts", "AlertService/ListAlerts", list)
            .named("listAlerts", TAG, "Lists the alerts of the key's project and environment with their states.")
            .about(
                "Newest first. `limit` rows make a page; pass `next_cursor` as `cursor` for the next one, until \
                 `has_more` is false.",
            )
            .needs(SCOPE, "standard")
            .query(LIST)
            .answers::<json::AlertList<'_>>(200),
        route!(POST, "/v1/alerts", "AlertService/CreateAlert", create)
            .named("createAlert", TAG, "Creates an alert over a count of a token.")
            .about(
                "It judges the count from now on, at each new or deleted thesis and whenever time alone changes the \
                 count. It fires once when the count crosses the threshold, and resolves once when the count reaches \
                 `recover`; between the two nothing happens. The events `alert.firing` and `alert.resolved` come over \
                 streams, webhooks and `GET /v1/events`, to those who name these types. When the plan's number of \
                 alerts is reached the answer is 403 `ALERT_LIMIT_REACHED`.",
            )
            .needs(SCOPE, "standard")
            .fails(&[
                ErrorCode::AlertLimitReached,
                ErrorCode::TokenNotFound,
                ErrorCode::AmbiguousToken,
                ErrorCode::UpstreamUnavailable,
            ])
            .body("CreateAlert", CREATE)
            .answers::<json::Alert<'_>>(201),
    ]
}

fn alert_routes() -> Vec<Route> {
    vec![
        route!(GET, "/v1/alerts/{id}", "AlertService/GetAlert", get)
            .named("getAlert", TAG, "Reads one alert with its state.")
            .about("An alert of another project or of the other environment does not exist: 404.")
            .needs(SCOPE, "standard")
            .fails(&[ErrorCode::AlertNotFound])
            .path_parameter(ID)
            .answers::<json::Alert<'_>>(200)
            .tagged(),
        route!(PATCH, "/v1/alerts/{id}", "AlertService/UpdateAlert", update)
            .named("updateAlert", TAG, "Changes the fields that are given. Token and metric never change.")
            .about(
                "Only the fields given change; `{}` changes nothing. The alert keeps its state, and the new rule \
                 judges it from now on. To change the direction, give both `above` and `below`, one of them null. Null \
                 for `recover` makes it the threshold.",
            )
            .needs(SCOPE, "standard")
            .fails(&[ErrorCode::AlertNotFound])
            .path_parameter(ID)
            .body("UpdateAlert", UPDATE)
            .answers::<json::Alert<'_>>(200),
        route!(DELETE, "/v1/alerts/{id}", "AlertService/DeleteAlert", delete)
            .named("deleteAlert", TAG, "Deletes an alert. No event follows, even if it is firing.")
            .about("Its past events stay in the history. Afterwards the alert is 404.")
            .needs(SCOPE, "standard")
            .fails(&[ErrorCode::AlertNotFound])
            .path_parameter(ID)
            .answers::<json::DeletedAlert<'_>>(200),
    ]
}

async fn list(edge: &Context, call: &Call) -> Answer {
    let mut query = call.query()?;
    let request = v1::ListAlertsRequest { limit: query.integer("limit"), cursor: query.text("cursor") };
    call.add_unread(query.unread());
    let (metadata, page, _) = edge.core.alerts.list_alerts(call.request(request)).await?.into_parts();
    json(StatusCode::OK, &metadata, &json::AlertList::from(&page))
}

async fn create(edge: &Context, call: &Call) -> Answer {
    let mut fields = call.fields()?;
    let request = v1::CreateAlertRequest {
        name: fields.text("name"),
        token: fields.text("token"),
        metric: fields.one_of("metric", names::parse_alert_metric, metrics).unwrap_or_default(),
        above: fields.nullable_number("above"),
        below: fields.nullable_number("below"),
        recover: fields.nullable_number("recover"),
        r#for: fields.text("for"),
        keep_firing_for: fields.text("keep_firing_for"),
    };
    call.add_unread(fields.unread());
    let (metadata, answer, _) = edge.core.alerts.create_alert(call.request(request)).await?.into_parts();
    let alert = answer.alert.ok_or_else(Failure::incomplete)?;
    json(StatusCode::CREATED, &metadata, &json::Alert::from(&alert))
}

async fn get(edge: &Context, call: &mut Call) -> Answer {
    let id = take(&mut call.id);
    let (metadata, answer, _) =
        edge.core.alerts.get_alert(call.request(v1::GetAlertRequest { id })).await?.into_parts();
    let alert = answer.alert.ok_or_else(Failure::incomplete)?;
    json(StatusCode::OK, &metadata, &json::Alert::from(&alert))
}

async fn update(edge: &Context, call: &mut Call) -> Answer {
    let id = take(&mut call.id);
    let mut fields = call.fields()?;
    let paths = fields.names();
    ["name", "for", "keep_firing_for"].into_iter().for_each(|name| fields.refuse_null(name));
    let request = v1::UpdateAlertRequest {
        id,
        update_mask: Some(prost_types::FieldMask { paths }),
        name: fields.text("name"),
        above: fields.nullable_number("above"),
        below: fields.nullable_number("below"),
        recover: fields.nullable_number("recover"),
        r#for: fields.text("for"),
        keep_firing_for: fields.text("keep_firing_for"),
    };
    call.add_unread(fields.unread());
    let (metadata, answer, _) = edge.core.alerts.update_alert(call.request(request)).await?.into_parts();
    let alert = answer.alert.ok_or_else(Failure::incomplete)?;
    json(StatusCode::OK, &metadata, &json::Alert::from(&alert))
}

async fn delete(edge: &Context, call: &mut Call) -> Answer {
    let id = take(&mut call.id);
    let (metadata, answer, _) =
        edge.core.alerts.delete_alert(call.request(v1::DeleteAlertRequest { id })).await?.into_parts();
    json(StatusCode::OK, &metadata, &json::DeletedAlert::from(&answer))
}
