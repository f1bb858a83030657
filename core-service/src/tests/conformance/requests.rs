//! The tables of the request log and of the responses to failed attempts: ranges, order and expiry.

use super::{SharedBackend, fresh};
use crate::{
    domain::{
        request_log::{KEPT_MS, LoggedRequest, RequestRow},
        window::HOUR_MS,
    },
    tables::{
        failed_responses,
        request_log::{self, RequestSpan},
    },
    tests::harness::NOON,
};

pub(crate) async fn requests_are_paged_newest_first(backend: &SharedBackend) {
    let scope = fresh("prj");
    // The newest hour takes more than one scan, and earlier hours are scanned too.
    let ages = (1..=230).chain((1..30).map(|number| number * 2 * HOUR_MS));
    let rows: Vec<RequestRow> = ages
        .map(|age| {
            let request = LoggedRequest { status: 200, path: format!("/{age}"), ..LoggedRequest::default() };
            RequestRow { at: NOON - age, id: format!("req_{age}"), request }
        })
        .collect();
    backend.apply(rows.iter().map(|row| request_log::change(&scope, row)).collect()).await.unwrap();
    let span = RequestSpan { from: NOON - KEPT_MS + 1, to: NOON };
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = request_log::page(backend, &scope, span, after, 100, |_| true).await.unwrap();
        found.extend(page.rows);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found, rows);
    let one = request_log::get(backend, &scope, (NOON - 7, "req_7"), NOON).await.unwrap();
    assert_eq!(one.as_ref(), rows.get(6));
    assert_eq!(request_log::get(backend, &scope, (NOON - 7, "req_8"), NOON).await.unwrap(), None);
}

pub(crate) async fn responses_to_failed_attempts_come_back(backend: &SharedBackend) {
    let delivery = fresh("del");
    let changes = [(2, b"two"), (1, b"one")]
        .map(|(attempt, sealed)| failed_responses::change(&delivery, attempt, NOON, sealed.to_vec()));
    backend.apply(changes.into()).await.unwrap();
    let found = failed_responses::list(backend, &delivery, NOON).await.unwrap();
    assert_eq!(
        found.iter().map(|(attempt, sealed)| (*attempt, &**sealed)).collect::<Vec<_>>(),
        [(1, &b"one"[..]), (2, b"two")]
    );
    let later = NOON + i64::from(failed_responses::RETENTION_SECONDS) * 1_000;
    assert!(failed_responses::list(backend, &delivery, later).await.unwrap().is_empty());
}
