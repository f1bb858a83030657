//! What the operations of the archive share. A service without an archive answers `FEATURE_DISABLED`, and a day or kind
//! without a file is `ARCHIVE_FILE_NOT_FOUND`.

use std::sync::Arc;

use thesis_proto::{error::ErrorCode, v1};

use crate::{
    access::gate::Call,
    archive::Archive,
    domain::{
        archive::{Day, FileKind},
        dataset::Dataset,
        entry::ArchiveFile,
    },
    error::{Error, Result},
    service::Core,
    tables::archive_files::{self, ArchivedFile},
};

/// The archive of this service, if it has one.
pub(super) fn archive(core: &Core) -> Result<&Arc<Archive>> {
    let text = "this service has no archive; ask who runs it for one";
    core.archive.as_ref().ok_or_else(|| Error::new(ErrorCode::FeatureDisabled, text))
}

/// The dataset whose files a key reads: `live` or `sandbox`. A project's own data has no files.
pub(super) fn dataset(call: &Call) -> Dataset {
    if call.caller.view.livemode() { Dataset::Live } else { Dataset::Sandbox }
}

/// Finds a file that the caller may read.
pub(super) async fn find(core: &Core, call: &Call, date: &str, kind: &str) -> Result<ArchivedFile> {
    archive(core)?;
    let text = "there is no such file; GET /v1/archive lists those that there are";
    let missing = || Error::new(ErrorCode::ArchiveFileNotFound, text);
    let (day, kind) = Day::parse(date).zip(FileKind::parse(kind)).ok_or_else(missing)?;
    let dataset = dataset(call);
    let found = archive_files::get(&core.shared.backend, dataset.name(), date, kind.as_str()).await?;
    let found = found.ok_or_else(missing)?;
    call.demand_in_history(&dataset, day.start_ms())?;
    Ok(found)
}

/// A file as callers see it.
pub(super) fn message(core: &Core, file: &ArchiveFile) -> v1::ArchiveFile {
    let ArchiveFile { date, kind, rows, bytes, sha256, .. } = file;
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    v1::ArchiveFile {
        date: date.clone(),
        kind: kind.clone(),
        rows: number(*rows),
        bytes: number(*bytes),
        sha256: sha256.clone(),
        url: core.accounts.address_of(&format!("/v1/archive/{date}/{kind}.parquet")),
    }
}
