//! The request line of an HTTP request, for the request log.

use std::{borrow::Cow, fmt};

use http::{Method, Uri};

/// Maximum length of the line in bytes on its way to core. A longer one loses its query.
const MAX_BYTES: usize = 4 * 1024;

/// Method and address of an HTTP request, as the edge received them.
#[derive(Clone)]
pub struct RequestLine {
    /// The method.
    pub method: Method,
    /// The path of the route, with the names of its parameters.
    pub route: Cow<'static, str>,
    /// The address. Its query may hold a secret.
    pub uri: Uri,
    /// The status of success.
    pub status: u16,
}

impl fmt::Debug for RequestLine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, route, status, .. } = self;
        formatter
            .debug_struct("RequestLine")
            .field("method", method)
            .field("route", route)
            .field("status", status)
            .finish_non_exhaustive()
    }
}

impl RequestLine {
    /// The line as text for a header. Characters that a header or the line cannot contain become question marks.
    pub(super) fn to_text(&self) -> String {
        let Self { method, route, uri, status } = self;
        let path = uri.path();
        let with_query = uri.path_and_query().map_or(path, |both| both.as_str());
        let address = if with_query.len() > MAX_BYTES { path } else { with_query };
        let address = address.replace(|letter: char| !letter.is_ascii_graphic(), "?");
        format!("{method} {status} {route} {address}")
    }

    /// Reads a line from its text; none if the text has another form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(4, ' ');
        let mut next = || parts.next();
        let (method, status, route, uri) = (next()?, next()?, next()?, next()?);
        Some(Self {
            method: method.parse().ok()?,
            route: Cow::Owned(route.to_owned()),
            uri: uri.parse().ok()?,
            status: status.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(uri: &str) -> RequestLine {
        let uri = uri.parse().unwrap();
        RequestLine { method: Method::GET, route: Cow::Borrowed("/v1/theses/{id}"), uri, status: 200 }
    }

    #[test]
    fn a_line_is_read_back() {
        for uri in
            ["/v1/theses/th_1", "/v1/theses/th_1?limit=2&token=%24A", "https://api.example.com/v1/theses/th_1?a=b"]
        {
            let (sent, read) = (line(uri), RequestLine::parse(&line(uri).to_text()).unwrap());
            assert_eq!((&read.method, &read.route, read.status), (&sent.method, &sent.route, sent.status));
            assert_eq!(read.uri.path_and_query(), sent.uri.path_and_query());
        }
        for text in ["", "GET", "GET 200 /v1", "GET x /v1 /v1"] {
            assert!(RequestLine::parse(text).is_none(), "{text:?}");
        }
    }

    #[test]
    fn a_long_query_does_not_travel_and_debug_hides_it() {
        let long = line(&format!("/v1/theses/th_1?q={}", "a".repeat(MAX_BYTES)));
        assert_eq!(RequestLine::parse(&long.to_text()).unwrap().uri, "/v1/theses/th_1");
        assert!(!format!("{:?}", line("/v1?ticket=secret")).contains("secret"));
    }
}
