//! A copy that this core sends.

use std::{
    collections::VecDeque,
    fs::{self, File},
    future::ready,
    io::{self, ErrorKind, Read as _},
    path::PathBuf,
    sync::Arc,
};

use bytes::Bytes;
use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use tantivy::index::{IndexMeta, SegmentComponent, SegmentMeta};
use thesis_proto::v1::{CopyShardRequest, CopyShardResponse, ShardFile, ShardFiles};
use tokio::sync::OwnedSemaphorePermit;

use super::{SearchError, SearchIndex, Shard, VERSION, blocking};
use crate::domain::dataset::Dataset;

/// Maximum bytes of a piece of a copy.
const MAX_PIECE_BYTES: u64 = 256 * 1024;

/// The messages of a copy.
type Pieces = BoxStream<'static, Result<CopyShardResponse, SearchError>>;

/// The files that a copy still needs, and a place among the copies. Both are given up with this.
struct SentCopy {
    path: PathBuf,
    /// The names of the files that are not sent yet.
    names: VecDeque<String>,
    /// The first of them, once it is read.
    open: Option<File>,
    /// No file that it names is deleted while it lives.
    _meta: IndexMeta,
    _place: OwnedSemaphorePermit,
}

impl SentCopy {
    /// Reads the next bytes. None at the end.
    fn next_bytes(&mut self) -> io::Result<Option<Bytes>> {
        while let Some(name) = self.names.front() {
            let file = match self.open.take() {
                Some(file) => file,
                None => File::open(self.path.join(name))?,
            };
            let mut data = Vec::new();
            (&file).take(MAX_PIECE_BYTES).read_to_end(&mut data)?;
            if !data.is_empty() {
                self.open = Some(file);
                return Ok(Some(data.into()));
            }
            self.names.pop_front();
        }
        Ok(None)
    }
}

/// Starts to send a shard as of a commit. The copy reads the next piece when its receiver takes one, and ends
/// when it is dropped.
///
/// # Errors
/// `Busy` while this core sends as many copies as it may; others when it does not have the whole shard for these logs.
pub async fn send_shard(index: &Arc<SearchIndex>, request: CopyShardRequest) -> Result<Pieces, SearchError> {
    let sender = Arc::clone(index);
    let (files, copy) = blocking(move || sender.start_sending(&request)).await?;
    let first = CopyShardResponse { files: Some(files), data: Bytes::new() };
    let others = stream::try_unfold(copy, |mut copy| {
        blocking(move || {
            let data = copy.next_bytes()?;
            Ok(data.map(|data| (CopyShardResponse { files: None, data }, copy)))
        })
    });
    Ok(stream::once(ready(Ok(first))).chain(others).boxed())
}

impl SearchIndex {
    fn start_sending(&self, request: &CopyShardRequest) -> Result<(ShardFiles, SentCopy), SearchError> {
        if request.version != VERSION {
            return Err(SearchError::Version);
        }
        let folder = self.folder.as_ref().ok_or(SearchError::Closed)?;
        let shard = Shard::parse(&request.shard).ok_or(SearchError::Closed)?;
        let place = Arc::clone(&self.sent_copies).try_acquire_owned().map_err(|_| SearchError::Busy)?;
        // A core that builds its index lacks more than another core that has it.
        if self.incomplete.borrow().contains_key(Dataset::Live.name()) {
            return Err(SearchError::Closed);
        }
        // A commit and the metadata of its files belong together, and only a failed commit closes the index.
        let meta = self.write(|writer| {
            self.commit_changes(writer)?;
            Ok(writer.meta_for_copy(shard, &request.generation))
        })??;
        let path = folder.path_of(shard);
        let mut files = Vec::new();
        for name in meta.segments.iter().flat_map(file_names) {
            match fs::metadata(path.join(&name)) {
                Ok(file) => files.push(ShardFile { name, length: file.len() }),
                // A segment without deletions has no file of them.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        let names = files.iter().map(|file| file.name.clone()).collect();
        let json: Bytes = serde_json::to_vec(&meta)?.into();
        let files = ShardFiles { meta_checksum: crc32fast::hash(&json), meta: json, files };
        Ok((files, SentCopy { path, names, open: None, _meta: meta, _place: place }))
    }
}

/// The names of the files that a segment may have.
fn file_names(segment: &SegmentMeta) -> [String; 7] {
    use SegmentComponent::{Delete, FastFields, FieldNorms, Positions, Postings, Store, Terms};
    let components = [Postings, Positions, FastFields, FieldNorms, Terms, Store, Delete];
    components.map(|component| segment.relative_path(component).display().to_string())
}
