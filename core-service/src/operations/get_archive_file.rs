//! Reads a file of the archive, or a part of it. Fails with `FEATURE_DISABLED`, `ARCHIVE_FILE_NOT_FOUND`,
//! `HISTORY_LIMIT` or `RANGE_NOT_SATISFIABLE`.

use std::{future::ready, ops::Range, sync::Arc};

use bytes::Bytes;
use futures::{
    Stream, StreamExt as _,
    stream::{once, try_unfold},
};
use serde_json::json;
use thesis_proto::{
    error::{ApiError, ErrorCode},
    v1,
};

use super::archive::{archive, dataset, find, message as file_message};
use crate::{
    access::gate::Call,
    archive::{Archive, StorageError},
    domain::{dataset::Dataset, entry::ArchiveFile},
    error::{Error, Result},
    service::Core,
};

/// Size of the pieces in which a file is read and sent.
const PIECE: u64 = 1024 * 1024;
/// Time after which a caller tries again to read a file that is missing, in seconds.
const MISSING_RETRY_AFTER: u32 = 60 * 60;

pub async fn get_archive_file(
    core: &Core,
    call: &Call,
    message: v1::GetArchiveFileRequest,
) -> Result<impl Stream<Item = Result<v1::GetArchiveFileResponse>> + Send + use<>> {
    call.charge().await?;
    let archived = find(core, call, &message.date, &message.kind).await?.file;
    let part = part(&message, &archived)?;
    let reader = Reader { archive: Arc::clone(archive(core)?), dataset: dataset(call), file: archived };
    // The first piece is read before the answer, so that a storage that fails is an error and no short file.
    let next = part.end.min(part.start + PIECE);
    let data = reader.read(part.start..next).await?;
    let first = v1::GetArchiveFileResponse {
        file: Some(file_message(core, &reader.file)),
        first: part.start,
        length: part.end - part.start,
        data,
    };
    let rest = try_unfold((reader, next..part.end), |(reader, rest)| async move {
        if rest.is_empty() {
            return Ok::<_, Error>(None);
        }
        let next = rest.end.min(rest.start + PIECE);
        let data = reader.read(rest.start..next).await?;
        let piece = v1::GetArchiveFileResponse { data, ..v1::GetArchiveFileResponse::default() };
        Ok(Some((piece, (reader, next..rest.end))))
    });
    Ok(once(ready(Ok(first))).chain(rest))
}

/// Reads a file piece by piece.
struct Reader {
    archive: Arc<Archive>,
    dataset: Dataset,
    file: ArchiveFile,
}

impl Reader {
    async fn read(&self, range: Range<u64>) -> Result<Bytes> {
        self.archive.read(&self.dataset, &self.file, range).await.map_err(failed)
    }
}

/// The error of a storage that failed. A listed file that is missing there is built again within a day.
fn failed(error: StorageError) -> Error {
    let api = if error.is_missing() {
        let text = "this file is missing, and is built again within a day; the operator can build it at once";
        ApiError::new(ErrorCode::ServiceUnavailable, text).with_retry_after(MISSING_RETRY_AFTER)
    } else {
        ApiError::unavailable()
    };
    Error { api: Box::new(api), why: Some(error.to_string()) }
}

/// The wanted part of a file.
fn part(wanted: &v1::GetArchiveFileRequest, file: &ArchiveFile) -> Result<Range<u64>> {
    let size = file.bytes;
    if wanted.part_of.as_ref().is_some_and(|hash| *hash != file.sha256) {
        return Ok(0..size);
    }
    let part = match (wanted.first, wanted.suffix) {
        (Some(first), _) => first..wanted.last.map_or(size, |last| last.saturating_add(1).min(size)),
        (None, Some(suffix)) => size.saturating_sub(suffix)..size,
        (None, None) => 0..size,
    };
    if part.is_empty() {
        let text = format!("the file has {size} bytes; ask for a part that begins before its end");
        let error = ApiError::new(ErrorCode::RangeNotSatisfiable, text);
        return Err(error.with_details(json!({ "bytes": size })).into());
    }
    Ok(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(first: Option<u64>, last: Option<u64>, suffix: Option<u64>, part_of: Option<&str>) -> Option<Range<u64>> {
        let part_of = part_of.map(str::to_owned);
        let wanted = v1::GetArchiveFileRequest { first, last, suffix, part_of, ..v1::GetArchiveFileRequest::default() };
        let file = ArchiveFile { bytes: 10, sha256: "00ff".to_owned(), ..ArchiveFile::default() };
        part(&wanted, &file).ok()
    }

    #[test]
    fn a_part_ends_with_the_file() {
        assert_eq!(of(None, None, None, None), Some(0..10));
        assert_eq!(of(Some(0), Some(0), None, None), Some(0..1));
        assert_eq!(of(Some(9), Some(u64::MAX), None, None), Some(9..10));
        assert_eq!(of(Some(4), None, None, None), Some(4..10));
        assert_eq!(of(None, None, Some(3), None), Some(7..10));
        assert_eq!(of(None, None, Some(11), None), Some(0..10));
        for (first, last, suffix) in [(Some(10), None, None), (Some(10), Some(12), None), (None, None, Some(0))] {
            assert_eq!(of(first, last, suffix, None), None, "{first:?} {suffix:?}");
        }
    }

    #[test]
    fn a_part_of_another_file_is_the_whole() {
        assert_eq!(of(Some(10), None, None, Some("0000")), Some(0..10));
        assert_eq!(of(Some(1), Some(2), None, Some("00ff")), Some(1..3));
    }
}
