//! The REST edge: translates JSON and Server-Sent Events to calls of core's services. It holds no data. Its only
//! decision is which connections an event reaches by their filters.
//!
//! One REST request is one call. `server` accepts connections. `edge` takes a request through its fixed order of
//! checks to a route of `v1`. `answer`, `conditional`, `cors` and `encoding` turn core's answer into HTTP. `stream`
//! feeds open connections. `console` has the pages
//! in which people run their access, `docs` those that they read.

mod access;
mod answer;
mod call;
mod conditional;
mod console;
mod context;
mod cors;
mod description;
mod docs;
mod document;
mod edge;
mod encoding;
mod input;
mod openapi;
mod paths;
mod refusal;
mod request_metrics;
mod route;
mod server;
mod stream;
#[cfg(test)]
mod tests;
mod v1;

use ipnet::IpNet;
use thesis_net::tls::Acceptor;

pub use crate::{openapi::openapi, server::serve};

/// The settings of an edge.
#[derive(Clone, Debug)]
pub struct EdgeConfig {
    /// The address that discovery and descriptions name, without a path or a slash at its end.
    pub public_url: String,
    /// Networks whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Most connections served at once. When all are in use, idle ones give way, or else a new one gets 503.
    pub max_connections: usize,
    /// Makes connections speak TLS; none serves plain HTTP.
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
