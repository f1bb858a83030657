//! The public documents: discovery and the description of the API.

use bytes::Bytes;
use http::StatusCode;
use thesis_proto::json;

use crate::{answer::bytes, route::Route};

pub(crate) const VERSION: &str = "1.0.0";

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::public("/v1", |edge, _| Box::pin(async { Ok(bytes(StatusCode::OK, edge.discovery.clone())) }))
            .named("getDiscovery", "Service", "Names the addresses of everything there is.")
            .about(
                "Tells where guides, reference, this description and the WebSocket are, as absolute addresses. It \
                 needs no key and counts against no limit.",
            )
            .answers::<json::Discovery<'_>>(200),
        Route::public("/v1/openapi.json", |edge, call| {
            Box::pin(async { Ok(edge.openapi.answer(&call.head.headers).await) })
        })
        .named("getDescription", "Service", "Describes the API in OpenAPI 3.1.")
        .about(
            "This document. It needs no key and counts against no limit. Keep its `ETag` to ask cheaply \
                 whether it has changed. Some times in its examples change each day.",
        )
        .tagged(),
        Route::public("/v1/asyncapi.json", |edge, call| {
            Box::pin(async { Ok(edge.asyncapi.answer(&call.head.headers).await) })
        })
        .named("getAsyncDescription", "Service", "Describes streams and webhooks in AsyncAPI 3.")
        .about(
            "The messages of both streams and of webhooks, with the schemas of `GET /v1/openapi.json`. It needs no key \
                 and counts against no limit. Keep its `ETag` to ask cheaply whether it has changed.",
        )
        .answers_object("AsyncDescription")
        .tagged(),
    ]
}

pub(crate) fn discovery_document(public_url: &str) -> Bytes {
    let (documentation, reference) = (format!("{public_url}/docs"), format!("{public_url}/docs/reference"));
    let openapi = format!("{public_url}/v1/openapi.json");
    let mut document = json::Discovery::new(VERSION);
    document.documentation = Some(&documentation);
    document.reference = Some(&reference);
    document.openapi = Some(&openapi);
    // http becomes ws, https wss.
    let websocket = public_url.replacen("http", "ws", 1) + "/v1/stream";
    document.websocket = Some(&websocket);
    serde_json::to_vec(&document).expect("texts always serialise").into()
}
