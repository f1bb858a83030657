//! The reference: a page for each operation and for each event that webhooks receive, made of the API's description.
//!
//! It is rendered here and not by a viewer in the browser. So a page is readable as soon as its few kilobytes have
//! arrived, has the look of all others, in both themes and on paper, and is Markdown too. The search finds it, the
//! fields of an example keep the order of the real response, and the form that sends requests ends the streams that it
//! opens.

mod event;
mod fields;
mod form;
mod operation;
mod sample;
#[cfg(test)]
mod tests;

use serde_json::Value;

use super::{
    markdown,
    menu::{MenuGroup, MenuLink, Section},
    page::{Page, PagePart, coded, escaped},
    site::{REFERENCE, Site, path_of},
};
use crate::route::Route;

/// A name for people: `listTheses` becomes `List theses`.
fn title_of(id: &str) -> String {
    let mut title = String::new();
    for letter in id.chars() {
        if letter.is_ascii_uppercase() {
            title.push(' ');
        }
        title.push(if title.is_empty() { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() });
    }
    title.replace("web socket", "WebSocket")
}

/// The text in a field of a JSON object; empty if there is none.
fn text_of<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// The paths of links within the documentation, without the public URL that the description needs.
fn with_short_links(text: &str, site: &Site) -> String {
    text.replace(&format!("]({}/docs", site.public_url), "](/docs")
}

/// Name, description and operations of each group.
fn groups(site: &Site) -> impl Iterator<Item = (&str, &Value, impl Iterator<Item = &Route>)> {
    let tags = site.description["tags"].as_array().into_iter().flatten();
    tags.map(move |tag| {
        let name = text_of(tag, "name");
        (name, tag, site.routes.iter().filter(move |route| route.tag == name))
    })
}

/// The event types that webhooks receive, with the description of the request.
fn events(site: &Site) -> impl Iterator<Item = (&str, &Value)> {
    let webhooks = site.description["webhooks"].as_object().into_iter().flatten();
    webhooks.map(|(name, item)| (name.as_str(), &item["post"]))
}

/// The menus of the operations.
pub(super) fn menu(site: &Site) -> Vec<MenuGroup> {
    let group =
        |title: &str, links: Vec<MenuLink>| MenuGroup { section: Section::Reference, title: title.to_owned(), links };
    let link = |route: &Route| MenuLink {
        path: path_of(route.id),
        title: title_of(route.id),
        method: match route.method.as_str() {
            "GET" => "GET",
            "POST" => "POST",
            "PATCH" => "PATCH",
            _ => "DELETE",
        },
    };
    let mut menu: Vec<_> = groups(site).map(|(name, _, routes)| group(name, routes.map(link).collect())).collect();
    let event = |(name, post): (&str, &Value)| MenuLink {
        path: path_of(text_of(post, "operationId")),
        title: name.to_owned(),
        method: "",
    };
    menu.push(group("Webhook events", events(site).map(event).collect()));
    menu
}

pub(super) fn pages(site: &Site) -> Vec<Page> {
    let mut pages = vec![overview(site)];
    pages.extend(site.routes.iter().map(|route| operation::page(site, route)));
    pages.extend(events(site).map(|(name, post)| event::page(site, name, post)));
    pages
}

/// The list of all operations. Each row has the operation's id as its fragment.
fn overview(site: &Site) -> Page {
    let about = with_short_links(text_of(&site.description["info"], "description"), site);
    let mut page = markdown::page(REFERENCE, &format!("# API reference\n\n{about}\n"), site);
    let description = "<p>The same as OpenAPI 3.1: <a href=\"/v1/openapi.json\"><code>/v1/openapi.json</code></a>. \
        Streams and webhooks as AsyncAPI 3: <a href=\"/v1/asyncapi.json\"><code>/v1/asyncapi.json</code></a>.</p>\n";
    page.body.push_str(description);
    for (name, tag, routes) in groups(site) {
        let rows = routes.map(|route| (route.id, route.method.as_str(), route.path, route.summary));
        list(&mut page, site, name, text_of(tag, "description"), rows);
    }
    let rows = events(site).map(|(name, post)| (text_of(post, "operationId"), "", name, text_of(post, "summary")));
    list(&mut page, site, "Webhook events", "What your endpoints receive.", rows);
    page
}

/// Adds a group of the list: id, method, path or event type, and summary of each row.
fn list<'a>(
    page: &mut Page,
    site: &Site,
    title: &str,
    about: &str,
    rows: impl Iterator<Item = (&'a str, &'a str, &'a str, &'a str)>,
) {
    // An operation's id may be the group's name.
    let id = format!("group-{}", title.to_lowercase().replace(' ', "-"));
    page.parts.push(PagePart::new(&*id, title));
    page.body
        .push_str(&format!("<h2 id=\"{id}\">{title}</h2>\n<p>{}</p>\n<ul class=\"operations\">\n", escaped(about)));
    page.markdown.push_str(&format!("\n## {title}\n\n{about}\n\n"));
    for (id, method, name, summary) in rows {
        let (path, name) = (path_of(id), name.replace("{*", "{"));
        page.body.push_str(&format!(
            "<li id=\"{id}\"><a href=\"{path}\">{}<code>{}</code></a> <span>{}</span></li>\n",
            method_badge(method),
            escaped(&name),
            coded(summary),
        ));
        let call = format!("{method} {name}");
        page.markdown.push_str(&format!("- [`{}`]({}{path}.md): {summary}\n", call.trim(), site.public_url));
    }
    page.body.push_str("</ul>\n");
}

/// The method of an operation; nothing for an event.
fn method_badge(method: &str) -> String {
    if method.is_empty() {
        return String::new();
    }
    format!("<span class=\"method {}\">{method}</span> ", method.to_lowercase())
}
