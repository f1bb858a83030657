//! The interactive API reference: Swagger UI, served from the program.

use std::sync::Arc;

use http::HeaderValue;
use rest_edge_console::assets;
use utoipa_swagger_ui::{Config, serve};

use super::page::Page;
use crate::document::Document;

pub(super) const PATH: &str = "/docs/reference";
/// The summary for the list of all pages.
pub(super) const SUMMARY: &str =
    "Every operation with its parameters, answers and errors, to try out with your own key.";
const FILES: &[&str] = &["swagger-ui.css", "swagger-ui-bundle.js"];

pub(super) fn files() -> impl Iterator<Item = (String, Document)> {
    let config = Arc::new(Config::default());
    FILES.iter().filter_map(move |name| {
        let file = serve(name, Arc::clone(&config)).ok()??;
        let kind = HeaderValue::try_from(file.content_type).ok()?;
        Some((format!("{PATH}/{name}"), Document::new(kind, file.bytes.into_owned().into())))
    })
}

pub(super) fn page() -> Page {
    let body = "<p>Press <em>Authorize</em> and paste a key to send requests from this page. The description itself is at \
                <a href=\"/v1/openapi.json\"><code>/v1/openapi.json</code></a>.</p>\
                <noscript><p>The reference needs JavaScript.</p></noscript>\
                <div id=\"reference\" data-url=\"/v1/openapi.json\"></div>";
    Page {
        path: PATH.to_owned(),
        title: "API reference".to_owned(),
        summary: SUMMARY.to_owned(),
        body: body.to_owned(),
        is_wide: true,
        styles: vec![format!("{PATH}/swagger-ui.css")],
        scripts: vec![format!("{PATH}/swagger-ui-bundle.js"), format!("{}/reference.js", assets::folder())],
        ..Page::default()
    }
}

/// The content security policy of the page. Swagger UI writes inline styles, has its images in data URLs, and sends
/// requests to the public URL.
pub(super) fn policy(public_url: &str) -> HeaderValue {
    let text = format!(
        "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; img-src 'self' data:; \
         font-src 'self'; connect-src 'self' {public_url}; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(text).expect("an address is printable")
}
