//! Requests of API keys, as the request log stores them.

use percent_encoding::percent_decode_str;

/// Retention time of requests, in milliseconds.
pub const KEPT_MS: i64 = 72 * super::window::HOUR_MS;
/// Maximum number of characters of a stored path and a stored query.
const MAX_PATH: usize = 512;
const MAX_QUERY: usize = 1_024;
/// Replaces a value that may be a secret.
const HIDDEN: &str = "***";
/// A parameter whose name contains one of these may have a secret value.
const SECRET_NAMES: [&str; 8] = ["auth", "credential", "jwt", "key", "passw", "secret", "session", "ticket"];
/// A value that contains one of these is a secret of this service.
const SECRET_VALUES: [&str; 3] = ["svc_live_", "svc_test_", "whsec_"];

/// A request of a key.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LoggedRequest {
    /// The HTTP method, or `gRPC`.
    #[prost(string, tag = "1")]
    pub method: String,
    /// The path of the route, with the names of its parameters.
    #[prost(string, tag = "2")]
    pub route: String,
    #[prost(string, tag = "3")]
    pub path: String,
    /// The query without secrets.
    #[prost(string, tag = "4")]
    pub query: String,
    /// The HTTP status, also of a call over gRPC.
    #[prost(int32, tag = "5")]
    pub status: i32,
    /// The error code, if it was refused or failed.
    #[prost(string, optional, tag = "6")]
    pub code: Option<String>,
    #[prost(int32, tag = "7")]
    pub duration_ms: i32,
    /// The id of the key.
    #[prost(string, tag = "8")]
    pub key: String,
    /// The network of the caller.
    #[prost(string, optional, tag = "9")]
    pub address: Option<String>,
    /// The number of requests of its second that this entry represents.
    #[prost(uint32, tag = "10")]
    pub stands_for: u32,
    /// True if the path and the query are those that were sent. False in rows of versions without this field.
    #[prost(bool, tag = "11")]
    pub is_complete: bool,
}

impl LoggedRequest {
    /// True if the request was refused or failed.
    pub const fn is_error(&self) -> bool {
        self.code.is_some()
    }
}

/// A request with the key of its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRow {
    /// The time at which the request began, in unix milliseconds.
    pub at: i64,
    /// `req_…`
    pub id: String,
    pub request: LoggedRequest,
}

/// The beginning of a path, with parts that may be secrets hidden.
pub fn shown_path(path: &str) -> String {
    let parts = path.split('/').map(|part| if may_be_secret("", part) { HIDDEN } else { part });
    parts.collect::<Vec<_>>().join("/").chars().take(MAX_PATH).collect()
}

/// The beginning of a query, with values that may be secrets hidden.
pub fn shown_query(query: &str) -> String {
    let shown = |pair: &str| match pair.split_once('=') {
        Some((name, value)) if !value.is_empty() && may_be_secret(name, value) => format!("{name}={HIDDEN}"),
        // A parameter without a value may be a key that somebody pasted.
        None if may_be_secret("", pair) => HIDDEN.to_owned(),
        _ => pair.to_owned(),
    };
    let shown: Vec<String> = query.split('&').map(shown).collect();
    shown.join("&").chars().take(MAX_QUERY).collect()
}

fn may_be_secret(name: &str, value: &str) -> bool {
    let plain = |text: &str| percent_decode_str(text).decode_utf8_lossy().to_ascii_lowercase();
    let (name, value) = (plain(name), plain(value));
    // A parameter named just `token` is a token on a chain, not a secret.
    let is_token = name.contains("token") && name != "token";
    is_token
        || SECRET_NAMES.iter().any(|part| name.contains(part))
        || SECRET_VALUES.iter().any(|part| value.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_unless_they_may_be_secrets() {
        for kept in ["", "limit=2&token=%24RUN&types=", "text=moon+or+sun&cursor=abc&from_cursor=x", "a&b=&=c"] {
            assert_eq!(shown_query(kept), kept);
        }
        for (query, shown) in [
            ("ticket=tkt_1&types=a", "ticket=***&types=a"),
            ("t%69cket=tkt_1", "t%69cket=***"),
            ("Access_Token=x&apiKey=y", "Access_Token=***&apiKey=***"),
            ("q=svc_test_abc&q=svc%5Flive_abc", "q=***&q=***"),
            ("svc_test_abc", "***"),
            ("password=&client_secret=s", "password=&client_secret=***"),
        ] {
            assert_eq!(shown_query(query), shown);
        }
        assert_eq!(shown_path("/v1/theses/svc%5Flive_abc"), "/v1/theses/***");
        assert_eq!(shown_path("/v1/theses/th_1"), "/v1/theses/th_1");
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(shown_path(&"é".repeat(600)).chars().count(), MAX_PATH);
        assert_eq!(shown_query(&"a".repeat(2_000)).len(), MAX_QUERY);
    }
}
