//! `ThesisService`.

use prost_types::Timestamp;
use thesis_proto::{
    time::{is_time, to_millis},
    v1::{self, thesis_service_server::ThesisService},
};
use tonic::{Request, Response, Status, async_trait};

use super::{Api, answer::answer, fields::Fields};
use crate::{
    domain::{operation::Operation, window::parse_span},
    error::Result as Outcome,
    operations::{
        get_thesis::get_thesis,
        list_theses::{ThesisOrder, ThesisQuery, list_theses},
        resolve::ProfileReference,
        verify_thesis::{Claim, verify_thesis},
    },
};

/// Rows of a page, in every list.
pub(super) const LIMIT: std::ops::RangeInclusive<i32> = 1..=100;
/// Rows of a page without a limit in the request.
pub(super) const DEFAULT_LIMIT: i32 = 25;
/// Length of a cursor in characters.
pub(super) const CURSOR: std::ops::RangeInclusive<usize> = 1..=512;

/// Reads the inclusive bounds of a window in whole milliseconds. The lower bound is rounded up, the upper one down.
pub(super) fn bounds(
    fields: &mut Fields,
    after: Option<&Timestamp>,
    before: Option<&Timestamp>,
) -> (Option<i64>, Option<i64>) {
    for (name, bound) in [("created_after", after), ("created_before", before)] {
        if bound.is_some_and(|time| !is_time(time)) {
            fields.reject(name, "must be a time of the years 1 to 9999");
        }
    }
    let order_key = |time: &Timestamp| (time.seconds, time.nanos);
    if let (Some(after), Some(before)) = (after, before)
        && order_key(before) < order_key(after)
    {
        fields.reject("created_before", "must not be earlier than created_after");
    }
    // The caller has already refused a bad time.
    let up = |time: &Timestamp| to_millis(time).saturating_add(i64::from(time.nanos % 1_000_000 != 0));
    (after.map(up), before.map(to_millis))
}

fn query(message: v1::ListThesesRequest) -> Outcome<ThesisQuery> {
    let mut fields = Fields::default();
    fields.optional_length("profile", message.profile.as_deref(), 1..=200);
    fields.optional_length("handle", message.handle.as_deref(), 1..=200);
    fields.optional_length("token", message.token.as_deref(), 1..=200);
    fields.optional_length("chain", message.chain.as_deref(), 1..=32);
    let since = message.since.map(|text| {
        let span = parse_span(&text);
        if span.is_none() {
            fields.reject("since", "must be a span such as 90s, 30m, 1h or 7d");
        }
        (text, span.unwrap_or_default())
    });
    let order = match v1::ThesisSort::try_from(message.sort) {
        Ok(v1::ThesisSort::Unspecified | v1::ThesisSort::CreatedAtDesc) => ThesisOrder::Newest,
        Ok(v1::ThesisSort::CreatedAtAsc) => ThesisOrder::Oldest,
        Ok(v1::ThesisSort::LikesDesc) => ThesisOrder::MostLiked,
        Err(_) => {
            fields.reject("sort", "must be created_at_desc, created_at_asc or likes_desc");
            ThesisOrder::Newest
        }
    };
    let limit = fields.limit("limit", message.limit, LIMIT, DEFAULT_LIMIT);
    fields.optional_length("cursor", message.cursor.as_deref(), CURSOR);
    let (created_after, created_before) =
        bounds(&mut fields, message.created_after.as_ref(), message.created_before.as_ref());
    fields.finish()?;
    Ok(ThesisQuery {
        profile: message.profile,
        handle: message.handle,
        token: message.token,
        chain: message.chain,
        created_after,
        created_before,
        since,
        order,
        limit,
        cursor: message.cursor,
    })
}

#[async_trait]
impl ThesisService for Api {
    async fn list_theses(
        &self,
        request: Request<v1::ListThesesRequest>,
    ) -> Result<Response<v1::ListThesesResponse>, Status> {
        answer(&self.core, Operation::ListTheses, request, |call, message| async move {
            let query = query(message)?;
            call.charge().await?;
            let page = list_theses(&self.core, &call, &query).await?;
            Ok(v1::ListThesesResponse {
                data: page.theses,
                has_more: page.next_cursor.is_some(),
                next_cursor: page.next_cursor,
            })
        })
        .await
    }

    async fn get_thesis(
        &self,
        request: Request<v1::GetThesisRequest>,
    ) -> Result<Response<v1::GetThesisResponse>, Status> {
        answer(&self.core, Operation::GetThesis, request, |call, message| async move {
            call.charge().await?;
            let thesis = get_thesis(&self.core, &call, &message.id).await?;
            Ok(v1::GetThesisResponse { thesis: Some(thesis) })
        })
        .await
    }

    async fn verify_thesis(
        &self,
        request: Request<v1::VerifyThesisRequest>,
    ) -> Result<Response<v1::VerifyThesisResponse>, Status> {
        answer(&self.core, Operation::VerifyThesis, request, |call, message| async move {
            let claim = claim(message, call.now_ms)?;
            call.charge().await?;
            let verification = verify_thesis(&self.core, &call, &claim).await?;
            Ok(v1::VerifyThesisResponse { verification: Some(verification) })
        })
        .await
    }
}

fn claim(message: v1::VerifyThesisRequest, now_ms: i64) -> Outcome<Claim> {
    let mut fields = Fields::default();
    fields.optional_length("handle", message.handle.as_deref(), 1..=64);
    fields.optional_length("profile_id", message.profile_id.as_deref(), 1..=64);
    if message.handle.is_some() == message.profile_id.is_some() {
        fields.reject("handle", "give exactly one of handle and profile_id");
    }
    let token = fields.required("token", message.token.as_deref(), 1..=140).to_owned();
    fields.optional_length("chain", message.chain.as_deref(), 1..=32);
    fields.optional_length("contains", message.contains.as_deref(), 0..=500);
    if message.created_after.is_none() {
        fields.reject("created_after", "is required");
    }
    let (from, to) = bounds(&mut fields, message.created_after.as_ref(), message.created_before.as_ref());
    let from = from.unwrap_or_default();
    if to.is_none() && from > now_ms {
        fields.reject("created_after", "must not be later than now, where the window ends unless told");
    }
    fields.finish()?;
    let author = match message.handle {
        Some(handle) => ProfileReference::Handle(handle),
        None => ProfileReference::AnyId(message.profile_id.unwrap_or_default()),
    };
    Ok(Claim { author, token, chain: message.chain, from, to: to.unwrap_or(now_ms), contains: message.contains })
}
