//! Numbers of datasets. The keys of the store hold them in place of the names.
//!
//! Most keys begin with a dataset, and the name of a project's is an id. The numbers belong to one store: its writer
//! gives a dataset the next number in the transaction of its first row, and nothing outside of the store knows them.
//! They are rows of a table, so a backup has them beside the keys.

use std::collections::HashMap;

use bytes::Bytes;
use parking_lot::RwLock;
use redb::{ReadTransaction, ReadableTable as _, TableDefinition, TableError};

use super::{
    key,
    row::{self, StoredRow},
};
use crate::store::{Table, Value};

/// The table of the numbers: key = the dataset's name, version = its number.
pub(super) const DATASET_NUMBER: &str = "dataset_number";

/// The numbers of the datasets that have rows.
#[derive(Default)]
pub(super) struct DatasetNumbers(RwLock<HashMap<String, i64>>);

impl DatasetNumbers {
    pub(super) fn load(tx: &ReadTransaction) -> Result<Self, redb::Error> {
        let rows = match tx.open_table(TableDefinition::<&[u8], &[u8]>::new(DATASET_NUMBER)) {
            Ok(rows) => rows,
            Err(TableError::TableDoesNotExist(_)) => return Ok(Self::default()),
            Err(error) => return Err(error.into()),
        };
        let mut numbers = HashMap::new();
        for entry in rows.iter()? {
            let (name, value) = entry?;
            let name = String::from_utf8(name.value().to_vec())
                .map_err(|_| redb::Error::Corrupted(format!("a key of table {DATASET_NUMBER}")))?;
            numbers.insert(name, StoredRow::decode(value.value())?.version);
        }
        Ok(Self(RwLock::new(numbers)))
    }

    pub(super) fn get(&self, dataset: &str) -> Option<i64> {
        self.0.read().get(dataset).copied()
    }

    /// The next number. None is ever free again.
    pub(super) fn next(&self) -> i64 {
        i64::try_from(self.0.read().len()).unwrap_or(i64::MAX)
    }

    /// Adds numbers whose rows are committed.
    pub(super) fn extend(&self, new: HashMap<String, i64>) {
        if !new.is_empty() {
            self.0.write().extend(new);
        }
    }

    /// The key with these columns, or its beginning; none for a dataset without a number, which has no rows.
    pub(super) fn key(&self, table: &Table, columns: &[Value]) -> Option<Vec<u8>> {
        let number = match key::dataset(table, columns) {
            Some(dataset) => Some(self.get(dataset)?),
            None => None,
        };
        Some(key::encode(number, columns))
    }

    /// The dataset with a number.
    #[cfg(test)]
    pub(super) fn name(&self, number: i64) -> Option<String> {
        self.0.read().iter().find(|(_, of)| **of == number).map(|(name, _)| name.clone())
    }
}

/// The value of a number's row.
pub(super) fn value(number: i64) -> Vec<u8> {
    row::encode(number, 0, &Bytes::new())
}
