//! The home page at `/`, and the newest events of the sandbox that it shows. Everybody may read both.

mod examples;
mod guarantees;
mod sandbox;
#[cfg(test)]
mod tests;

use askama::Template;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header::CONTENT_TYPE};
use rest_edge_console::HEADERS;
use thesis_net::services::Services;

use self::{
    examples::Examples,
    guarantees::{GUARANTEES, Guarantee},
    sandbox::SandboxEvents,
};
use crate::{
    answer::{Answer, Body, bytes, method_not_allowed},
    conditional,
};

pub(crate) const PATH: &str = "/";
/// The path of the newest events as rows of HTML, which the page's script requests again and again.
pub(crate) const EVENTS_PATH: &str = "/home/events";

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

#[derive(Template)]
#[template(path = "home.html")]
struct HomePage<'a> {
    examples: &'a Examples,
    guarantees: &'static [Guarantee],
    /// The newest events as rows of HTML.
    rows: &'a str,
}

/// The home page of a service with one public URL.
pub(crate) struct Home {
    examples: Examples,
    sandbox: SandboxEvents,
}

impl Home {
    pub(crate) fn new(public_url: &str) -> Self {
        Self { examples: Examples::new(public_url), sandbox: SandboxEvents::default() }
    }

    pub(crate) async fn page(&self, core: &Services, request_headers: &HeaderMap) -> Answer {
        let rows = self.sandbox.rows(core).await;
        let page = HomePage { examples: &self.examples, guarantees: GUARANTEES, rows: &rows };
        let html = page.render().expect("texts always render");
        Ok(html_response(html.into(), request_headers).await)
    }

    pub(crate) async fn events(&self, core: &Services, method: &Method, request_headers: &HeaderMap) -> Answer {
        if method != Method::GET && method != Method::HEAD {
            return Err(method_not_allowed(&HeaderValue::from_static("GET, HEAD")));
        }
        let rows = self.sandbox.rows(core).await;
        Ok(html_response(Bytes::copy_from_slice(rows.as_bytes()), request_headers).await)
    }
}

/// Browsers ask each time whether they still have the newest state.
async fn html_response(html: Bytes, request_headers: &HeaderMap) -> Response<Body> {
    let mut response = bytes(StatusCode::OK, html);
    response.headers_mut().insert(CONTENT_TYPE, HTML);
    conditional::add_tag(&mut response, request_headers).await;
    response.headers_mut().extend(HEADERS);
    response
}
