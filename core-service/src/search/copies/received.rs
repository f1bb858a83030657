//! A copy that this core receives.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::Write as _,
    path::PathBuf,
    sync::Arc,
};

use bytes::Bytes;
use thesis_proto::v1::{ShardFile, ShardFiles};

use super::{SearchError, SearchIndex, Shard};
use crate::search::{
    folder::{SearchFolder, open_at, verify_checksums},
    open_shard::OpenShard,
};

/// The metadata of an index. It is written last.
const META: &str = "meta.json";
/// tantivy verifies and deletes the files that this list names, and no others.
const MANAGED_FILES: &str = ".managed.json";

/// The files of a copy, in a folder of their own. The folder is deleted unless the copy is put in place.
pub(in crate::search) struct ReceivedCopy {
    folder: Arc<SearchFolder>,
    shard: Shard,
    path: PathBuf,
    meta: Bytes,
    names: Vec<String>,
    /// The files whose bytes have not all arrived, with the number of bytes that they lack.
    incomplete: VecDeque<ShardFile>,
}

impl Drop for ReceivedCopy {
    fn drop(&mut self) {
        // A copy that was put in place has no folder any more. Another one is deleted at the latest before the next
        // copy of its shard.
        drop(fs::remove_dir_all(&self.path));
    }
}

impl ReceivedCopy {
    fn new(folder: &Arc<SearchFolder>, shard: Shard, files: ShardFiles) -> Result<Self, SearchError> {
        let ShardFiles { meta, meta_checksum, files } = files;
        let is_plain = |name: &str| {
            !name.starts_with('.') && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.')
        };
        let are_plain = files.iter().all(|file| file.length > 0 && is_plain(&file.name));
        if !are_plain || crc32fast::hash(&meta) != meta_checksum {
            return Err(SearchError::Damaged);
        }
        let names = files.iter().map(|file| file.name.clone()).collect();
        let path = folder.create_copy(shard)?;
        Ok(Self { folder: Arc::clone(folder), shard, path, meta, names, incomplete: files.into() })
    }

    /// Writes the next bytes.
    pub(in crate::search) fn write(&mut self, mut data: &[u8]) -> Result<(), SearchError> {
        while !data.is_empty() {
            let file = self.incomplete.front_mut().ok_or(SearchError::Damaged)?;
            let length = data.len().min(usize::try_from(file.length).unwrap_or(usize::MAX));
            let (of_file, rest) = data.split_at(length);
            let mut appended = File::options().create(true).append(true).open(self.path.join(&file.name))?;
            appended.write_all(of_file)?;
            file.length -= of_file.len() as u64;
            if file.length == 0 {
                self.incomplete.pop_front();
            }
            data = rest;
        }
        Ok(())
    }

    /// Verifies that all files are whole, and that the shard can be used for the logs of a generation.
    pub(in crate::search) fn verify(&self, generation: &str) -> Result<(), SearchError> {
        if !self.incomplete.is_empty() {
            return Err(SearchError::Damaged);
        }
        fs::write(self.path.join(MANAGED_FILES), serde_json::to_vec(&self.names)?)?;
        fs::write(self.path.join(META), &self.meta)?;
        let (index, _) = open_at(&self.path, generation)?;
        verify_checksums(&index)?;
        // This opens every file that the metadata name.
        OpenShard::new(self.shard, index, None)?;
        Ok(())
    }
}

impl SearchIndex {
    pub(in crate::search) fn start_receiving(
        &self,
        shard: Shard,
        files: ShardFiles,
    ) -> Result<ReceivedCopy, SearchError> {
        ReceivedCopy::new(self.folder.as_ref().ok_or(SearchError::Closed)?, shard, files)
    }

    /// Puts a verified copy in place of its shard, which is closed.
    pub(in crate::search) fn install(&self, copy: &ReceivedCopy) -> Result<(), SearchError> {
        match copy.shard {
            // The caller opens the index after this.
            Shard::Common => copy.folder.install(copy.shard, &copy.path)?,
            Shard::Month(_) => {
                self.write(|writer| Ok(writer.install_month(copy.shard, &copy.path)))??;
                self.wanted.notify_one();
            }
        }
        Ok(())
    }
}
