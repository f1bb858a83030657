//! The REST edge: translates JSON and Server-Sent Events to the core's gRPC. It holds no data and decides nothing but
//! which connection an event's filter lets it reach.
//!
//! One REST request is one gRPC call. `server` accepts connections, `edge` takes a request through its fixed order of
//! checks to a route of `v1`, `answer`, `conditional`, `cors` and `encoding` turn what comes back into HTTP, and
//! `stream` feeds open connections.

/// A client of one of core's services.
macro_rules! core_client {
    ($client:ident, $edge:expr) => {
        $client::new($edge.core.clone()).max_decoding_message_size(crate::edge::MAX_ANSWER)
    };
}

mod answer;
mod call;
mod conditional;
mod cors;
mod document;
mod edge;
mod encoding;
mod input;
mod openapi;
mod refusal;
mod route;
mod server;
mod stream;
#[cfg(test)]
mod tests;
mod v1;

use ipnet::IpNet;
use secrecy::SecretString;

pub use crate::{openapi::openapi, server::serve};

/// How an edge is set up.
#[derive(Clone, Debug)]
pub struct EdgeConfig {
    /// The address that discovery and descriptions name, without a trailing slash.
    pub public_url: String,
    /// The credential toward core.
    pub service_token: SecretString,
    /// Networks whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Connections served at once; when all are in use, idle ones give way, or else a new one gets 503.
    pub max_connections: usize,
}

impl EdgeConfig {
    /// A configuration that trusts no proxy.
    pub fn new(public_url: impl Into<String>, service_token: impl Into<SecretString>) -> Self {
        Self {
            public_url: public_url.into().trim_end_matches('/').to_owned(),
            service_token: service_token.into(),
            trusted_proxies: Vec::new(),
            max_connections: 20_000,
        }
    }
}

#[cfg(test)]
mod settings {
    use super::EdgeConfig;

    #[test]
    fn they_show_no_credential() {
        let shown = format!("{:?}", EdgeConfig::new("http://edge.test", "the-service-token"));
        assert!(shown.contains("http://edge.test") && !shown.contains("the-service-token"), "{shown}");
    }
}
