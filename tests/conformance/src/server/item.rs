//! The query of a stream, and what it sends.

use reqwest::Url;
use serde_json::Value;

use crate::{Miss, verdict::ensure};

/// The stream to open: `thesis.created` events of some tokens or all, by one author or all. It begins after a cursor,
/// at a time in the past, or now.
#[derive(Clone, Default)]
pub(super) struct Query {
    pub(super) tokens: Vec<String>,
    pub(super) handle: Option<String>,
    pub(super) cursor: Option<String>,
    /// The bounds of a replay.
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
}

impl Query {
    pub(super) const TYPE: &'static str = "thesis.created";

    /// Theses about a token.
    pub(super) fn of(token: &str) -> Self {
        Self { tokens: vec![token.to_owned()], ..Self::default() }
    }

    /// The same after a cursor.
    pub(super) fn after(&self, cursor: &str) -> Self {
        Self { cursor: Some(cursor.to_owned()), ..self.clone() }
    }

    /// The path of the stream over SSE.
    pub(super) fn path(&self) -> String {
        let mut url = Url::parse("http://host/v1/events/stream").expect("a constant URL");
        let mut pairs = url.query_pairs_mut();
        pairs.append_pair("types", Self::TYPE);
        if !self.tokens.is_empty() {
            pairs.append_pair("token", &self.tokens.join(","));
        }
        let Self { handle, cursor, from, to, .. } = self;
        for (name, value) in [("handle", handle), ("from_cursor", cursor), ("from", from), ("to", to)] {
            if let Some(value) = value {
                pairs.append_pair(name, value);
            }
        }
        drop(pairs);
        format!("{}?{}", url.path(), url.query().unwrap_or_default())
    }
}

/// The events that a stream leaves out.
#[derive(Debug)]
pub(super) struct Gap {
    pub(super) first_cursor: String,
    pub(super) last_cursor: String,
    /// None beyond 10,000.
    pub(super) skipped: Option<i64>,
    pub(super) path: String,
}

impl Gap {
    /// Reads the gap of a transport that has JSON.
    pub(super) fn read(data: &Value) -> Result<Self, Miss> {
        let field = |name: &str| {
            let text = data[name].as_str().map(str::to_owned);
            text.ok_or_else(|| Miss::Failed(format!("a gap without {name}: {data}")))
        };
        ensure!(data["skipped"].is_i64() || data["skipped"].is_null(), "a gap with a wrong count: {data}");
        Ok(Self {
            first_cursor: field("first_cursor")?,
            last_cursor: field("last_cursor")?,
            skipped: data["skipped"].as_i64(),
            path: field("path")?,
        })
    }
}

/// One item of a stream.
#[derive(Debug)]
pub(super) enum Item {
    /// A cursor without an event.
    Cursor(String),
    Gap(Gap),
    Event {
        cursor: String,
        event: Value,
    },
    /// The end of a replay, with its cursor.
    End(String),
}
