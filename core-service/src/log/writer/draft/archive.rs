//! Drafts the entries of archive files.

use super::{Draft, EntryPlace};
use crate::{
    domain::{
        entry::{ArchiveFile, Kind},
        id,
    },
    store::StoreResult,
    tables::archive_files,
};

impl Draft<'_> {
    pub(super) fn put_file(&mut self, file: &ArchiveFile) {
        self.files.insert((file.date.clone(), file.kind.clone()), file.sha256.clone());
    }

    /// Adds a file of the archive, unless the log has the same one as the newest of its day and kind.
    pub(in crate::log::writer) async fn add_file(&mut self, file: &ArchiveFile) -> StoreResult<EntryPlace> {
        let known = match self.files.get(&(file.date.clone(), file.kind.clone())) {
            Some(known) => Some(known.clone()),
            None => {
                let found = archive_files::get(&self.shared.backend, self.name, &file.date, &file.kind).await?;
                found.map(|found| found.file.sha256)
            }
        };
        if known.as_ref() == Some(&file.sha256) {
            return Ok(EntryPlace::Nowhere);
        }
        self.put_file(file);
        let number = self.next_sequence().to_string();
        let id = id::derive("ent_", &["archive", self.name, &file.date, &file.kind, &file.sha256, &number]);
        Ok(self.add(id, None, false, Kind::ArchiveFile(file.clone())))
    }
}
