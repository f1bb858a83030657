//! What all pages of the documentation need: the public URL, and the API's operations.

use std::collections::HashMap;

use http::Method;
use serde_json::Value;
use thesis_proto::error::ErrorCode;

use crate::{
    openapi::{errors_by_status, is_common_error, openapi},
    route::{PathRoutes, Route, router},
    v1,
};

/// The path of the list of all operations.
pub(super) const REFERENCE: &str = "/docs/reference";

/// The page of an operation, or of an event that webhooks receive.
pub(super) fn path_of(id: &str) -> String {
    format!("{REFERENCE}/{id}")
}

pub(super) struct Site {
    /// Without a trailing slash.
    pub(super) public_url: String,
    /// Decides the times of some examples.
    pub(super) now_ms: i64,
    /// The description in OpenAPI.
    pub(super) description: Value,
    pub(super) routes: Vec<Route>,
    /// The routes by path.
    router: matchit::Router<PathRoutes>,
    /// The ids of the operations that have an error code which is not common to all of them.
    by_code: HashMap<&'static str, Vec<&'static str>>,
}

impl Site {
    pub(super) fn new(public_url: &str, now_ms: i64) -> Self {
        let routes = v1::routes();
        let mut by_code = HashMap::<_, Vec<_>>::new();
        for route in &routes {
            for code in errors_by_status(route).into_values().flatten().filter(|code| !is_common_error(*code)) {
                by_code.entry(code.as_str()).or_default().push(route.id);
            }
        }
        Self {
            public_url: public_url.to_owned(),
            now_ms,
            description: openapi(public_url, now_ms),
            routes,
            router: router(v1::routes()),
            by_code,
        }
    }

    /// The operations that have this code, unless all have it.
    pub(super) fn operations_with(&self, code: ErrorCode) -> &[&'static str] {
        self.by_code.get(code.as_str()).map(Vec::as_slice).unwrap_or_default()
    }

    /// The page about what a text names as code: an operation, such as `GET /v1/theses?limit=1`, or an error code.
    pub(super) fn page_about(&self, code: &str) -> Option<String> {
        if let Some(code) = ErrorCode::parse(code) {
            return Some(format!("/docs/errors#{}", code.as_str().to_lowercase()));
        }
        let (method, rest) = code.split_once(' ')?;
        if !["GET", "POST", "PATCH", "DELETE"].contains(&method) {
            return None;
        }
        let path = rest.split(['?', ' ']).next()?;
        let route = self.router.at(path).ok()?.value.for_method(&Method::try_from(method).ok()?).ok()?;
        Some(path_of(route.id))
    }
}
