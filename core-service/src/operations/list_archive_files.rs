//! Lists the files of the archive, the newest day first. Fails with `FEATURE_DISABLED`, `INVALID_CURSOR` or
//! `HISTORY_LIMIT`.

use thesis_proto::{near, v1};

use super::{
    archive::{archive, dataset, message as file_message},
    fields::Fields,
};
use crate::{
    access::gate::Call,
    domain::{
        archive::{Day, FileKind},
        entry::ArchiveFile,
        list_cursor::{TimePosition, list_name},
    },
    error::{Error, Result},
    service::Core,
    tables::archive_files,
};

/// Files of one read.
const READ: usize = 200;
/// A text that stands after every kind.
const AFTER_KINDS: &str = "~";

pub async fn list_archive_files(
    core: &Core,
    call: &Call,
    message: v1::ListArchiveFilesRequest,
) -> Result<v1::ListArchiveFilesResponse> {
    let mut fields = Fields::default();
    let kind = message.kind.as_deref().and_then(|kind| read_kind(&mut fields, kind));
    let from = message.from.as_deref().and_then(|text| read_day(&mut fields, "from", text));
    let to = message.to.as_deref().and_then(|text| read_day(&mut fields, "to", text));
    if from.zip(to).is_some_and(|(from, to)| to < from) {
        fields.reject("to", "must not be earlier than from");
    }
    let limit = fields.page(message.limit, message.cursor.as_deref());
    fields.finish()?;
    call.charge().await?;
    archive(core)?;

    let (dataset, signer) = (dataset(call), core.shared.keys.cursor_signer());
    let given = |text: &Option<String>| text.clone().unwrap_or_default();
    let name =
        list_name(&["archive", dataset.name(), &given(&message.kind), &given(&message.from), &given(&message.to)]);
    let (floor, mut after) = match &message.cursor {
        None => {
            let floor = call.history_floor(from.map(Day::start_ms))?;
            (floor, to.map(|to| (to.to_string(), AFTER_KINDS.to_owned())))
        }
        Some(cursor) => {
            let position: Option<TimePosition> = signer.read(&name, cursor);
            let TimePosition { created_at, id, from: carried, .. } = position.ok_or_else(Error::invalid_cursor)?;
            (call.later_floor(carried, from.is_some()), Some((Day::of(created_at).to_string(), id)))
        }
    };
    let bound = floor.bound_for(&dataset);
    let (mut data, mut has_more) = (Vec::new(), false);
    'pages: loop {
        let position = after.as_ref().map(|(date, kind)| (date.as_str(), kind.as_str()));
        let page = archive_files::list(&core.shared.backend, dataset.name(), position, READ).await?;
        let is_last = page.len() < READ;
        for archive_files::ArchivedFile { file, .. } in page {
            if start_of(&file) < bound {
                break 'pages;
            }
            if kind.is_none_or(|kind| kind.as_str() == file.kind) {
                if data.len() == limit {
                    has_more = true;
                    break 'pages;
                }
                data.push(file_message(core, &file));
            }
            after = Some((file.date, file.kind));
        }
        if is_last {
            break;
        }
    }
    let position = after.filter(|_| has_more).map(|(date, id)| TimePosition {
        created_at: Day::parse(&date).map_or(0, Day::start_ms),
        id,
        from: floor.carried(),
        likes: None,
    });
    let next_cursor = position.map(|position| signer.sign(&name, &position));
    Ok(v1::ListArchiveFilesResponse { data, has_more, next_cursor })
}

fn start_of(file: &ArchiveFile) -> i64 {
    Day::parse(&file.date).map_or(i64::MIN, Day::start_ms)
}

fn read_kind(fields: &mut Fields, text: &str) -> Option<FileKind> {
    let kind = FileKind::parse(text);
    if kind.is_none() {
        let known = FileKind::ALL.map(FileKind::as_str);
        let rule = format!("must be one of: {}", known.join(", "));
        fields.reject("kind", near::with_nearest(&rule, text, known));
    }
    kind
}

fn read_day(fields: &mut Fields, param: &str, text: &str) -> Option<Day> {
    let day = Day::parse(text);
    if day.is_none() {
        fields.reject(param, "must be a date such as 2026-01-31");
    }
    day
}
