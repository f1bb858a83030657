//! The REST edge: it translates JSON, Server-Sent Events and WebSockets to calls of core's services. It holds no data.
//! Its only decision is which connections receive an event, by their filters.
//!
//! One REST request is one call. `server` accepts connections. `edge` takes a request through a fixed order of checks
//! to a route of `v1`. `answer`, `conditional`, `cors` and `encoding` turn core's response into HTTP. `stream` feeds
//! open connections. `mcp` offers the API to language models. `home` has the home page, `docs` the documentation,
//! `receipt_page` the page that checks receipts, `status_page` the status, `design` the page of all components. The
//! crate `rest-edge-console` has the pages in which users manage their access.

mod access;
mod answer;
mod asyncapi;
mod call;
mod conditional;
mod context;
mod cors;
mod description;
mod design;
mod docs;
mod document;
mod edge;
mod encoding;
#[cfg(test)]
mod fuzz;
mod home;
mod input;
mod mcp;
mod openapi;
mod receipt_page;
mod refusal;
mod request_metrics;
mod route;
mod server;
mod status_page;
mod stream;
#[cfg(test)]
mod tests;
mod v1;

use ipnet::IpNet;
// The frame of all pages, which this crate's templates extend, finds the assets under this path.
use rest_edge_console::assets;
use thesis_net::tls::Acceptor;

pub use crate::{
    mcp::{McpServer, ToolApi},
    openapi::openapi,
    server::serve,
};

/// The settings of an edge.
#[derive(Clone, Debug)]
pub struct EdgeConfig {
    /// The public URL in discovery and descriptions, without a path or a trailing slash.
    pub public_url: String,
    /// The edge trusts `X-Forwarded-For` from these networks.
    pub trusted_proxies: Vec<IpNet>,
    /// Limit for concurrent connections. Beyond it the edge closes an idle connection, or refuses the new one with 503.
    pub max_connections: usize,
    /// Accepts TLS connections. Without it the edge serves plain HTTP.
    pub tls: Option<Acceptor>,
}

impl EdgeConfig {
    /// A configuration that trusts no proxy.
    pub fn new(public_url: impl Into<String>) -> Self {
        Self {
            public_url: public_url.into().trim_end_matches('/').to_owned(),
            trusted_proxies: Vec::new(),
            max_connections: 20_000,
            tls: None,
        }
    }
}
