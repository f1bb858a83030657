//! The calling key and its usage.

use http::StatusCode;
use thesis_proto::{json, v1};

use crate::{
    answer::{Answer, Failure, json},
    call::Call,
    context::Context,
    route::{Route, route},
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        route!(GET, "/v1/me", "MetaService/GetMe", me)
            .named("getMe", "Me", "Describes the calling key.")
            .about(
                "Tells the key's environment, scopes, project, organization and plan, never the key itself. Use \
                 it to check that a key works.",
            )
            .needs(None, "standard")
            .answers::<json::KeyInfo<'_>>(200)
            .tagged(),
        route!(GET, "/v1/me/usage", "MetaService/GetUsage", usage)
            .named("getUsage", "Me", "Tells how much of the plan's limits is used.")
            .about(
                "Tells limit and use of the month's requests (of the organization), of each rate class in this \
                 minute, of open streams and of webhooks. The call itself counts as one standard request.",
            )
            .needs(None, "standard")
            .answers::<json::Usage>(200),
    ]
}

async fn me(edge: &Context, call: &Call) -> Answer {
    let (metadata, answer, _) = edge.core.meta.get_me(call.request(v1::GetMeRequest {})).await?.into_parts();
    let key = answer.key.ok_or_else(Failure::incomplete)?;
    json(StatusCode::OK, &metadata, &json::KeyInfo::from(&key))
}

async fn usage(edge: &Context, call: &Call) -> Answer {
    let (metadata, answer, _) = edge.core.meta.get_usage(call.request(v1::GetUsageRequest {})).await?.into_parts();
    let usage = answer.usage.ok_or_else(Failure::incomplete)?;
    json(StatusCode::OK, &metadata, &json::Usage::from(&usage))
}
