//! The request log: sampled requests of each project and environment, for 72 hours.
//!
//! A partition has an hour of a project and environment. With at most 20 requests a second it has up to 72,000 rows.
//! A usual row has about 250 bytes, so that is 18 MB.

use std::ops::Bound;

use prost::Message as _;

use super::decode_message;
use crate::{
    domain::{
        request_log::{KEPT_MS, LoggedRequest, RequestRow},
        window::HOUR_MS,
    },
    key,
    store::{Change, Consistency, Row, Scan, SharedBackend, StoreResult, Value, schema},
};

/// Retention time of rows, in seconds.
pub const RETENTION_SECONDS: u32 = 72 * 3_600;
/// Maximum number of rows of one scan.
const PAGE: usize = 200;
/// Number of hours that are read concurrently if the newest ones have few requests.
const PARALLEL_HOURS: i64 = 12;
/// Maximum number of rows that one page reads.
const MAX_READ: usize = 5_000;

/// The position of a request: its time and id.
pub type RequestPosition = (i64, String);

/// A page of the log, newest first.
#[derive(Debug)]
pub struct RequestPage {
    pub rows: Vec<RequestRow>,
    /// The position after which older requests may follow.
    pub next: Option<RequestPosition>,
}

/// The range of a read.
#[derive(Clone, Copy, Debug)]
pub struct RequestSpan {
    /// The first millisecond.
    pub from: i64,
    /// The last millisecond.
    pub to: i64,
}

fn hour_of(at: i64) -> i64 {
    at.div_euclid(HOUR_MS)
}

fn row_key(scope: &str, at: i64, id: &str) -> Vec<Value> {
    key![scope, hour_of(at), at, id]
}

/// The change that stores a request of a project and environment. A repeat changes nothing.
pub fn change(scope: &str, row: &RequestRow) -> Change {
    Change {
        table: &schema::REQUEST_LOG,
        key: row_key(scope, row.at, &row.id),
        version: row.at,
        body: Some(row.request.encode_to_vec().into()),
        ttl: Some(RETENTION_SECONDS),
    }
}

fn decode(row: Row) -> StoreResult<Option<RequestRow>> {
    let [at, id] = row.clustering.as_slice() else { return Ok(None) };
    let (at, id) = (at.int(), id.text().to_owned());
    let request: LoggedRequest = decode_message(row.body, "logged request")?;
    Ok(Some(RequestRow { at, id, request }))
}

/// Reads a request by its time and id; none if it is not kept.
pub async fn get(
    backend: &SharedBackend,
    scope: &str,
    (at, id): (i64, &str),
    now_ms: i64,
) -> StoreResult<Option<RequestRow>> {
    if at <= now_ms - KEPT_MS {
        return Ok(None);
    }
    let row = backend.get(&schema::REQUEST_LOG, &row_key(scope, at, id), Consistency::Quorum).await?;
    let found = |row: Row| -> StoreResult<RequestRow> {
        let request = decode_message(row.body, "logged request")?;
        Ok(RequestRow { at, id: id.to_owned(), request })
    };
    row.map(found).transpose()
}

/// Reads the requests of a span that `is_wanted` accepts, newest first, after a position. A page reads a bounded number
/// of rows, so it may be short.
pub async fn page(
    backend: &SharedBackend,
    scope: &str,
    span: RequestSpan,
    mut after: Option<RequestPosition>,
    limit: usize,
    is_wanted: impl Fn(&RequestRow) -> bool,
) -> StoreResult<RequestPage> {
    let (mut rows, mut read) = (Vec::new(), 0);
    let newest = after.as_ref().map_or(span.to, |(at, _)| (*at).min(span.to));
    let (mut hour, oldest) = (hour_of(newest), hour_of(span.from));
    // The newest hour of a busy project fills the page.
    let mut width = 1;
    'hours: while hour >= oldest {
        let hours: Vec<i64> = (0..width).map(|ago| hour - ago).filter(|hour| *hour >= oldest).collect();
        let scans: Vec<Scan> = hours.iter().map(|hour| scan(scope, *hour, span, after.as_ref())).collect();
        for (read_hour, found) in hours.iter().zip(backend.scan_many(&scans).await?) {
            let is_full = found.len() == PAGE;
            for row in found {
                let Some(row) = decode(row)? else { continue };
                let position = (row.at, row.id.clone());
                read += 1;
                if is_wanted(&row) {
                    rows.push(row);
                }
                if rows.len() == limit || read == MAX_READ {
                    return Ok(RequestPage { rows, next: Some(position) });
                }
                after = Some(position);
            }
            if is_full {
                (hour, width) = (*read_hour, 1);
                continue 'hours;
            }
        }
        (hour, width) = (hour - width, PARALLEL_HOURS);
    }
    Ok(RequestPage { rows, next: None })
}

/// The scan of an hour, from its newest request of the span after a position down.
fn scan(scope: &str, hour: i64, span: RequestSpan, after: Option<&RequestPosition>) -> Scan {
    let to = match after {
        Some((at, id)) if hour_of(*at) == hour => Bound::Excluded(key![*at, id]),
        _ => Bound::Included(key![span.to]),
    };
    Scan {
        from: Bound::Included(key![span.from]),
        to,
        reverse: true,
        ..Scan::all(&schema::REQUEST_LOG, key![scope, hour], PAGE)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::tests::{faulty::MemoryStore, harness::NOON};

    const SCOPE: &str = "prj_1/test";

    fn row(at: i64, status: i32) -> RequestRow {
        let request = LoggedRequest { status, ..LoggedRequest::default() };
        RequestRow { at, id: format!("req_{at}"), request }
    }

    async fn filled(times: impl Iterator<Item = i64>) -> SharedBackend {
        let backend: SharedBackend = Arc::new(MemoryStore::new(false));
        let rows: Vec<RequestRow> = times.map(|at| row(at, if at % 2 == 0 { 200 } else { 404 })).collect();
        backend.apply(rows.iter().map(|row| change(SCOPE, row)).collect()).await.unwrap();
        backend
    }

    /// Reads all pages.
    async fn all(backend: &SharedBackend, span: RequestSpan, limit: usize, status: Option<i32>) -> Vec<i64> {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let is_wanted = |row: &RequestRow| status.is_none_or(|status| row.request.status == status);
            let page = page(backend, SCOPE, span, after, limit, is_wanted).await.unwrap();
            found.extend(page.rows.iter().map(|row| row.at));
            after = page.next;
            if after.is_none() {
                return found;
            }
        }
    }

    #[tokio::test]
    async fn pages_go_over_busy_and_quiet_hours() {
        // 450 requests in the newest hour, some in others, one at the start of the span, and one before it.
        let ages = (0..450).chain((1..60).map(|hours| hours * HOUR_MS + hours)).chain([KEPT_MS - 1, KEPT_MS]);
        let mut times: Vec<i64> = ages.map(|age| NOON - age).collect();
        let backend = filled(times.iter().copied()).await;
        times.pop();
        let span = RequestSpan { from: NOON - KEPT_MS + 1, to: NOON };
        for limit in [1, 7, 200, 1_000] {
            assert_eq!(all(&backend, span, limit, None).await, times, "{limit}");
            let failed: Vec<i64> = times.iter().copied().filter(|at| at % 2 != 0).collect();
            assert_eq!(all(&backend, span, limit, Some(404)).await, failed, "{limit}");
        }
        let some = RequestSpan { from: NOON - 20, to: NOON - 10 };
        assert_eq!(all(&backend, some, 3, None).await, (10..=20).map(|age| NOON - age).collect::<Vec<_>>());
        let other = page(&backend, "prj_1/live", span, None, 10, |_| true).await.unwrap();
        assert!(other.rows.is_empty() && other.next.is_none());
    }

    #[tokio::test]
    async fn a_page_reads_a_bounded_number_of_rows() {
        let count = i64::try_from(MAX_READ).unwrap() + 500;
        let backend = filled((0..count).map(|age| NOON - age)).await;
        let span = RequestSpan { from: NOON - count, to: NOON };
        let first = page(&backend, SCOPE, span, None, 10, |_| false).await.unwrap();
        assert!(first.rows.is_empty() && first.next.is_some());
        let last = page(&backend, SCOPE, span, first.next, 10, |_| false).await.unwrap();
        assert!(last.rows.is_empty() && last.next.is_none());
    }

    #[tokio::test]
    async fn a_request_is_found_until_it_expires() {
        let backend = filled([NOON].into_iter()).await;
        let id = format!("req_{NOON}");
        let found = async |now_ms| get(&backend, SCOPE, (NOON, &id), now_ms).await.unwrap();
        assert_eq!(found(NOON).await, Some(row(NOON, if NOON % 2 == 0 { 200 } else { 404 })));
        assert_eq!(found(NOON + KEPT_MS).await, None);
        assert_eq!(get(&backend, "prj_2/test", (NOON, &id), NOON).await.unwrap(), None);
    }
}
