//! The two files of the store.
//!
//! The log's file has the logs, the marks of those with unfinished work, the trees over logs with their signed
//! checkpoints, and the numbers of datasets. Each of its commits is durable, so an append or a signed checkpoint waits
//! for a small file alone, and no loss of power leaves a checkpoint without its tiles. The rows' file has all other
//! tables. The rows that follow from a log wait for no disk: after a crash they are written again from the log.

use std::path::{Path, PathBuf};

use super::dataset_numbers::DATASET_NUMBER;
use crate::store::schema::{EVENT_LOG, SIGNED_TREE, TREE_TILE, UNFINISHED};

/// The folder of both files in the data folder. It appears when they are whole.
pub(super) const FOLDER: &str = "store";

/// A value for each file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files<T> {
    /// The value for the file of the logs.
    pub log: T,
    /// The value for the file of all other tables.
    pub rows: T,
}

/// True if a table is in the file of the logs.
pub(crate) fn is_in_log_file(table: &str) -> bool {
    [EVENT_LOG.name, UNFINISHED.name, TREE_TILE.name, SIGNED_TREE.name, DATASET_NUMBER].contains(&table)
}

/// The paths of the files in a data folder.
#[must_use]
pub fn files_in(data_dir: &Path) -> Files<PathBuf> {
    Files::paths(&data_dir.join(FOLDER))
}

impl Files<PathBuf> {
    /// The paths in the store's folder.
    pub(super) fn paths(folder: &Path) -> Self {
        Self { log: folder.join("log.redb"), rows: folder.join("rows.redb") }
    }
}

impl<T> Files<T> {
    /// The value for the file with a table.
    pub(super) fn of(&self, table: &str) -> &T {
        if is_in_log_file(table) { &self.log } else { &self.rows }
    }

    pub(super) const fn as_ref(&self) -> Files<&T> {
        Files { log: &self.log, rows: &self.rows }
    }

    pub(super) fn zip<U>(self, other: Files<U>) -> Files<(T, U)> {
        Files { log: (self.log, other.log), rows: (self.rows, other.rows) }
    }

    pub(super) fn map<U>(self, mut map: impl FnMut(T) -> U) -> Files<U> {
        Files { log: map(self.log), rows: map(self.rows) }
    }

    pub(super) fn try_map<U, E>(self, mut map: impl FnMut(T) -> Result<U, E>) -> Result<Files<U>, E> {
        Ok(Files { log: map(self.log)?, rows: map(self.rows)? })
    }
}
