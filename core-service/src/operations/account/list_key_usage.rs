//! Lists the requests of a project's keys by hour, key and class, oldest first, from 90 days back at most.

use thesis_proto::v1;

use crate::{
    access::rights,
    accounts::Person,
    convert,
    domain::{
        account::Role,
        window::{DAY_MS, HOUR_MS},
    },
    error::Result,
    operations::admin::{invalid, time},
    service::Core,
    tables::key_usage::{self, RETENTION_MS},
};

/// Time span of one response, in milliseconds.
const MAX_MS: i64 = 31 * DAY_MS;

/// Returns the first millisecond of the first requested hour and the last one of the last hour; none if no counts can
/// exist.
fn span(message: &v1::ListKeyUsageRequest, now_ms: i64) -> Result<Option<(i64, i64)>> {
    let from = time("from", message.from.as_ref())?;
    let to = match &message.to {
        Some(to) => time("to", Some(to))?,
        // A list that starts in the future is empty.
        None => now_ms.max(from),
    };
    if to < from {
        return Err(invalid("to", "must not be before from"));
    }
    if to - from.max(now_ms - RETENTION_MS) > MAX_MS {
        return Err(invalid("to", "must be at most 31 days after from; ask for the other days apart"));
    }
    // The clock of another core may be ahead of this one.
    let (from, to) = (from.max(now_ms - RETENTION_MS), to.min(now_ms + HOUR_MS));
    let hour = |at: i64| at.div_euclid(HOUR_MS) * HOUR_MS;
    Ok((from <= to).then(|| (hour(from), hour(to) + HOUR_MS - 1)))
}

pub async fn list_key_usage(
    core: &Core,
    person: &Person,
    message: &v1::ListKeyUsageRequest,
) -> Result<v1::ListKeyUsageResponse> {
    let span = span(message, person.now_ms)?;
    core.shared.control.refresh().await?;
    rights::project(&core.shared.control.state(), &person.actor, &message.project_id, Role::Viewer)?;
    let rows = match span {
        Some((from, to)) => key_usage::list(&core.shared.backend, &message.project_id, from, to).await?,
        None => Vec::new(),
    };
    Ok(v1::ListKeyUsageResponse { data: rows.into_iter().map(convert::account::key_usage).collect() })
}

#[cfg(test)]
mod tests {
    use thesis_proto::time::from_millis;

    use super::*;

    const NOW: i64 = 1_780_315_200_000 + 30 * 60_000;

    fn of(from: Option<i64>, to: Option<i64>) -> std::result::Result<Option<(i64, i64)>, Option<String>> {
        let (from, to) = (from.map(from_millis), to.map(from_millis));
        let message = v1::ListKeyUsageRequest { from, to, ..v1::ListKeyUsageRequest::default() };
        span(&message, NOW).map_err(|error| error.api.param)
    }

    #[test]
    fn whole_hours_of_ninety_days() {
        let hour = NOW - 30 * 60_000;
        assert_eq!(of(Some(NOW), None), Ok(Some((hour, hour + HOUR_MS - 1))));
        assert_eq!(of(Some(NOW - HOUR_MS), Some(NOW - HOUR_MS)), Ok(Some((hour - HOUR_MS, hour - 1))));
        assert_eq!(of(Some(NOW - MAX_MS), None), Ok(Some((hour - MAX_MS, hour + HOUR_MS - 1))));
        assert_eq!(of(Some(NOW - MAX_MS - 1), None), Err(Some("to".to_owned())));
        let first = NOW - RETENTION_MS + MAX_MS;
        assert_eq!(
            of(Some(0), Some(first)),
            Ok(Some((hour - RETENTION_MS, hour - RETENTION_MS + MAX_MS + HOUR_MS - 1)))
        );
        assert_eq!(of(Some(0), Some(HOUR_MS)), Ok(None), "nothing is kept so long");
        assert_eq!(of(Some(NOW + DAY_MS), None), Ok(None), "nothing has come yet");
        assert_eq!(of(None, None), Err(Some("from".to_owned())));
        assert_eq!(of(Some(NOW), Some(NOW - 1)), Err(Some("to".to_owned())));
        assert_eq!(of(Some(NOW), Some(i64::MAX / 2)), Err(Some("to".to_owned())));
    }
}
