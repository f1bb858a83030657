//! Saving the store while it is in use, and making a store of what was saved.
//!
//! A backup is a file of its own form (`file`), not a copy of the store's file, which changes while it is read. It has
//! the rows of every table as one read transaction sees them (`take`). The index of rows that expire is not in it:
//! `restore` makes it anew of the rows.

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
