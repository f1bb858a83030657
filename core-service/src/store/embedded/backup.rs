//! Backups of the store while it is in use, and their restore.
//!
//! A backup is a file with its own format (`file`). It is not a copy of the store's files, which change during the
//! read. It has the rows of every table as they were between two commits (`take`). It lacks the index of rows that
//! expire, which `restore` builds again from the rows, and the tiles of the trees, which follow from the logs.

mod file;
mod restore;
mod take;
#[cfg(test)]
mod tests;

pub(super) use self::take::begin;
pub use self::{
    file::{BackupError, Contents, TableContents, Verified, verify},
    restore::{RestoreError, restore, unfinished},
};
