//! Builds and lists the files of the archive. A service without one answers `FEATURE_DISABLED`. The audit log records the
//! start of a build.

use std::sync::Arc;

use futures::{Stream, StreamExt as _, stream::iter};
use thesis_proto::{
    error::{ApiError, ErrorCode},
    v1,
};

use super::{audit_dataset_action, invalid};
use crate::{
    archive::{Archive, BuildError, DATASETS},
    domain::{account::Actor, archive::Day, dataset::Dataset, entry::ArchiveFile},
    error::{Error, Result},
    service::Core,
    tables::archive_files,
};

/// Files of one read.
const READ: usize = 1_000;

fn archive(core: &Core) -> Result<&Arc<Archive>> {
    let text = "this service has no archive; set SVC_ARCHIVE_URL on its cores";
    core.archive.as_ref().ok_or_else(|| Error::new(ErrorCode::FeatureDisabled, text))
}

/// Reads which datasets are meant.
fn datasets(name: Option<&str>) -> Result<Vec<Dataset>> {
    let Some(name) = name else { return Ok(DATASETS.into()) };
    let found = DATASETS.into_iter().find(|dataset| dataset.name() == name);
    found.map(|dataset| vec![dataset]).ok_or_else(|| invalid("dataset", "must be live or sandbox"))
}

fn file(dataset: &Dataset, file: ArchiveFile) -> v1::DatasetFile {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let ArchiveFile { date, kind, position, rows, bytes, sha256 } = file;
    let (rows, bytes) = (number(rows), number(bytes));
    v1::DatasetFile { dataset: dataset.to_string(), date, kind, rows, bytes, sha256, position }
}

fn failed(error: BuildError) -> Error {
    match error {
        BuildError::Log(error) => error,
        BuildError::Store(error) => error.into(),
        BuildError::NotOver => invalid("date", "is of a day that is not over, whose files come five minutes after it"),
        BuildError::Importing => Error::importing(),
        BuildError::Storage(_) | BuildError::Scratch(_) => {
            let text = format!("{error}; nothing is half written, so try again once that is mended");
            ApiError::new(ErrorCode::ServiceUnavailable, text).with_retry_after(1).into()
        }
        BuildError::Thread(_) => Error::internal(error),
    }
}

pub async fn build_archive(
    core: &Arc<Core>,
    actor: &Actor,
    message: &v1::BuildArchiveRequest,
) -> Result<impl Stream<Item = Result<v1::BuildArchiveResponse>> + Send + use<>> {
    let day = Day::parse(&message.date).ok_or_else(|| invalid("date", "must be a date such as 2026-01-31"))?;
    let datasets = datasets(message.dataset.as_deref())?;
    let archive = Arc::clone(archive(core)?);
    for dataset in &datasets {
        audit_dataset_action(core, actor, "archive.build_begun", dataset).await?;
    }
    let core = Arc::clone(core);
    Ok(iter(datasets).then(move |dataset| {
        let (core, archive) = (Arc::clone(&core), Arc::clone(&archive));
        async move {
            let stop = core.stop.clone();
            let work = async move {
                // A build may take minutes and may end anywhere, so a core that stops does not wait for it.
                let built = stop.run_until_cancelled(archive.build(&dataset, day)).await;
                let files = built.ok_or_else(ApiError::unavailable)?.map_err(failed)?;
                Ok(files.into_iter().map(|built| file(&dataset, built)).collect())
            };
            Ok::<_, Error>(v1::BuildArchiveResponse { data: core.run_to_end(work).await? })
        }
    }))
}

pub async fn list_archive(core: &Core, _: &Actor, message: &v1::ListArchiveRequest) -> Result<v1::ListArchiveResponse> {
    archive(core)?;
    let mut data = Vec::new();
    for dataset in datasets(message.dataset.as_deref())? {
        let mut after: Option<(String, String)> = None;
        loop {
            let position = after.as_ref().map(|(date, kind)| (date.as_str(), kind.as_str()));
            let page = archive_files::list(&core.shared.backend, dataset.name(), position, READ).await?;
            let is_last = page.len() < READ;
            after = page.last().map(|last| (last.file.date.clone(), last.file.kind.clone()));
            data.extend(page.into_iter().map(|listed| file(&dataset, listed.file)));
            if is_last {
                break;
            }
        }
    }
    data.sort_by(|left, right| (&right.date, &left.dataset).cmp(&(&left.date, &right.dataset)));
    Ok(v1::ListArchiveResponse { data })
}
