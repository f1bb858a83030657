//! Reads the activity on a token in the last 24 hours. Fails with `TOKEN_NOT_FOUND`, `AMBIGUOUS_TOKEN` or
//! `UPSTREAM_UNAVAILABLE`.

use thesis_proto::{time::from_millis, v1};

use super::{
    fields::Fields,
    refresh::{self, FoundToken},
    theses::{Slices, by_time, still_there, with_references},
};
use crate::{
    access::gate::Call,
    convert,
    domain::{derivation::HourCounts, window::DAY_MS},
    error::Result,
    service::Core,
    tables::{index_scope::IndexScope, theses::RowReader},
};

pub async fn get_token_activity(
    core: &Core,
    call: &Call,
    message: v1::GetTokenActivityRequest,
) -> Result<v1::GetTokenActivityResponse> {
    let mut fields = Fields::default();
    let reference = fields.token(message.r#ref, message.chain);
    let recent = fields.limit("recent", message.recent, 1..=50, 10);
    fields.finish()?;
    call.charge().await?;
    let FoundToken { token, reader, .. } = refresh::find_token(core, call, &reference).await?;
    let (view, at) = (&call.caller.view, call.now_ms);
    let day = core.datasets.counts(&reader, view, &token.id, at, DAY_MS).await?;
    let bucket = |hour: &HourCounts| v1::TimelineBucket {
        bucket_start: Some(from_millis(hour.start)),
        theses: hour.theses,
        unique_authors: hour.authors,
    };
    let activity = v1::TokenActivity {
        token: Some(convert::row::token_ref(&token)),
        thesis_count_1h: day.last_1h,
        thesis_count_24h: day.last_24h,
        unique_authors_24h: day.authors_24h,
        last_activity_at: reader.latest(view, &token.id, at, &day).await?.map(|(at, _)| from_millis(at)),
        timeline: day.timeline.iter().map(bucket).collect(),
        recent_theses: recent_theses(call, &reader, &token.id, recent).await?,
        livemode: view.livemode(),
        computed_at: Some(from_millis(at)),
    };
    Ok(v1::GetTokenActivityResponse { activity: Some(activity) })
}

async fn recent_theses(call: &Call, reader: &RowReader<'_>, token: &str, limit: usize) -> Result<Vec<v1::Thesis>> {
    let scopes = vec![IndexScope::Token(token.to_owned())];
    let slices = Slices { scopes, floor: call.history_floor(None)?, to: i64::MAX / 2, descending: true };
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let missing = limit - found.len();
        let rows = by_time(reader, &call.caller.view, &slices, after, missing).await?;
        after = rows.last().map(|last| (last.created_at, last.id.clone()));
        let is_end = rows.len() < missing;
        let rows = rows.into_iter().map(|row| (row.dataset, row.id));
        found.extend(still_there(reader, rows).await?);
        if is_end || found.len() == limit {
            return Ok(with_references(reader, &found).await?);
        }
    }
}

#[cfg(test)]
mod tests;
