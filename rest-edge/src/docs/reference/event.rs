//! The page of an event that webhooks receive.

use serde_json::Value;

use super::{
    fields::{self, Side},
    path_of, sample, text_of, with_short_links,
};
use crate::{
    docs::{markdown, page::Page, site::Site},
    openapi::example_text,
};

pub(super) fn page(site: &Site, name: &str, post: &Value) -> Page {
    let text = |field: &str| text_of(post, field);
    let body = &post["requestBody"];
    let example = example_text(&format!("event_{name}"), &site.public_url, site.now_ms);
    let example = example.as_deref().and_then(sample::example);
    // The other form, a thin event, has some of the same fields; the description of the body names them.
    let schema = &body["content"]["application/json"]["schema"]["anyOf"][0];
    let list =
        fields::list(&site.description, schema, Side::Response, &[], example.as_ref().map(|example| example.response));
    let mut source = format!("# {name}\n\n{}\n\n{}\n\n", text("summary"), with_short_links(text("description"), site));
    source.push_str(&format!("## Body\n\n{}\n\n{list}\n", text_of(body, "description")));
    source.push_str(&super::operation::parameters(site, post, "header", "Headers"));
    source.push_str("## Your response\n\n");
    for (status, response) in post["responses"].as_object().into_iter().flatten() {
        let status = if status == "default" { "else" } else { status.as_str() };
        source.push_str(&format!("- `{status}`: {}\n", text_of(response, "description")));
    }
    let mut page = markdown::page(&path_of(text("operationId")), &source, site);
    if let Some(example) = example {
        super::operation::set_aside(
            &mut page,
            site,
            &sample::response("Example body", "json", &sample::pretty(example.response)),
        );
    }
    page
}
