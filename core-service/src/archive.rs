//! The archive: Parquet files of each day of `live` and of the sandbox, for tools that read files.
//!
//! The core that leads a log builds the files of a day after midnight in UTC, and those of days that were missed. A day
//! is the part of the log with the times of that day. Nothing with an earlier time comes once it is over, so its end is a
//! fixed position, and building a day again gives the same bytes. Only an erasure changes them.
//!
//! A file is written to a scratch file, stored under a name with its hash, and then listed: an entry of the log has its
//! hash, and the row of the day and kind follows from that entry. Nobody sees a file without a row. So a crash at any
//! point leaves a scratch file without a name, or a stored file that the next try finds complete. Files of a day that
//! no row names are deleted once the day is built.

mod build;
mod columns;
mod day;
mod hours;
mod run;
mod storage;
#[cfg(test)]
mod tests;

use std::{ops::Range, path::PathBuf, sync::Arc};

use bytes::Bytes;
use tokio::sync::Mutex;

pub use self::{
    build::BuildError,
    run::run,
    storage::{ArchiveStorage, OpenError, StorageError},
};
use crate::{
    domain::{dataset::Dataset, entry::ArchiveFile},
    log::datasets::Datasets,
    shared::Shared,
    threads::{self, Threads},
};

/// The datasets that have files.
pub const DATASETS: [Dataset; 2] = [Dataset::Live, Dataset::Sandbox];

/// Priority of the thread that writes files, of 100, where ordinary threads have 50.
const PRIORITY: u8 = 10;

/// Settings of the archive.
#[derive(Debug)]
pub struct ArchiveSettings {
    /// Where the files lie.
    pub storage: ArchiveStorage,
    /// A folder for the files that are being written.
    pub scratch: PathBuf,
}

/// The archive of a core.
pub struct Archive {
    shared: Arc<Shared>,
    datasets: Arc<Datasets>,
    storage: ArchiveStorage,
    scratch: PathBuf,
    threads: Threads,
    /// Held while a day is built: a second one at the same time would take as much memory again.
    building: Mutex<()>,
}

impl Archive {
    pub fn new(shared: Arc<Shared>, datasets: Arc<Datasets>, settings: ArchiveSettings) -> Arc<Self> {
        let ArchiveSettings { storage, scratch } = settings;
        let threads = Threads::start("archive", 1, threads::priority(PRIORITY), 1);
        Arc::new(Self { shared, datasets, storage, scratch, threads, building: Mutex::new(()) })
    }

    /// Reads a part of a file.
    pub async fn read(&self, dataset: &Dataset, file: &ArchiveFile, range: Range<u64>) -> Result<Bytes, StorageError> {
        self.storage.read(&name_of(dataset, file), range).await
    }
}

/// The name of a file in the storage. It has the hash, so that a name never gets other bytes.
fn name_of(dataset: &Dataset, file: &ArchiveFile) -> String {
    let ArchiveFile { date, kind, sha256, .. } = file;
    format!("{dataset}/{date}/{kind}-{sha256}.parquet")
}
