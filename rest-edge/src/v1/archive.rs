//! The archive: files of each day, their downloads and receipts.

use std::{convert::Infallible, future::ready};

use bytes::Bytes;
use futures::{StreamExt as _, stream::once};
use http::{
    HeaderMap, HeaderValue, Response, StatusCode,
    header::{ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_RANGE, RANGE},
};
use http_body_util::{BodyExt as _, Either, StreamBody};
use hyper::body::Frame;
use thesis_proto::{error::ErrorCode, json, v1};
use tonic::Status;

use crate::{
    answer::{Answer, Body, Failure, copy_headers, json, list_page},
    call::Call,
    conditional::is_in,
    context::Context,
    input::{Kind, Param, path_text},
    route::{Route, route},
};

const TAG: &str = "Archive";
/// The media type of Parquet.
const PARQUET: &str = "application/vnd.apache.parquet";
const SUFFIX: &str = ".parquet";
const PREFIX: &str = "/v1/archive/";
const DATE: &str = "The day in UTC, such as `2026-01-31`";
const KINDS: [&str; 4] = ["theses", "events", "token_hours", "changes"];

const LIST: &[Param] = &[
    Param::new("kind", Kind::OneOf(|| KINDS.into()), "Only files of this kind"),
    Param::new("from", Kind::Date, "Only files of this day and later ones"),
    Param::new("to", Kind::Date, "Only files of this day and earlier ones"),
    Param::LIMIT,
    Param::CURSOR,
];

const HEADERS: &[Param] = &[
    Param::new("Range", Kind::Text(0, 256), "The wanted part, such as `bytes=0-1023` or `bytes=-8`"),
    Param::new(
        "If-Range",
        Kind::Text(0, 256),
        "The `ETag` of the file that `Range` is about; another one comes as a whole",
    ),
    Param::new(
        "If-None-Match",
        Kind::Text(0, usize::MAX),
        "Answers 304 without a body when one of these `ETag`s is still the file's",
    ),
];

pub(super) fn routes() -> Vec<Route> {
    vec![
        route!(GET, "/v1/archive", "ArchiveService/ListArchiveFiles", list)
            .named("listArchiveFiles", TAG, "Lists the files of each day, the newest day first.")
            .about(
                "A day ends at midnight in UTC and has its files a few minutes later. A live key has those of live data, \
                 a test key those of the sandbox. The schemas are in the [guide](/docs/archive). A `from` before the \
                 plan's history window is 403 `HISTORY_LIMIT`; without one the list begins at the window. Sandbox data \
                 is never cut off by the window.",
            )
            .needs(Some("archive:read"), "standard")
            .fails(&[ErrorCode::FeatureDisabled, ErrorCode::HistoryLimit])
            .query(LIST)
            .answers::<json::ArchiveFileList<'_>>(200),
        route!(GET, "/v1/archive/{date}/{file}", "ArchiveService/GetArchiveFile", file)
            .named("getArchiveFile", TAG, "Downloads a file, or a part of it.")
            .about(
                "The path ends with the kind and `.parquet`, as `url` in the list has it. `Range` takes one range of \
                 bytes; the answer is 206 then. A range that begins behind the end is 416 `RANGE_NOT_SATISFIABLE`. \
                 `ETag` is the file's SHA-256. A file changes only when the text of a deleted thesis is erased from it.",
            )
            .needs(Some("archive:read"), "standard")
            .fails(&[
                ErrorCode::ArchiveFileNotFound,
                ErrorCode::FeatureDisabled,
                ErrorCode::HistoryLimit,
                ErrorCode::RangeNotSatisfiable,
            ])
            .path_parameter(DATE)
            .path_rest("The kind and `.parquet`, such as `theses.parquet`")
            .headers(HEADERS)
            .in_parts()
            .answers_bytes(PARQUET, "The bytes of the file.", "(a Parquet file)"),
        route!(GET, "/v1/archive/{date}/{file}/receipt", "ArchiveService/GetArchiveReceipt", receipt)
            .named("getArchiveReceipt", TAG, "Reads the receipt of a file's hash.")
            .about(
                "An entry of the log has the hash of each file. Its receipt lets anyone check offline that the service \
                 had recorded the file by then. A new file has its receipt within two seconds: until then it is 409 \
                 `RECEIPT_UNAVAILABLE`. The file has the name of its kind, with or without `.parquet`.",
            )
            .needs(Some("archive:read"), "standard")
            .fails(&[
                ErrorCode::ArchiveFileNotFound,
                ErrorCode::FeatureDisabled,
                ErrorCode::HistoryLimit,
                ErrorCode::ReceiptUnavailable,
            ])
            .path_parameter(DATE)
            .path_rest("The kind, such as `theses`")
            .answers::<json::ArchiveReceipt<'_>>(200),
    ]
}

async fn list(edge: &Context, call: &Call) -> Answer {
    let mut query = call.query()?;
    let request = v1::ListArchiveFilesRequest {
        kind: query.one_of("kind", |text| KINDS.contains(&text).then(|| text.to_owned())),
        from: query.text("from"),
        to: query.text("to"),
        limit: query.integer("limit"),
        cursor: query.text("cursor"),
    };
    call.add_unread(query.unread());
    let (metadata, page, extensions) = edge.core.archive.list_archive_files(call.request(request)).await?.into_parts();
    let end = (page.next_cursor.as_deref(), page.has_more);
    list_page(&metadata, &extensions, end, || json::ArchiveFileList::from(&page))
}

/// The name of the file in a path, decoded.
fn file_name(call: &Call) -> Result<String, Failure> {
    let rest = call.head.uri.path().strip_prefix(PREFIX).unwrap_or_default();
    let name = rest.split('/').nth(1).unwrap_or_default();
    let broken = "the path's percent-encoding is broken; write each % as %25";
    let name = path_text(name).ok_or_else(|| Failure::shape(ErrorCode::InvalidRequest, broken))?;
    Ok(name.into_owned())
}

async fn receipt(edge: &Context, call: &Call) -> Answer {
    let name = file_name(call)?;
    let kind = name.strip_suffix(SUFFIX).unwrap_or(&name).to_owned();
    let request = v1::GetArchiveReceiptRequest { date: call.id.clone(), kind };
    let (metadata, answer, _) = edge.core.archive.get_archive_receipt(call.request(request)).await?.into_parts();
    let receipt = answer.receipt.ok_or_else(Failure::incomplete)?;
    json(StatusCode::OK, &metadata, &json::ArchiveReceipt::from(&receipt))
}

async fn file(edge: &Context, call: &Call) -> Answer {
    let name = file_name(call)?;
    let range = WantedRange::of(&call.head.headers);
    let request = v1::GetArchiveFileRequest {
        date: call.id.clone(),
        // Another name is of no kind.
        kind: name.strip_suffix(SUFFIX).unwrap_or_default().to_owned(),
        first: range.first,
        last: range.last,
        suffix: range.suffix,
        part_of: range.part_of.clone(),
    };
    let answer = edge.core.archive.get_archive_file(call.request(request)).await.map_err(refused)?;
    let (metadata, mut pieces, _) = answer.into_parts();
    let first = pieces.next().await.ok_or_else(Failure::incomplete)??;
    let file = first.file.ok_or_else(Failure::incomplete)?;
    let tag = HeaderValue::try_from(format!("\"{}\"", file.sha256)).map_err(|_| Failure::incomplete())?;
    let mut response = if is_in(&tag, &call.head.headers) {
        not_modified()
    } else {
        // A body that ends early breaks the connection, since it has a length.
        let rest = pieces.take_while(|piece| ready(piece.is_ok())).filter_map(|piece| ready(piece.ok()));
        let rest = rest.map(|piece| piece.data);
        let data = once(ready(first.data)).chain(rest).map(|data: Bytes| Ok::<_, Infallible>(Frame::data(data)));
        let mut response = Response::new(Either::Right(StreamBody::new(data).boxed_unsync()));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PARQUET));
        headers.insert(CONTENT_LENGTH, first.length.into());
        // The file may have changed since the part was asked for, and comes as a whole then.
        if range.is_part_of(&file.sha256) {
            let last = (first.first + first.length).saturating_sub(1);
            let about = format!("bytes {}-{last}/{}", first.first, file.bytes);
            headers.insert(CONTENT_RANGE, HeaderValue::try_from(about).map_err(|_| Failure::incomplete())?);
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
        response
    };
    let headers = response.headers_mut();
    copy_headers(&metadata, headers);
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.insert(ETAG, tag);
    Ok(response)
}

fn not_modified() -> Response<Body> {
    let mut response = Response::new(Either::Left(Default::default()));
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response
}

/// Adds the size of the file to a refusal of a range.
fn refused(status: Status) -> Failure {
    let mut failure = Failure::from(status);
    if let Failure::Error(error, headers) = &mut failure
        && error.code == ErrorCode::RangeNotSatisfiable
        && let Some(bytes) = error.details.as_ref().and_then(|details| details["bytes"].as_u64())
        && let Ok(about) = HeaderValue::try_from(format!("bytes */{bytes}"))
    {
        headers.insert(CONTENT_RANGE, about);
    }
    failure
}

/// The part that a request wants. One that is not readable, and several at once, are as none, as HTTP allows.
#[derive(Debug, Default, PartialEq, Eq)]
struct WantedRange {
    first: Option<u64>,
    last: Option<u64>,
    suffix: Option<u64>,
    /// The SHA-256 of the file that the part is of.
    part_of: Option<String>,
}

impl WantedRange {
    fn of(headers: &HeaderMap) -> Self {
        let Some(mut range) = headers.get(RANGE).and_then(|value| value.to_str().ok()).and_then(Self::parse) else {
            return Self::default();
        };
        range.part_of = headers.get(IF_RANGE).map(|tag| {
            // A date, and any other tag, names no file of ours.
            tag.to_str().unwrap_or_default().trim_matches('"').to_owned()
        });
        range
    }

    fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.trim().strip_prefix("bytes=")?.split_once('-')?;
        let number = |text: &str| -> Option<u64> {
            let text = text.trim();
            (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
                .then(|| text.parse().unwrap_or(u64::MAX))
        };
        if first.trim().is_empty() {
            return Some(Self { suffix: Some(number(last)?), ..Self::default() });
        }
        let first = number(first)?;
        let last = if last.trim().is_empty() { None } else { Some(number(last)?) };
        let is_forward = last.is_none_or(|last| first <= last);
        is_forward.then_some(Self { first: Some(first), last, ..Self::default() })
    }

    /// True if a part was asked for, and of this file.
    fn is_part_of(&self, sha256: &str) -> bool {
        let is_of_file = self.part_of.as_ref().is_none_or(|hash| hash == sha256);
        (self.first.is_some() || self.suffix.is_some()) && is_of_file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_read_and_any_other_is_none() {
        let of = |text: &str| {
            let range = WantedRange::parse(text)?;
            Some((range.first, range.last, range.suffix))
        };
        assert_eq!(of("bytes=0-0"), Some((Some(0), Some(0), None)));
        assert_eq!(of(" bytes=7-"), Some((Some(7), None, None)));
        assert_eq!(of("bytes=-8"), Some((None, None, Some(8))));
        assert_eq!(of("bytes=0-99999999999999999999"), Some((Some(0), Some(u64::MAX), None)));
        for none in
            ["", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=2-1", "bytes=0-1,3-4", "lines=0-1", "bytes=+1-2"]
        {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn a_range_counts_for_the_file_that_it_names() {
        let headers = |tag: &'static str| {
            let range = (RANGE, HeaderValue::from_static("bytes=0-1"));
            WantedRange::of(&HeaderMap::from_iter([range, (IF_RANGE, HeaderValue::from_static(tag))]))
        };
        assert!(headers("\"00ff\"").is_part_of("00ff"));
        for other in ["\"00fe\"", "W/\"00ff\"", "Wed, 21 Oct 2026 07:28:00 GMT"] {
            assert!(!headers(other).is_part_of("00ff"), "{other}");
        }
        assert!(!WantedRange::default().is_part_of("00ff"));
    }
}
