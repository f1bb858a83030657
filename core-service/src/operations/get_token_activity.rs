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
    domain::{
        dataset::Dataset,
        derivation::{HourCounts, PastTheses},
        row::Thesis,
    },
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
    let (day, past) = figures.day().await?;
    let last_activity = figures.last_activity(&day, None).await?;
    let recent_theses = match past {
        // All theses that are listed now may have been recorded later.
        Some(_) if last_activity.is_none() => Vec::new(),
        Some(past) => earlier_theses(core, call, &found.token.id, recent, figures.at, &past).await?,
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

/// Reads the newest theses as of a time, given those of the day before it. It uses a new reader, because the one that
/// found the token may lack the entries of appends that were in progress.
async fn earlier_theses(
    core: &Core,
    call: &Call,
    token: &str,
    limit: usize,
    at: i64,
    past: &PastTheses,
) -> Result<Vec<v1::Thesis>> {
    let reader = core.shared.theses.direct_reader();
    let newest = newest(call, &reader, token, limit, Some((at, past))).await?;
    Ok(with_references(&reader, &read_as_of(&core.shared.log, newest, at).await?).await?)
}

/// Reads the newest theses that are not deleted. If a time is given, with the theses of the day before it, this leaves
/// out theses that were recorded later.
async fn newest(
    call: &Call,
    reader: &RowReader<'_>,
    token: &str,
    limit: usize,
    as_of: Option<(i64, &PastTheses)>,
) -> Result<Vec<(Dataset, Arc<Thesis>)>> {
    let (view, floor) = (&call.caller.view, call.history_floor(None)?);
    let (mut found, mut after) = (Vec::new(), None);
    if let Some((at, past)) = as_of {
        let bounds: Vec<i64> = view.datasets().iter().map(|dataset| floor.bound_for(dataset)).collect();
        let mut read = 0;
        while found.len() < limit {
            let listed = past.newest(at).filter(|(dataset, created_at, _)| *created_at >= bounds[*dataset]);
            let rows: Vec<_> = listed.skip(read).take(limit - found.len()).collect();
            let Some((_, created_at, id)) = rows.last() else { break };
            (read, after) = (read + rows.len(), Some((*created_at, (*id).to_owned())));
            let rows = rows.iter().map(|(dataset, _, id)| (view.datasets()[*dataset].clone(), (*id).to_owned()));
            found.extend(still_there(reader, rows.collect::<Vec<_>>()).await?);
        }
        if found.len() == limit {
            return Ok(found);
        }
    }
    // The index has older theses, after those of the day.
    let (scopes, as_of) = (vec![IndexScope::Token(token.to_owned())], as_of.map(|(at, _)| at));
    let slices = Slices { scopes, floor, to: as_of.unwrap_or(i64::MAX / 2), descending: true, as_of };
    loop {
        let missing = limit - found.len();
        let rows = by_time(reader, view, &slices, after, missing).await?;
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
