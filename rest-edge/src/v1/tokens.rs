//! Tokens, their activity and velocity.

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

const TAG: &str = "Tokens";
const REF: &str = "`tk_` id, `chain:address`, address, `$SYMBOL` or `SYMBOL` (case-insensitive); a symbol of several \
                   tokens is 409 unless `chain` narrows it";
/// Limit for a reference in characters, as in the filter of theses.
const REF_CHARS: usize = 200;

/// A token of the sandbox.
const EXAMPLE: &str = "RUN";

const CHAIN: Param = Param::new("chain", Kind::Text(1, 32), "Narrows to one chain; test keys use `sandbox`");

const AS_OF: Param = Param::new(
    "as_of",
    Kind::Time,
    "Gives the figures of this time, in whole milliseconds, from what the service had recorded by then; not in the \
     future, and not before the plan's history window",
);

const TOKEN: &[Param] = &[CHAIN, AS_OF];

const ACTIVITY: &[Param] =
    &[CHAIN, Param::new("recent", Kind::Integer(1, 50, 10), "Entries of `recent_theses`"), AS_OF];

pub(super) fn routes() -> Vec<Route> {
    vec![
        route!(GET, "/v1/tokens/{ref}", "TokenService/GetToken", get)
            .named("getToken", TAG, "Reads a token's metadata and counts.")
            .about(
                "`ref` is tried as a `tk_` id, then as `chain:address`, then as an address, then as a symbol; the \
                 first that exists is the answer. A symbol of several tokens is 409 `AMBIGUOUS_TOKEN`, with \
                 `details.candidates`: pass `chain`, or the address. For a live key an unknown `chain:address` is \
                 looked up through the upstream. Counts are of theses that the service has observed since \
                 `first_seen_at`. With `as_of` the counts and `last_activity_at` are those of that time; the rest \
                 is the present token.",
            )
            .needs(Some("tokens:read"), "standard")
            .fails(&[ErrorCode::TokenNotFound, ErrorCode::AmbiguousToken, ErrorCode::UpstreamUnavailable])
            .path_text(REF, REF_CHARS)
            .path_example(EXAMPLE)
            .query(TOKEN)
            .answers::<json::Token<'_>>(200)
            .tagged(),
        route!(GET, "/v1/tokens/{ref}/activity", "TokenService/GetTokenActivity", activity)
            .named("getTokenActivity", TAG, "Reads a token's last 24 hours.")
            .about(
                "Counts theses and authors of the last hour and day, with 24 buckets of one hour that end at \
                 `computed_at` and sum to `thesis_count_24h`. `recent` sets how many of the newest theses come \
                 along; those older than the plan's history window are left out. `ref` and `chain` name the token \
                 as in `GET /v1/tokens/{ref}`. With `as_of`, posts, edits and deletions recorded later do not \
                 count: the figures are the same for ever. `recent_theses` leaves out theses deleted since.",
            )
            .needs(Some("tokens:read"), "standard")
            .fails(&[ErrorCode::TokenNotFound, ErrorCode::AmbiguousToken, ErrorCode::UpstreamUnavailable])
            .path_text(REF, REF_CHARS)
            .path_example(EXAMPLE)
            .query(ACTIVITY)
            .answers::<json::TokenActivity<'_>>(200),
        route!(GET, "/v1/tokens/{ref}/thesis-velocity", "TokenService/GetThesisVelocity", velocity)
            .named("getThesisVelocity", TAG, "Reads how fast theses on a token arrive.")
            .about(
                "Compares the theses of the last hour with those of the hour before. `change_pct` is null when \
                 there were none in the hour before. `ref` and `chain` name the token as in `GET \
                 /v1/tokens/{ref}`. With `as_of` the counts are those of that time, the same for ever.",
            )
            .needs(Some("tokens:read"), "standard")
            .fails(&[ErrorCode::TokenNotFound, ErrorCode::AmbiguousToken, ErrorCode::UpstreamUnavailable])
            .path_text(REF, REF_CHARS)
            .path_example(EXAMPLE)
            .query(TOKEN)
            .answers::<json::ThesisVelocity<'_>>(200),
    ]
}

async fn get(edge: &Context, call: &mut Call) -> Answer {
    let r#ref = take(&mut call.id);
    let mut query = call.query()?;
    let request = v1::GetTokenRequest { r#ref, chain: query.text("chain"), as_of: query.time("as_of") };
    call.add_unread(query.unread());
    let (metadata, answer, _) = edge.core.tokens.get_token(call.request(request)).await?.into_parts();
    let token = answer.token.ok_or_else(Failure::incomplete)?;
    json(StatusCode::OK, &metadata, &json::Token::from(&token))
}

async fn activity(edge: &Context, call: &mut Call) -> Answer {
    let r#ref = take(&mut call.id);
    let mut query = call.query()?;
    let request = v1::GetTokenActivityRequest {
        r#ref,
        chain: query.text("chain"),
        recent: query.integer("recent"),
        as_of: query.time("as_of"),
    };
    call.add_unread(query.unread());
    let (metadata, answer, _) = edge.core.tokens.get_token_activity(call.request(request)).await?.into_parts();
    let activity = answer.activity.ok_or_else(Failure::incomplete)?;
    json(StatusCode::OK, &metadata, &json::TokenActivity::from(&activity))
}

async fn velocity(edge: &Context, call: &mut Call) -> Answer {
    let r#ref = take(&mut call.id);
    let mut query = call.query()?;
    let request = v1::GetThesisVelocityRequest { r#ref, chain: query.text("chain"), as_of: query.time("as_of") };
    call.add_unread(query.unread());
    let (metadata, answer, _) = edge.core.tokens.get_thesis_velocity(call.request(request)).await?.into_parts();
    let velocity = answer.velocity.ok_or_else(Failure::incomplete)?;
    json(StatusCode::OK, &metadata, &json::ThesisVelocity::from(&velocity))
}
