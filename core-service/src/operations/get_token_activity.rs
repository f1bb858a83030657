//! Reads the activity on a token in 24 hours, until now or as of a time. Fails with `TOKEN_NOT_FOUND`,
//! `AMBIGUOUS_TOKEN` or `UPSTREAM_UNAVAILABLE`.

mod earlier;

use std::sync::Arc;

use thesis_proto::{time::from_millis, v1};

use self::earlier::read_as_of;
use super::{
    fields::Fields,
    refresh,
    theses::{Slices, by_time, still_there, with_references},
    token_figures::TokenFigures,
};
use crate::{
    access::gate::Call,
    convert,
    domain::{dataset::Dataset, derivation::HourCounts, row::Thesis, window::DAY_MS},
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
    let as_of = fields.as_of(message.as_of.as_ref(), call);
    fields.finish()?;
    call.charge().await?;
    let found = refresh::find_token(core, call, &reference).await?;
    let figures = TokenFigures::new(core, call, &found.reader, &found.token, as_of).await?;
    let day = figures.counts(DAY_MS).await?;
    let last_activity = figures.last_activity(&day, None).await?;
    let recent_theses = match as_of {
        // All theses that are listed now may have been recorded later.
        Some(_) if last_activity.is_none() => Vec::new(),
        Some(at) => earlier_theses(core, call, &found.token.id, recent, at).await?,
        None => recent_theses(call, &found.reader, &found.token.id, recent).await?,
    };
    let bucket = |hour: &HourCounts| v1::TimelineBucket {
        bucket_start: Some(from_millis(hour.start)),
        theses: hour.theses,
        unique_authors: hour.authors,
    };
    let activity = v1::TokenActivity {
        token: Some(convert::row::token_ref(&found.token)),
        thesis_count_1h: day.last_1h,
        thesis_count_24h: day.last_24h,
        unique_authors_24h: day.authors_24h,
        last_activity_at: last_activity.map(from_millis),
        timeline: day.timeline.iter().map(bucket).collect(),
        recent_theses,
        livemode: call.caller.view.livemode(),
        computed_at: Some(from_millis(figures.at)),
    };
    Ok(v1::GetTokenActivityResponse { activity: Some(activity) })
}

async fn recent_theses(call: &Call, reader: &RowReader<'_>, token: &str, limit: usize) -> Result<Vec<v1::Thesis>> {
    let newest = newest(call, reader, token, limit, None).await?;
    Ok(with_references(reader, &newest).await?)
}

/// Reads the newest theses as of a time. It uses a new reader, because the one that found the token may lack the
/// entries of appends that were in progress.
async fn earlier_theses(core: &Core, call: &Call, token: &str, limit: usize, at: i64) -> Result<Vec<v1::Thesis>> {
    let reader = core.shared.theses.direct_reader();
    let newest = newest(call, &reader, token, limit, Some(at)).await?;
    Ok(with_references(&reader, &read_as_of(&core.shared.log, newest, at).await?).await?)
}

/// Reads the newest theses that are not deleted. If a time is given, it leaves out theses that were recorded later.
async fn newest(
    call: &Call,
    reader: &RowReader<'_>,
    token: &str,
    limit: usize,
    as_of: Option<i64>,
) -> Result<Vec<(Dataset, Arc<Thesis>)>> {
    let scopes = vec![IndexScope::Token(token.to_owned())];
    let to = as_of.unwrap_or(i64::MAX / 2);
    let slices = Slices { scopes, floor: call.history_floor(None)?, to, descending: true, as_of };
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let missing = limit - found.len();
        let rows = by_time(reader, &call.caller.view, &slices, after, missing).await?;
        after = rows.last().map(|last| (last.created_at, last.id.clone()));
        let is_end = rows.len() < missing;
        let rows = rows.into_iter().map(|row| (row.dataset, row.id));
        found.extend(still_there(reader, rows).await?);
        if is_end || found.len() == limit {
            return Ok(found);
        }
    }
}

#[cfg(test)]
mod tests;
