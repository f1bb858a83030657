//! The discovery document.

use serde::Serialize;
use utoipa::{ToSchema, openapi::Object};

use super::constant;

/// The addresses of the service; those that it does not have are left out.
#[derive(Debug, Serialize, ToSchema)]
pub struct Discovery<'a> {
    #[schema(schema_with = any_object)]
    object: &'static str,
    /// Version of the API's description.
    pub version: &'a str,
    /// Guides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = "uri")]
    pub documentation: Option<&'a str>,
    /// API reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = "uri")]
    pub reference: Option<&'a str>,
    /// The OpenAPI 3.1 document.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = "uri")]
    pub openapi: Option<&'a str>,
    /// The WebSocket stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = "uri")]
    pub websocket: Option<&'a str>,
    #[schema(schema_with = status)]
    status: &'static str,
}

impl<'a> Discovery<'a> {
    /// A document that names nothing yet.
    #[must_use]
    pub fn new(version: &'a str) -> Self {
        Self {
            object: "discovery",
            version,
            documentation: None,
            reference: None,
            openapi: None,
            websocket: None,
            status: "ok",
        }
    }
}

fn any_object() -> Object {
    constant("discovery")
}

fn status() -> Object {
    constant("ok")
}
