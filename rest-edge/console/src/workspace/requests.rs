//! The request log: the list of the requests of the project's keys in an environment, and the page of one request.

mod code;
mod query;
mod sdk;
mod show;

use std::collections::HashMap;

use askama::Template;
use axum::{Router, routing::get};
use thesis_proto::{time::to_millis, v1};

use self::query::{ERRORS, KEPT, METHODS, RequestFields, STATUSES, message};
use super::Workspace;
use crate::{
    Page,
    failure::Failed,
    form::Faults,
    page_query::{PageQuery, encoded},
    view::{ALL, Badge, Choice, Layout, choices, render},
};

const TAB: &str = "/requests";

pub(super) fn routes() -> Router {
    Router::new()
        .route("/console/projects/{id}/{environment}/requests", get(list))
        .route("/console/projects/{id}/{environment}/requests/{at}/{request}", get(show::show))
}

/// The path of a request's page.
fn request_path(workspace: &Workspace, request: &v1::LoggedRequest) -> String {
    let at = request.began_at.as_ref().map_or(0, to_millis);
    workspace.path(&format!("{TAB}/{at}/{}", encoded(&request.id)))
}

/// The status with the colour of its class.
fn badge(status: &i32) -> Badge {
    let (word, class) = match *status {
        ..400 => ("success", "good"),
        400..500 => ("refused", "warn"),
        _ => ("failed", "bad"),
    };
    Badge { word, class }
}

/// The names of a project's keys, by id.
struct KeyNames(HashMap<String, String>);

impl KeyNames {
    async fn read(workspace: &Workspace) -> Result<Self, Failed> {
        let message = v1::AccountServiceListKeysRequest { project_id: workspace.access.project.id.clone() };
        let keys = workspace.core().accounts.list_keys(workspace.signed_in.request(message)).await?.into_inner().data;
        Ok(Self(keys.into_iter().map(|key| (key.id, format!("{} ({}…)", key.name, key.prefix))).collect()))
    }

    /// The name of a key; its id if it has none.
    fn name<'a>(&'a self, id: &'a str) -> &'a str {
        self.0.get(id).map_or(id, String::as_str)
    }
}

#[derive(Template)]
#[template(path = "requests.html")]
struct ListPage {
    layout: Layout,
    workspace: Workspace,
    fields: RequestFields,
    query: PageQuery,
    methods: Vec<Choice>,
    statuses: Vec<Choice>,
    /// True if the query filters the requests.
    is_narrowed: bool,
    faults: Faults,
    rows: Vec<v1::LoggedRequest>,
    keys: KeyNames,
    first: Option<String>,
    next: Option<String>,
    /// True if the page shows the newest requests.
    is_newest: bool,
    /// The path of the list with errors only.
    errors: String,
}

async fn list(workspace: Workspace, query: PageQuery) -> Page {
    let listing = async {
        let message = message(&query, &workspace.access.project.id, workspace.live)?;
        workspace.core().accounts.list_logged_requests(workspace.signed_in.request(message)).await
    };
    let (listed, keys) = tokio::join!(listing, KeyNames::read(&workspace));
    let (listed, faults) = Faults::of_query(listed.map(tonic::Response::into_inner))?;
    let path = workspace.path(TAB);
    let page = ListPage {
        layout: workspace.layout("Requests"),
        fields: RequestFields::of(&query),
        methods: choices([ALL].into_iter().chain(METHODS.map(|name| (name, name))), query.text("method")),
        statuses: choices(
            [ALL].into_iter().chain(STATUSES.map(|(value, name, _)| (value, name))),
            query.text("status"),
        ),
        is_narrowed: query.has_value(KEPT),
        is_newest: faults.whole().is_none() && !query.has_value(&["cursor", "to"]),
        faults,
        rows: listed.data,
        keys: keys?,
        first: query.given("cursor").map(|_| query.link(&path, KEPT, None)),
        next: listed.next_cursor.as_deref().map(|cursor| query.link(&path, KEPT, Some(cursor))),
        errors: format!("{path}?status={ERRORS}"),
        query,
        workspace,
    };
    render(page.faults.status(), &page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_the_colour_of_its_class() {
        assert_eq!(
            [101, 204, 304, 399, 400, 499, 500].map(|status| badge(&status).class),
            ["good", "good", "good", "good", "warn", "warn", "bad"]
        );
    }

    #[test]
    fn a_key_without_a_name_is_shown_by_its_id() {
        let keys = KeyNames(HashMap::from([("key_1".to_owned(), "laptop (svc_test_ab…)".to_owned())]));
        assert_eq!((keys.name("key_1"), keys.name("key_2")), ("laptop (svc_test_ab…)", "key_2"));
    }
}
