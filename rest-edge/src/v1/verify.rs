//! Proof that somebody posted a thesis in time.

use http::StatusCode;
use thesis_proto::{error::ErrorCode, json, v1};

use crate::{
    answer::{Answer, Failure, json},
    call::Call,
    context::Context,
    input::{Kind, Param},
    route::{Route, route},
};

const VERIFY: &[Param] = &[
    Param::new("handle", Kind::Text(1, 64), "Handle of the author; exactly one of this and `profile_id` is given"),
    Param::new("profile_id", Kind::Text(1, 64), "`fp_` id or upstream user id of the author"),
    Param::required("token", Kind::Text(1, 140), "`$SYMBOL`, `tk_` id, address or `chain:address`"),
    Param::new("chain", Kind::Text(1, 32), "Narrows a symbol that is on several chains"),
    Param::required("created_after", Kind::Time, "Start of the window, inclusive"),
    Param::new("created_before", Kind::Time, "End of the window, inclusive; now unless given"),
    Param::new("contains", Kind::Text(0, 500), "Text that the thesis must contain, in any case"),
    Param::new("receipt", Kind::Flag, "True to get the receipt of the verified thesis, or else a signed statement"),
];

pub(super) fn routes() -> Vec<Route> {
    vec![
        route!(POST, "/v1/verify/thesis", "ThesisService/VerifyThesis", verify)
            .named("verifyThesis", "Theses", "Tells whether an identity posted a thesis on a token inside a window.")
            .about(
                "Give exactly one of `handle` and `profile_id`. The answer is 200 with `verified` true or false, \
                 a `reason` and the single `checks`; it never judges quality, sentiment or accuracy.\n\n\
                 For a live key, when nothing matches and the window ended within the last 15 minutes, the \
                 token's newest theses are fetched from the upstream once and checked again: \
                 `freshness.served_from` is then `live_sync`. When that fails and the feed is down too, the \
                 answer is 503, never a false no. A symbol on several tokens is 409 `AMBIGUOUS_TOKEN`, with \
                 `details.candidates`; `chain` narrows it. A `created_after` before the plan's history window is \
                 403 `HISTORY_LIMIT`. `Idempotency-Key` has no effect here.\n\n\
                 With `receipt` true, `VERIFIED` comes with the thesis's `receipt`, and any other verdict with a \
                 signed `statement`. Anyone can check both offline. Where there is none, it is 409 `RECEIPT_UNAVAILABLE`.",
            )
            .needs(Some("theses:read"), "verify")
            .fails(&[
                ErrorCode::FeatureDisabled,
                ErrorCode::HistoryLimit,
                ErrorCode::AmbiguousToken,
                ErrorCode::ReceiptUnavailable,
                ErrorCode::UpstreamUnavailable,
            ])
            .body("VerifyThesis", VERIFY)
            .never_repeated()
            .answers::<json::ThesisVerification<'_>>(200),
    ]
}

async fn verify(edge: &Context, call: &Call) -> Answer {
    let mut fields = call.fields()?;
    let request = v1::VerifyThesisRequest {
        handle: fields.text("handle"),
        profile_id: fields.text("profile_id"),
        token: fields.text("token"),
        chain: fields.text("chain"),
        created_after: fields.time("created_after"),
        created_before: fields.time("created_before"),
        contains: fields.text("contains"),
        receipt: fields.flag("receipt"),
    };
    call.add_unread(fields.unread());
    let (metadata, answer, _) = edge.core.theses.verify_thesis(call.request(request)).await?.into_parts();
    let verification = answer.verification.ok_or_else(Failure::incomplete)?;
    json(StatusCode::OK, &metadata, &json::ThesisVerification::from(&verification))
}
