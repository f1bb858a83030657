//! Where the files of the archive lie: in a folder, or in a bucket of an S3 service.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    ops::Range,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures::TryStreamExt as _;
use object_store::{
    MultipartUpload, ObjectStore, ObjectStoreExt as _, RetryConfig, aws::AmazonS3Builder, local::LocalFileSystem,
    path::Path,
};
use thesis_net::blocking;
use url::Url;

/// Files are sent in parts of this size. S3 takes no smaller ones, but for the last.
const PART_BYTES: u64 = 8 * 1024 * 1024;
/// A request of S3 is repeated within this time. A caller waits no longer for an answer.
const RETRY_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_RETRIES: usize = 3;

/// A storage that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another kind of URL.
    #[error("it must be file:///FOLDER or s3://BUCKET/FOLDER")]
    Url,
    /// The folder cannot be written.
    #[error("the folder {} cannot be used: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The settings of S3 are wrong.
    #[error("the bucket cannot be used: {0}")]
    Bucket(#[from] object_store::Error),
}

/// A failed call of the storage.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The storage refused it, or does not answer.
    #[error("the archive's storage failed: {0}")]
    Storage(#[from] object_store::Error),
    /// A scratch file or the folder cannot be used.
    #[error("a file for the archive cannot be used: {0}")]
    Scratch(#[from] io::Error),
}

impl StorageError {
    /// True if the file is not there.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Storage(object_store::Error::NotFound { .. }))
    }
}

/// The storage of the files.
#[derive(Clone, Debug)]
pub struct ArchiveStorage {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// The folder; none for a bucket.
    root: Option<PathBuf>,
}

impl ArchiveStorage {
    /// Opens the storage of a URL. A folder is made if it is missing; a bucket is not asked yet, since its service may
    /// be away for the moment. Its credentials and its address are those of the environment, as AWS names them.
    ///
    /// # Errors
    /// Fails if the URL is of another kind, the folder cannot be written, or a setting of the bucket is wrong.
    pub fn open(url: &Url) -> Result<Self, OpenError> {
        match url.scheme() {
            "file" => Self::open_folder(url.to_file_path().map_err(|()| OpenError::Url)?),
            "s3" if url.host_str().is_some_and(|bucket| !bucket.is_empty()) => {
                let retry =
                    RetryConfig { max_retries: MAX_RETRIES, retry_timeout: RETRY_TIMEOUT, ..RetryConfig::default() };
                let store = AmazonS3Builder::from_env().with_url(url.as_str()).with_retry(retry).build()?;
                let prefix = Path::from_url_path(url.path()).map_err(object_store::Error::from)?;
                Ok(Self { store: Arc::new(store), prefix, root: None })
            }
            _ => Err(OpenError::Url),
        }
    }

    /// Opens a folder, and finds out whether it can be written.
    fn open_folder(path: PathBuf) -> Result<Self, OpenError> {
        let writable = fs::create_dir_all(&path).and_then(|()| tempfile::tempfile_in(&path));
        if let Err(source) = writable {
            return Err(OpenError::Folder { path, source });
        }
        let store = LocalFileSystem::new_with_prefix(&path)?.with_fsync(true);
        Ok(Self { store: Arc::new(store), prefix: Path::default(), root: Some(path) })
    }

    fn path(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
    }

    /// Reads a part of a file.
    pub(super) async fn read(&self, name: &str, range: Range<u64>) -> Result<Bytes, StorageError> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        Ok(self.store.get_range(&self.path(name), range).await?)
    }

    /// Returns whether a file of this size is there.
    pub(super) async fn has(&self, name: &str, bytes: u64) -> Result<bool, StorageError> {
        match self.store.head(&self.path(name)).await {
            Ok(meta) => Ok(meta.size == bytes),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Stores a file, read from its present position. It is there as a whole, or not at all.
    pub(super) async fn put(&self, name: &str, file: File, bytes: u64) -> Result<(), StorageError> {
        let path = self.path(name);
        if bytes <= PART_BYTES {
            let (_, content) = read_part(file).await?;
            self.store.put(&path, content.into()).await?;
            return Ok(());
        }
        let mut upload = self.store.put_multipart(&path).await?;
        let sent = send_parts(upload.as_mut(), file, bytes).await;
        if sent.is_err() {
            // The error that counts is the first one. A bucket may also drop old parts by itself.
            drop(upload.abort().await);
        }
        sent
    }

    /// Deletes the files of a folder, except those with these names.
    pub(super) async fn keep_only(&self, folder: &str, names: &[String]) -> Result<(), StorageError> {
        let kept: Vec<Path> = names.iter().map(|name| self.path(name)).collect();
        let found: Vec<_> = self.store.list(Some(&self.path(folder))).try_collect().await?;
        for meta in found.into_iter().filter(|meta| !kept.contains(&meta.location)) {
            self.store.delete(&meta.location).await?;
        }
        self.delete_unfinished(folder).await
    }

    /// Deletes what a killed process has left of files that it did not finish. The store keeps them under names with `#`
    /// and a number, and lists none of them. A bucket has rules of its own for that.
    async fn delete_unfinished(&self, folder: &str) -> Result<(), StorageError> {
        let Some(root) = &self.root else { return Ok(()) };
        let folder = root.join(folder);
        let deleting = blocking::run(move || -> io::Result<()> {
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                if entry.file_name().to_string_lossy().contains('#') {
                    fs::remove_file(entry.path())?;
                }
            }
            Ok(())
        });
        Ok(deleting.await.map_err(io::Error::other)??)
    }
}

/// Reads the next part of a file.
async fn read_part(mut file: File) -> Result<(File, Vec<u8>), StorageError> {
    let reading = blocking::run(move || {
        let mut part = Vec::new();
        let read = file.by_ref().take(PART_BYTES).read_to_end(&mut part);
        read.map(|_| (file, part))
    });
    Ok(reading.await.map_err(io::Error::other)??)
}

async fn send_parts(upload: &mut dyn MultipartUpload, mut file: File, bytes: u64) -> Result<(), StorageError> {
    let mut sent = 0;
    while sent < bytes {
        let part;
        (file, part) = read_part(file).await?;
        if part.is_empty() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        sent += part.len() as u64;
        upload.put_part(part.into()).await?;
    }
    upload.complete().await?;
    Ok(())
}
