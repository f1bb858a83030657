//! Tokens, their activity and velocity.

use std::mem::take;

use http::{Method, StatusCode};
use thesis_proto::{json, v1};

use crate::{
    answer::{Answer, Failure, json},
    call::Call,
    context::Context,
    input::{Kind, Param},
    route::Route,
};

const TAG: &str = "Tokens";
const REF: &str = "`tk_` id, `chain:address`, address, `$SYMBOL` or `SYMBOL` (case-insensitive); a symbol on several \
                   chains is 409 unless `chain` narrows it";
/// Most characters of a reference, as in the filter of theses.
const REF_CHARS: usize = 200;

const CHAIN: Param = Param::new("chain", Kind::Text(1, 32), "Narrows to one chain; test keys use `sandbox`");

const TOKEN: &[Param] = &[CHAIN];

const ACTIVITY: &[Param] = &[CHAIN, Param::new("recent", Kind::Integer(1, 50, 10), "Entries of `recent_theses`")];

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/tokens/{ref}", "TokenService/GetToken", |edge, call| Box::pin(get(edge, call)))
            .named("getToken", TAG, "Reads a token's metadata and counts.")
            .path_text(REF, REF_CHARS)
            .query(TOKEN)
            .answers::<json::Token<'_>>(200)
            .tagged()
            .fails(&[409]),
        Route::new(Method::GET, "/v1/tokens/{ref}/activity", "TokenService/GetTokenActivity", |edge, call| {
            Box::pin(activity(edge, call))
        })
        .named("getTokenActivity", TAG, "Reads a token's last 24 hours.")
        .path_text(REF, REF_CHARS)
        .query(ACTIVITY)
        .answers::<json::TokenActivity<'_>>(200)
        .fails(&[409]),
        Route::new(Method::GET, "/v1/tokens/{ref}/thesis-velocity", "TokenService/GetThesisVelocity", |edge, call| {
            Box::pin(velocity(edge, call))
        })
        .named("getThesisVelocity", TAG, "Reads how fast theses on a token arrive.")
        .path_text(REF, REF_CHARS)
        .query(TOKEN)
        .answers::<json::ThesisVelocity<'_>>(200)
        .fails(&[409]),
    ]
}

async fn get(edge: &Context, call: &mut Call) -> Answer {
    let r#ref = take(&mut call.id);
    let mut query = call.query()?;
    let request = v1::GetTokenRequest { r#ref, chain: query.text("chain") };
    call.tell(query.unread());
    let (told, answer, _) = edge.core.tokens.get_token(call.request(request)).await?.into_parts();
    let token = answer.token.ok_or_else(Failure::incomplete)?;
    json(StatusCode::OK, &told, &json::Token::from(&token))
}

async fn activity(edge: &Context, call: &mut Call) -> Answer {
    let r#ref = take(&mut call.id);
    let mut query = call.query()?;
    let request = v1::GetTokenActivityRequest { r#ref, chain: query.text("chain"), recent: query.integer("recent") };
    call.tell(query.unread());
    let (told, answer, _) = edge.core.tokens.get_token_activity(call.request(request)).await?.into_parts();
    let activity = answer.activity.ok_or_else(Failure::incomplete)?;
    json(StatusCode::OK, &told, &json::TokenActivity::from(&activity))
}

async fn velocity(edge: &Context, call: &mut Call) -> Answer {
    let r#ref = take(&mut call.id);
    let mut query = call.query()?;
    let request = v1::GetThesisVelocityRequest { r#ref, chain: query.text("chain") };
    call.tell(query.unread());
    let (told, answer, _) = edge.core.tokens.get_thesis_velocity(call.request(request)).await?.into_parts();
    let velocity = answer.velocity.ok_or_else(Failure::incomplete)?;
    json(StatusCode::OK, &told, &json::ThesisVelocity::from(&velocity))
}
