//! The API's description in OpenAPI 3.1, generated from the routes.
//!
//! A route cannot be registered without its name, text, parameters, scope and error codes. The examples in
//! `rest-edge/examples/` were recorded from responses. The example of a verification has times of these days, so the
//! description is made anew each day.

mod details;
mod errors;
mod events;
mod examples;
mod headers;
mod operation;
mod schema;
mod streams;
mod webhooks;

use serde_json::{Map, Value, json};
use thesis_proto::json::ErrorEnvelope;
use utoipa::{PartialSchema as _, ToSchema as _};

pub(crate) use self::{
    errors::{by_status as errors_by_status, is_common as is_common_error, reason as error_reason},
    events::{THIN, pascal},
    examples::{ExampleText, STREAM as STREAM_EXAMPLE, text as example_text},
    operation::TICKET,
    schema::schema as parameter_schema,
};
use crate::{
    route::{Route, SuccessResponse},
    v1,
};

/// The rules of all operations, in Markdown.
const ABOUT: &str = "Trade theses, profiles, tokens and their events, over REST, streams and webhooks.\n\n\
    **Keys.** Every request carries `Authorization: Bearer <API_KEY>`. A test key (`svc_test_…`) sees sandbox data and \
    the project's own test data, a live key (`svc_live_…`) real data. A key in a query string is refused.\n\n\
    **Forms.** Bodies are JSON. Times are UTC with milliseconds, such as `2026-01-31T12:00:00.000Z`. In a body, null for \
    an optional field is the same as leaving it out. Unknown parameters and fields are 422, and so is \
    one that is given twice; several values in a query have commas between them. Bodies of answers are compressed with \
    `gzip` or `zstd` when `Accept-Encoding` asks for it.\n\n\
    **Methods.** What answers `GET` answers `HEAD` as well. Every path answers `OPTIONS`, without a key, and pages of any \
    origin may call. A path that does not exist is 404 `ROUTE_NOT_FOUND`.\n\n\
    **Limits.** Each operation belongs to a rate class. Requests are counted by class, project and environment in each \
    minute, and by organization in each month; headers show what is left. 429 and 503 carry `Retry-After`.\n\n\
    **Errors.** Every error is the same envelope. `error.code` is for programs, `error.message` for people, and \
    `error.doc_url` leads to the guide.\n\n\
    **Changes.** The surface under `/v1` is not broken in place. New fields, event types and codes may come: ignore those \
    that you do not know.";

/// Name, description, and the guide under `/docs`, if any.
const TAGS: &[(&str, &str, Option<&str>)] = &[
    ("Service", "What everybody may read: addresses and this description.", Some("quick-start")),
    ("Me", "The calling key, and what its plan has left.", Some("keys-and-environments")),
    ("Profiles", "Public profiles of the upstream, and their public wallets.", Some("filters-and-references")),
    ("Theses", "Short posts about a token, and proof that somebody posted one.", Some("verifying-a-thesis")),
    ("Receipts", "Proof of what the service recorded, which anyone can check offline.", Some("receipts")),
    ("Archive", "Files of each day, for tools that read Parquet.", Some("archive")),
    ("Tokens", "Tokens with their counts, activity and velocity.", Some("filters-and-references")),
    ("Search", "Full-text search across theses, profiles and tokens.", Some("filters-and-references")),
    ("Test data", "Theses that only the project's test keys see.", Some("sandbox")),
    ("Events", "The history of events.", Some("pagination")),
    ("Streams", "Events as they happen, over Server-Sent Events and WebSocket.", Some("streams")),
    ("Webhooks", "Events sent to an endpoint, signed, and the log of their deliveries.", Some("webhooks")),
    ("Alerts", "Rules that report when a count of a token crosses a threshold.", Some("alerts")),
];

/// Builds the description for a public URL and the day of a time in Unix milliseconds.
#[must_use]
pub fn openapi(public_url: &str, now_ms: i64) -> Value {
    let routes = v1::routes();
    let mut paths = Map::new();
    for route in &routes {
        // OpenAPI has no notation for a parameter of several parts.
        let path = paths.entry(route.path.replace("{*", "{")).or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = operation::operation(route, public_url, now_ms);
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Trade Thesis Data Service",
            "version": v1::VERSION,
            "summary": "Trade theses, profiles, tokens and their events.",
            "description": ABOUT,
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "externalDocs": {"description": "Guides", "url": format!("{public_url}/docs")},
        "servers": [{"url": public_url, "description": "This deployment"}],
        "security": [{"bearer": []}],
        "tags": tags(public_url),
        "paths": paths,
        "webhooks": webhooks::webhooks(public_url, now_ms),
        "components": {
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "svc_test_… or svc_live_…",
                    "description": "An API key. The scopes that an operation needs stand beside it.",
                },
                TICKET: {
                    "type": "apiKey",
                    "in": "query",
                    "name": TICKET,
                    "description": "A ticket of `POST /v1/stream/tickets`, in place of a key. Both together are 400.",
                },
            },
            "headers": headers::headers(),
            "examples": errors::examples(public_url),
            "responses": errors::responses(&routes),
            "schemas": schemas(&routes, public_url),
        },
    });
    schema::with_constants(&mut document);
    document
}

fn tags(public_url: &str) -> Vec<Value> {
    let tags = TAGS.iter().map(|(name, about, guide)| {
        let mut tag = json!({"name": name, "description": about});
        if let Some(guide) = guide {
            tag["externalDocs"] = json!({"description": "Guide", "url": format!("{public_url}/docs/{guide}")});
        }
        tag
    });
    tags.collect()
}

fn schemas(routes: &[Route], public_url: &str) -> Map<String, Value> {
    let mut errors = vec![(ErrorEnvelope::name().into_owned(), ErrorEnvelope::schema())];
    ErrorEnvelope::schemas(&mut errors);
    let resources = routes.iter().filter_map(|route| match &route.answers {
        SuccessResponse::Resource(_, schemas) => Some(schemas),
        _ => None,
    });
    let mut all = streams::schemas(public_url);
    for (name, schema) in resources.flatten().chain(&errors) {
        all.insert(name.clone(), serde_json::to_value(schema).unwrap_or_default());
    }
    all.extend(schema::schemas(routes));
    events::part(&mut all);
    details::name(&mut all, errors::all_codes());
    all
}
