//! The files of the archive: for each day and kind the newest one that the log has.

use std::ops::Bound;

use prost::Message as _;

use super::{decode_message, read_message};
use crate::{
    domain::{archive::FileKind, entry::ArchiveFile},
    key,
    store::{
        Change, Consistency, Row, Scan, SharedBackend, StoreResult, Value,
        schema::{self, ARCHIVE_FILE},
    },
};

const WHAT: &str = "archive file";

/// A file, with the sequence number of the entry that has its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedFile {
    pub seq: u64,
    pub file: ArchiveFile,
}

/// The change that lists a file.
pub fn archive_change(dataset: &str, file: &ArchiveFile, version: i64) -> Change {
    let key = key![dataset, &file.date, &file.kind];
    Change { table: &schema::ARCHIVE_FILE, key, version, body: Some(file.encode_to_vec().into()), ttl: None }
}

fn archived(version: i64, file: ArchiveFile) -> ArchivedFile {
    ArchivedFile { seq: u64::try_from(version).unwrap_or_default(), file }
}

/// Reads the file of a day and kind.
pub async fn get(backend: &SharedBackend, dataset: &str, date: &str, kind: &str) -> StoreResult<Option<ArchivedFile>> {
    let found = read_message(backend, &ARCHIVE_FILE, &key![dataset, date, kind], Consistency::Quorum, WHAT).await?;
    Ok(found.map(|(version, file)| archived(version, file)))
}

/// Lists files from the newest date down: those after the position `(date, kind)`, or the first ones, up to `limit`.
pub async fn list(
    backend: &SharedBackend,
    dataset: &str,
    after: Option<(&str, &str)>,
    limit: usize,
) -> StoreResult<Vec<ArchivedFile>> {
    // The table is descending, and a scan goes from the highest key down in reverse.
    let to: Bound<Vec<Value>> = after.map_or(Bound::Unbounded, |(date, kind)| Bound::Excluded(key![date, kind]));
    let scan = Scan { to, reverse: true, ..Scan::all(&ARCHIVE_FILE, key![dataset], limit) };
    let rows = backend.scan(&scan).await?;
    let read = |row: Row| Ok(archived(row.version, decode_message(row.body, WHAT)?));
    rows.into_iter().map(read).collect()
}

/// Lists the files of one day.
pub async fn of_day(backend: &SharedBackend, dataset: &str, date: &str) -> StoreResult<Vec<ArchivedFile>> {
    let bound = Bound::Included(key![date]);
    let scan = Scan { from: bound.clone(), to: bound, ..Scan::all(&ARCHIVE_FILE, key![dataset], FileKind::ALL.len()) };
    let rows = backend.scan(&scan).await?;
    rows.into_iter().map(|row| Ok(archived(row.version, decode_message(row.body, WHAT)?))).collect()
}
