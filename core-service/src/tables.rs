//! Typed repositories over the store, a file a group of tables. Above them nothing names a table.

pub mod abuse;
pub mod deliveries;
pub mod events;
pub mod index_scope;
pub mod log;
mod recent_theses;
mod row_cache;
pub mod theses;
