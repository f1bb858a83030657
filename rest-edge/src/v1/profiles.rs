//! Profiles and their wallets.

use std::mem::take;

use http::StatusCode;
use thesis_proto::{error::ErrorCode, json, v1};

use crate::{
    answer::{Answer, Failure, json},
    call::Call,
    context::Context,
    input::{Kind, Param},
    route::{Route, route},
};

const TAG: &str = "Profiles";
const REF: &str = "A handle with or without `@`, an `fp_` id or an upstream user id";
/// A profile of the sandbox.
const EXAMPLE: &str = "@sbx_runner";

const FIND: &[Param] = &[
    Param::new("id", Kind::Text(1, 64), "`fp_` id; exactly one of the three is given"),
    Param::new("handle", Kind::Text(1, 64), "Handle, with or without `@`").example(EXAMPLE),
    Param::new("upstream_user_id", Kind::Text(1, 64), "Upstream user id, which a new handle does not change"),
];

pub(super) fn routes() -> Vec<Route> {
    vec![
        route!(GET, "/v1/profiles", "ProfileService/GetProfile", find)
            .named("findProfile", TAG, "Finds one profile by exactly one of its names.")
            .about(
                "Give exactly one of `id`, `handle` and `upstream_user_id`; none or several are 422. An id never \
                 falls through to handles. The service's index is read first; for a live key an unknown profile \
                 is looked up once through the upstream, and a miss is remembered for 10 minutes. `stale` is true \
                 when the upstream could not be reached and older data is served. It answers 404 \
                 `FEATURE_DISABLED` while the Profiles API is off.",
            )
            .needs(Some("profiles:read"), "heavy")
            .fails(&[ErrorCode::ProfileNotFound, ErrorCode::FeatureDisabled, ErrorCode::UpstreamUnavailable])
            .query(FIND)
            .answers::<json::Profile<'_>>(200)
            .tagged(),
        route!(GET, "/v1/profiles/{ref}", "ProfileService/GetProfile", get)
            .named("getProfile", TAG, "Reads one profile.")
            .about(
                "`ref` is tried as an `fp_` id, then as an upstream user id, then as a handle; the first that \
                 exists is the answer. Handles are compared without regard to case. The service's index is read \
                 first; for a live key an unknown profile is looked up once through the upstream, and a miss is \
                 remembered for 10 minutes. `stale` is true when the upstream could not be reached and older data \
                 is served. It answers 404 `FEATURE_DISABLED` while the Profiles API is off.",
            )
            .needs(Some("profiles:read"), "heavy")
            .fails(&[ErrorCode::ProfileNotFound, ErrorCode::FeatureDisabled, ErrorCode::UpstreamUnavailable])
            .path_text(REF, 80)
            .path_example(EXAMPLE)
            .answers::<json::Profile<'_>>(200)
            .tagged(),
        route!(GET, "/v1/profiles/{ref}/wallets", "ProfileService/GetProfileWallets", wallets)
            .named("getProfileWallets", TAG, "Lists a profile's public, authorized wallet associations.")
            .about(
                "Only associations that are public and authorized are listed, the one observed last first. It \
                 answers 404 `FEATURE_DISABLED` while the Wallets API is off, as it is unless the operator has \
                 switched it on.",
            )
            .needs(Some("wallets:read"), "heavy")
            .fails(&[ErrorCode::ProfileNotFound, ErrorCode::FeatureDisabled, ErrorCode::UpstreamUnavailable])
            .path_text(REF, 80)
            .path_example(EXAMPLE)
            .answers::<json::ProfileWallets<'_>>(200),
    ]
}

async fn find(edge: &Context, call: &Call) -> Answer {
    let mut query = call.query()?;
    let request = v1::GetProfileRequest {
        r#ref: None,
        id: query.text("id"),
        handle: query.text("handle"),
        upstream_user_id: query.text("upstream_user_id"),
    };
    call.add_unread(query.unread());
    profile(edge, call, request).await
}

async fn get(edge: &Context, call: &mut Call) -> Answer {
    let request = v1::GetProfileRequest { r#ref: Some(take(&mut call.id)), ..Default::default() };
    profile(edge, call, request).await
}

async fn profile(edge: &Context, call: &Call, request: v1::GetProfileRequest) -> Answer {
    let (metadata, answer, _) = edge.core.profiles.get_profile(call.request(request)).await?.into_parts();
    let profile = answer.profile.ok_or_else(Failure::incomplete)?;
    json(StatusCode::OK, &metadata, &json::Profile::from(&profile))
}

async fn wallets(edge: &Context, call: &mut Call) -> Answer {
    let request = v1::GetProfileWalletsRequest { r#ref: take(&mut call.id) };
    let (metadata, answer, _) = edge.core.profiles.get_profile_wallets(call.request(request)).await?.into_parts();
    let wallets = answer.profile_wallets.ok_or_else(Failure::incomplete)?;
    json(StatusCode::OK, &metadata, &json::ProfileWallets::from(&wallets))
}
