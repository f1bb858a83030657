//! The page of an operation: its text is Markdown, which is rendered like a guide's.

use askama::Template as _;
use serde_json::{Value, value::RawValue};

use super::{
    fields::{self, Side, item, kind},
    form::Form,
    method_badge, path_of, sample, text_of, title_of, with_short_links,
};
use crate::{
    docs::{
        markdown,
        page::{Page, escaped},
        site::Site,
    },
    openapi::{ExampleText, STREAM_EXAMPLE, error_reason, errors_by_status, example_text, is_common_error},
    route::{Route, SuccessResponse},
};

pub(super) fn page(site: &Site, route: &Route) -> Page {
    let path = route.path.replace("{*", "{");
    let operation = &site.description["paths"][&path][route.method.as_str().to_lowercase()];
    let text = example_text(route.id, &site.public_url, site.now_ms);
    let example = text.as_deref().and_then(sample::example);

    let source = source(site, route, operation, example.as_ref());
    let mut page = markdown::page(&path_of(route.id), &source, site);
    let call = format!("{} {path}", route.method);
    page.intro.insert_str(0, &format!("{call} {} ", route.id));
    page.markdown = page.markdown.replacen("\n\n", &format!("\n\n`{call}`\n\n"), 1);
    let badge = method_badge(route.method.as_str());
    page.body.insert_str(0, &format!("<p class=\"endpoint\">{badge}<code>{}</code></p>\n", escaped(&path)));
    if !matches!(route.answers, SuccessResponse::Upgrade) {
        let form = Form::new(route, operation, example.as_ref()).render().expect("texts always render");
        page.body.push_str(&form);
        page.scripts.push(format!("{}/reference.js", crate::assets::folder()));
    }
    let mut aside = sample::request(site, route, operation, example.as_ref());
    match (&route.answers, &example) {
        (SuccessResponse::Events, _) => aside.push_str(&sample::response("Example response", "text", STREAM_EXAMPLE)),
        (SuccessResponse::Bytes { example, .. }, _) => {
            aside.push_str(&sample::response("Example response", "text", example));
        }
        (_, Some(example)) => {
            aside.push_str(&sample::response("Example response", "json", &sample::pretty(example.response)));
        }
        (_, None) => {}
    }
    set_aside(&mut page, site, &aside);
    page
}

/// Puts examples beside the text of a page, and below it in Markdown.
pub(super) fn set_aside(page: &mut Page, site: &Site, source: &str) {
    let aside = markdown::page(&page.path, source, site);
    page.aside = aside.body;
    page.markdown.push('\n');
    page.markdown.push_str(&aside.markdown);
}

fn source(site: &Site, route: &Route, operation: &Value, example: Option<&ExampleText<'_>>) -> String {
    let about = with_short_links(text_of(operation, "description"), site);
    let mut source = format!("# {}\n\n{}\n\n{about}\n\n", title_of(route.id), route.summary);
    for (place, title) in [("path", "Path"), ("query", "Query"), ("header", "Request headers")] {
        source.push_str(&parameters(site, operation, place, title));
    }
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    if !body.is_null() {
        let names: Vec<&str> = route.body.unwrap_or_default().iter().map(|field| field.name).collect();
        let request = example.map(|example| example.request);
        let list = fields::list(&site.description, body, Side::Request, &names, request);
        source.push_str(&format!("## Body\n\nOne JSON object.\n\n{list}\n"));
    }
    source.push_str(&responses(site, route, operation, example.map(|example| example.response)));
    match route.answers {
        SuccessResponse::Events => source.push_str(&frames(site, operation)),
        SuccessResponse::Upgrade => source.push_str(&messages(site, operation)),
        SuccessResponse::Resource(..) | SuccessResponse::Object(_) | SuccessResponse::Bytes { .. } => {}
    }
    source.push_str(&errors(route));
    source
}

/// The parameters in one place of a request; nothing if there are none.
pub(super) fn parameters(site: &Site, operation: &Value, place: &str, title: &str) -> String {
    let all = operation["parameters"].as_array().into_iter().flatten();
    let list: String = all
        .filter(|parameter| parameter["in"] == place)
        .map(|parameter| {
            let text = |field: &str| text_of(parameter, field);
            let mark = if parameter["required"] == true { ", required" } else { "" };
            let kind = format!("{}{mark}", kind(&site.description, &parameter["schema"]));
            item(text("name"), &kind, text("description"))
        })
        .collect();
    if list.is_empty() { list } else { format!("## {title}\n\n{list}\n") }
}

/// The responses that are no errors.
fn responses(site: &Site, route: &Route, operation: &Value, example: Option<&RawValue>) -> String {
    let mut out = "## Response\n\n".to_owned();
    let success = route.status.to_string();
    let all = operation["responses"].as_object().into_iter().flatten();
    for (status, response) in all.filter(|(status, _)| status.as_str() < "400") {
        let content = response["content"].as_object().and_then(|content| content.iter().next());
        let kind = content.map(|(kind, _)| format!(", `{kind}`")).unwrap_or_default();
        let about = if *status == success { "" } else { text_of(response, "description") };
        out.push_str(&format!("Status `{status}`{kind}. {about}\n\n"));
        if let Some((_, content)) = content.filter(|_| *status == success) {
            let schema = &content["schema"];
            let list = fields::list(&site.description, schema, Side::Response, &[], example);
            let about = if list.is_empty() { text_of(schema, "description") } else { list.as_str() };
            out.push_str(&format!("{about}\n\n"));
        }
    }
    out
}

/// The types of Server-Sent Events, each with its schema.
fn frames(site: &Site, operation: &Value) -> String {
    let mut out = "## Frames\n\nThe frames of events contain the same `data` as a webhook's body.\n\n".to_owned();
    for (name, schema) in operation["x-event-stream"].as_object().into_iter().flatten() {
        let id = site.description["webhooks"][name]["post"]["operationId"].as_str();
        out.push_str(&match id {
            Some(id) => format!("### [`{name}`]({})\n\n", path_of(id)),
            None => format!("### `{name}`\n\n{}\n", fields::list(&site.description, schema, Side::Response, &[], None)),
        });
    }
    out
}

/// The messages of a WebSocket, each with its schema and an example.
fn messages(site: &Site, operation: &Value) -> String {
    let document = &site.description;
    let mut out = String::new();
    for (side, name, title) in
        [(Side::Request, "client", "Messages that you send"), (Side::Response, "server", "Messages that you receive")]
    {
        out.push_str(&format!("## {title}\n\n"));
        let all = fields::resolved(document, &operation["x-websocket-messages"][name]);
        let names = all["discriminator"]["mapping"].as_object().into_iter().flatten();
        for schema in fields::alternatives(all) {
            let op = names.clone().find(|(_, target)| **target == schema["$ref"]).map_or("", |(op, _)| op.as_str());
            let schema = fields::resolved(document, schema);
            let about = text_of(schema, "description");
            let list = fields::list(document, schema, side, &["op", "rid"], None);
            out.push_str(&format!("### {op}\n\n{about}\n\n{list}\n"));
        }
    }
    out
}

/// The error codes of an operation; those that all operations have, by name alone.
fn errors(route: &Route) -> String {
    let mut out = "## Errors\n\nAn error is a JSON object with `error`. [Errors](/docs/errors) explains each code.\n\n"
        .to_owned();
    let (mut rows, mut common) = (String::new(), Vec::new());
    for (status, codes) in errors_by_status(route) {
        for code in codes {
            let (name, reason) = (code.as_str(), error_reason(code, status));
            if is_common_error(code) && status == code.http_status() {
                common.push(format!("`{name}`"));
            } else {
                rows.push_str(&format!("| {status} | `{name}` | {reason} |\n"));
            }
        }
    }
    if !rows.is_empty() {
        out.push_str(&format!("| Status | Code | When |\n|---|---|---|\n{rows}\n"));
    }
    out.push_str(&format!("As other operations, it may also have {}.\n\n", common.join(", ")));
    out
}
