//! Writes inside one write transaction of each file.
//!
//! The rows of a write go into a table in the order of their keys. Several new rows of a partition between two stored
//! ones are inserted together, so the engine fills its pages. A single insert splits a full page into halves instead,
//! and the pages of a log or of an index that grows at its end would stay half empty.
//!
//! All other rows are put without a read before, since a search for the place costs nearly as much as the put. A change
//! with a lower version is rare: then the newer row is put back.

use std::{collections::HashMap, mem, ops::Bound};

use bytes::Bytes;
use redb::{ReadableTable, TableDefinition, WriteTransaction};

use super::{
    dataset_numbers::{self, DATASET_NUMBER, DatasetNumbers},
    key,
    row::{self, StoredRow},
    store_files::{Files, is_in_log_file},
};
use crate::store::{Change, Expect, Table, Transaction, Value, Writes};

/// Rows that expire, by time: table and key.
pub(super) const EXPIRY: TableDefinition<'static, (i64, &str, &[u8]), ()> = TableDefinition::new("_expiry");
/// Maximum number of expired rows that one step removes, so that a sweep never holds up other writes for long.
const MAX_SWEPT: usize = 1_000;
/// Minimum number of new rows that are inserted together. The engine divides its last two pages evenly if the last one
/// would be nearly empty, so fewer rows gain nothing over single inserts.
const MIN_RUN: usize = 4;

pub(super) enum Write {
    Apply(Vec<Change>),
    /// A conditional write, and changes that are applied if its conditions hold.
    Transact(Transaction, Vec<Change>),
    /// A write without changes. It makes all earlier changes durable.
    Sync,
    Sweep {
        now_ms: i64,
    },
}

impl Write {
    /// True if the rows' file must be durable before the answer. The log's file always is.
    pub(super) fn syncs_rows(&self, outcome: WriteOutcome) -> bool {
        match self {
            Self::Sync => true,
            Self::Transact(transaction, _) => {
                outcome == WriteOutcome::Transacted(true) && !is_in_log_file(transaction.table.name)
            }
            Self::Apply(_) | Self::Sweep { .. } => false,
        }
    }

    /// The changes that are lost if the rows' file is opened again before it is durable. Changes beside a conditional
    /// write are durable with it.
    pub(super) fn into_rows(self) -> impl Iterator<Item = Change> {
        let changes = if let Self::Apply(changes) = self { changes } else { Vec::new() };
        changes.into_iter().filter(|change| !is_in_log_file(change.table.name))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    Applied,
    Transacted(bool),
    Swept { more: bool },
}

/// A row that is put or removed.
struct RowWrite<'w> {
    table: &'static Table,
    /// The columns of its partition.
    partition: &'w [Value],
    key: Vec<u8>,
    version: i64,
    body: Option<&'w Bytes>,
    ttl: Option<u32>,
}

impl RowWrite<'_> {
    /// The new value; none for a removal.
    fn value(&self, now_ms: i64) -> Option<Vec<u8>> {
        Some(row::encode(self.version, self.expires_ms(now_ms), self.body?))
    }

    /// The time at which the row expires; 0 for none.
    fn expires_ms(&self, now_ms: i64) -> i64 {
        let ttl = self.ttl.filter(|_| self.body.is_some());
        ttl.map_or(0, |seconds| now_ms.saturating_add(i64::from(seconds) * 1_000))
    }

    /// Returns whether this write counts where a row is stored. The conditions of conditional writes were checked.
    fn replaces(&self, stored: &[u8]) -> Result<bool, redb::Error> {
        Ok(self.table.writes == Writes::Conditional || StoredRow::decode(stored)?.version <= self.version)
    }
}

/// True if the first rows may be a run: enough of them are in one partition. Between rows of different partitions there
/// are nearly always stored ones.
fn may_begin_run(rows: &[RowWrite<'_>]) -> bool {
    rows.get(MIN_RUN - 1).is_some_and(|row| row.partition == rows[0].partition)
}

type Expiry<'tx> = redb::Table<'tx, (i64, &'static str, &'static [u8]), ()>;

/// The tables of both write transactions, each opened once.
pub(super) struct Batch<'tx> {
    tx: &'tx Files<WriteTransaction>,
    numbers: &'tx DatasetNumbers,
    /// Numbers that these transactions give.
    new_numbers: HashMap<String, i64>,
    now_ms: i64,
    tables: HashMap<String, redb::Table<'tx, &'static [u8], &'static [u8]>>,
    expiry: Option<Expiry<'tx>>,
    /// The files in which something was written.
    written: Files<bool>,
}

impl<'tx> Batch<'tx> {
    pub(super) fn new(tx: &'tx Files<WriteTransaction>, numbers: &'tx DatasetNumbers, now_ms: i64) -> Self {
        let (new_numbers, tables, written) = (HashMap::new(), HashMap::new(), Files::default());
        Self { tx, numbers, new_numbers, now_ms, tables, expiry: None, written }
    }

    /// Performs one write. Later writes of the same batch see it.
    pub(super) fn run(&mut self, write: &Write) -> Result<WriteOutcome, redb::Error> {
        match write {
            Write::Apply(changes) => {
                self.apply(changes)?;
                Ok(WriteOutcome::Applied)
            }
            Write::Transact(transaction, beside) => {
                let holds = self.transact(transaction)?;
                if holds {
                    self.apply(beside)?;
                }
                Ok(WriteOutcome::Transacted(holds))
            }
            Write::Sync => Ok(WriteOutcome::Applied),
            Write::Sweep { now_ms } => Ok(WriteOutcome::Swept { more: self.sweep(*now_ms)? }),
        }
    }

    /// Closes the tables, for the commits. Returns the files in which something was written, and the new numbers of
    /// datasets, which count once the log's file is committed.
    pub(super) fn close(self) -> (Files<bool>, HashMap<String, i64>) {
        (self.written, self.new_numbers)
    }

    /// The key with these columns, or its beginning. A dataset without a number gets one.
    fn key(&mut self, table: &Table, columns: &[Value]) -> Result<Vec<u8>, redb::Error> {
        let number = key::dataset(table, columns).map(|dataset| self.number(dataset)).transpose()?;
        Ok(key::encode(number, columns))
    }

    fn number(&mut self, dataset: &str) -> Result<i64, redb::Error> {
        if let Some(number) = self.numbers.get(dataset).or_else(|| self.new_numbers.get(dataset).copied()) {
            return Ok(number);
        }
        let number = self.numbers.next() + i64::try_from(self.new_numbers.len()).unwrap_or(i64::MAX);
        self.table(DATASET_NUMBER)?.insert(dataset.as_bytes(), dataset_numbers::value(number).as_slice())?;
        self.written.log = true;
        self.new_numbers.insert(dataset.to_owned(), number);
        Ok(number)
    }

    fn table(&mut self, name: &str) -> Result<&mut redb::Table<'tx, &'static [u8], &'static [u8]>, redb::Error> {
        if !self.tables.contains_key(name) {
            self.tables.insert(name.to_owned(), self.tx.of(name).open_table(TableDefinition::new(name))?);
        }
        Ok(self.tables.get_mut(name).expect("just inserted"))
    }

    /// Applies changes. Of several changes of one row, the one with the highest version counts, and the last one of
    /// equal versions.
    pub(super) fn apply(&mut self, changes: &[Change]) -> Result<(), redb::Error> {
        let mut rows = Vec::with_capacity(changes.len());
        for Change { table, key, version, body, ttl } in changes {
            let (partition, key) = (&key[..table.partition.len()], self.key(table, key)?);
            rows.push(RowWrite { table, partition, key, version: *version, body: body.as_ref(), ttl: *ttl });
        }
        rows.sort_by(|one, other| (one.table.name, &one.key).cmp(&(other.table.name, &other.key)));
        rows.dedup_by(|next, kept| {
            let is_same = next.table.name == kept.table.name && next.key == kept.key;
            if is_same && next.version >= kept.version {
                mem::swap(next, kept);
            }
            is_same
        });
        rows.chunk_by(|one, next| one.table.name == next.table.name).try_for_each(|rows| self.write_sorted(rows))
    }

    fn transact(&mut self, transaction: &Transaction) -> Result<bool, redb::Error> {
        let partition = self.key(transaction.table, &transaction.partition)?;
        let mut rows = Vec::with_capacity(transaction.writes.len());
        for write in &transaction.writes {
            let key = key::within(&partition, &write.clustering);
            if !self.holds(transaction.table, &key, write.expect)? {
                return Ok(false);
            }
            let Transaction { table, partition, ttl, .. } = transaction;
            let (version, body) = (write.version, write.body.as_ref());
            rows.push(RowWrite { table, partition, key, version, body, ttl: *ttl });
        }
        rows.sort_by(|one, other| one.key.cmp(&other.key));
        self.write_sorted(&rows)?;
        Ok(true)
    }

    /// Returns whether a row is as expected.
    fn holds(&mut self, table: &Table, key: &[u8], expect: Expect) -> Result<bool, redb::Error> {
        if expect == Expect::Any {
            return Ok(true);
        }
        let stored = self.table(table.name)?.get(key)?;
        let version = stored.map(|stored| Ok::<_, redb::Error>(StoredRow::decode(stored.value())?.version));
        let wanted = if let Expect::Version(version) = expect { Some(version) } else { None };
        Ok(version.transpose()? == wanted)
    }

    /// Writes rows of one table, in the order of their keys, each at most once.
    fn write_sorted(&mut self, mut rows: &[RowWrite<'_>]) -> Result<(), redb::Error> {
        let is_log = rows.first().is_some_and(|row| is_in_log_file(row.table.name));
        let mut has_written = false;
        while let Some(first) = rows.first() {
            let inserted = if may_begin_run(rows) { self.insert_run(rows)? } else { 0 };
            let (now, later) = rows.split_at(inserted.max(1));
            has_written |= if inserted == 0 { self.put(first)? } else { now.iter().any(|row| row.body.is_some()) };
            rows = later;
        }
        self.written.log |= has_written && is_log;
        self.written.rows |= has_written && !is_log;
        Ok(())
    }

    /// Inserts the first rows together, if enough of them go before the next stored row. Returns their number.
    fn insert_run(&mut self, rows: &[RowWrite<'_>]) -> Result<usize, redb::Error> {
        let (first, now_ms) = (&rows[0], self.now_ms);
        let mut cursor = self.table(first.table.name)?.lower_bound_mut(Bound::Included(first.key.as_slice()))?;
        let run = match cursor.peek_next()? {
            None => rows.len(),
            Some((next, _)) => rows.partition_point(|row| row.key.as_slice() < next.value()),
        };
        if run < MIN_RUN {
            return Ok(0);
        }
        for row in &rows[..run] {
            // There is nothing to remove where no row is stored.
            if let Some(value) = row.value(now_ms) {
                cursor.insert_before(row.key.as_slice(), value.as_slice())?;
            }
        }
        cursor.close()?;
        rows[..run].iter().try_for_each(|row| self.move_expiry(row, 0))?;
        Ok(run)
    }

    /// Puts or removes a row, unless the stored one has a higher version. Returns whether that changed anything.
    fn put(&mut self, row: &RowWrite<'_>) -> Result<bool, redb::Error> {
        let value = row.value(self.now_ms);
        let table = self.table(row.table.name)?;
        let before = match &value {
            Some(value) => table.insert(row.key.as_slice(), value.as_slice())?,
            None => table.remove(row.key.as_slice())?,
        };
        let Some(before) = before.map(|before| before.value().to_vec()) else {
            self.move_expiry(row, 0)?;
            return Ok(value.is_some());
        };
        if !row.replaces(&before)? {
            self.table(row.table.name)?.insert(row.key.as_slice(), before.as_slice())?;
            return Ok(false);
        }
        self.move_expiry(row, StoredRow::decode(&before)?.expires_ms)?;
        Ok(true)
    }

    /// Moves a row in the index of rows that expire. The row before expired at `expired_ms`; 0 for never.
    fn move_expiry(&mut self, row: &RowWrite<'_>, expired_ms: i64) -> Result<(), redb::Error> {
        let (name, key, expires_ms) = (row.table.name, row.key.as_slice(), row.expires_ms(self.now_ms));
        if expires_ms == expired_ms {
            return Ok(());
        }
        let expiry = self.expiry()?;
        if expired_ms > 0 {
            expiry.remove((expired_ms, name, key))?;
        }
        if expires_ms > 0 {
            expiry.insert((expires_ms, name, key), ())?;
        }
        Ok(())
    }

    fn expiry(&mut self) -> Result<&mut Expiry<'tx>, redb::Error> {
        if self.expiry.is_none() {
            self.expiry = Some(self.tx.rows.open_table(EXPIRY)?);
        }
        Ok(self.expiry.as_mut().expect("just put there"))
    }

    /// Removes expired rows in one step. Returns whether more may be left.
    fn sweep(&mut self, now_ms: i64) -> Result<bool, redb::Error> {
        let mut due = Vec::new();
        let index = self.expiry()?;
        for entry in index.range(..(now_ms.saturating_add(1), "", &[][..]))?.take(MAX_SWEPT) {
            let (expiry, _) = entry?;
            let (at, name, key) = expiry.value();
            due.push((at, name.to_owned(), key.to_vec()));
        }
        for (at, name, key) in &due {
            index.remove((*at, name.as_str(), key.as_slice()))?;
        }
        // A row has one entry, at its present expiry time.
        for (_, name, key) in &due {
            self.table(name)?.remove(key.as_slice())?;
        }
        self.written.rows |= !due.is_empty();
        Ok(due.len() == MAX_SWEPT)
    }
}
