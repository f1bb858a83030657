//! Requests before they are sent.

use std::{fmt::Display, time::Duration};

use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde::Serialize;

/// Characters to encode in a part of a path: all but letters, digits and the unreserved marks of RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The parameters of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(pub(crate) Vec<(String, String)>);

impl Query {
    pub(crate) fn value(&mut self, name: &str, value: &Option<impl Display>) {
        if let Some(value) = value {
            self.0.push((name.to_owned(), value.to_string()));
        }
    }

    /// A time with milliseconds, as everywhere in the API.
    pub(crate) fn time(&mut self, name: &str, time: &Option<Timestamp>) {
        if let Some(time) = time {
            self.0.push((name.to_owned(), format!("{time:.3}")));
        }
    }

    /// One parameter with all values, separated by commas.
    pub(crate) fn joined(&mut self, name: &str, values: &[impl Display]) {
        if !values.is_empty() {
            let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
            self.0.push((name.to_owned(), texts.join(",")));
        }
    }

    /// A parameter for each value.
    pub(crate) fn each(&mut self, name: &str, values: &[impl Display]) {
        self.0.extend(values.iter().map(|value| (name.to_owned(), value.to_string())));
    }

    /// Replaces a parameter.
    pub(crate) fn set(&mut self, name: &str, value: String) {
        self.0.retain(|(other, _)| other != name);
        self.0.push((name.to_owned(), value));
    }
}

/// One request with all its tries. Each operation that changes something, except a deletion, takes an idempotency key.
/// All others are reads, whatever their method, so every request may be repeated.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Query,
    pub(crate) body: Option<Vec<u8>>,
    /// True for an operation that takes an idempotency key.
    pub(crate) is_keyed: bool,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) range: Option<String>,
    pub(crate) last_event_id: Option<String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) max_retries: Option<u32>,
    /// The reason why the request cannot be sent.
    pub(crate) fault: Option<String>,
}

impl Request {
    /// A request for a path whose parts in braces are replaced by values. The flag of a value is true if its slashes
    /// are not encoded.
    pub(crate) fn new(method: Method, template: &str, values: &[(&str, bool)]) -> Self {
        let (mut path, mut rest, mut fault) = (String::new(), template, None);
        for (value, is_slashed) in values {
            let (before, after) = rest.split_once('{').unwrap_or((rest, ""));
            let encoded: Vec<String> =
                if *is_slashed { value.split('/').map(encode).collect() } else { vec![encode(value)] };
            path.push_str(before);
            path.push_str(&encoded.join("/"));
            rest = after.split_once('}').map_or("", |(_, after)| after);
            // An empty part, or one of dots, would make the address of another operation.
            if encoded.iter().any(|part| part.trim_matches('.').is_empty()) {
                fault = Some(format!("{value:?} names nothing"));
            }
        }
        path.push_str(rest);
        Self {
            method,
            path,
            query: Query::default(),
            body: None,
            is_keyed: false,
            idempotency_key: None,
            range: None,
            last_event_id: None,
            timeout: None,
            max_retries: None,
            fault,
        }
    }

    /// Adds a required parameter.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.query.set(name, value.to_owned());
        self
    }

    /// Adds optional parameters.
    pub(crate) fn query(mut self, query: Query) -> Self {
        self.query.0.extend(query.0);
        self
    }

    pub(crate) fn body(mut self, body: &impl Serialize) -> Self {
        match serde_json::to_vec(body) {
            Ok(body) => self.body = Some(body),
            Err(error) => self.fault = Some(error.to_string()),
        }
        self
    }

    pub(crate) fn keyed(mut self) -> Self {
        self.is_keyed = true;
        self
    }
}

fn encode(value: &str) -> String {
    utf8_percent_encode(value, ENCODED).to_string()
}
