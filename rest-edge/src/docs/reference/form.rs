//! The form that sends an operation's request from the page. `reference.js` sends it: only a script can set the header
//! that contains the key.

use askama::Template;
use serde_json::Value;

use super::{sample::pretty, text_of};
use crate::{
    openapi::ExampleText,
    route::{Route, SuccessResponse},
};

struct Field<'a> {
    /// `path`, `query` or `header`.
    place: &'a str,
    name: &'a str,
    value: &'a str,
    is_required: bool,
}

#[derive(Template)]
#[template(path = "operation.html")]
pub(super) struct Form<'a> {
    method: &'a str,
    path: String,
    fields: Vec<Field<'a>>,
    body: Option<String>,
    needs_key: bool,
    is_stream: bool,
}

impl<'a> Form<'a> {
    pub(super) fn new(route: &'a Route, operation: &'a Value, example: Option<&ExampleText<'_>>) -> Self {
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let field = |parameter: &'a Value| Field {
            place: text_of(parameter, "in"),
            name: text_of(parameter, "name"),
            value: text_of(parameter, "example"),
            is_required: parameter["required"] == true,
        };
        let request = example.map(|example| pretty(example.request)).filter(|body| body != "null");
        let takes_body = route.body.is_some_and(|fields| !fields.is_empty());
        Self {
            method: route.method.as_str(),
            path: route.path.replace("{*", "{"),
            fields: parameters.map(field).collect(),
            body: takes_body.then(|| request.unwrap_or_default()),
            needs_key: route.operation.is_some(),
            is_stream: matches!(route.answers, SuccessResponse::Events),
        }
    }
}
