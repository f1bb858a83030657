//! Writes inside one write transaction.

use std::collections::HashMap;

use bytes::Bytes;
use redb::{ReadableTable, TableDefinition, WriteTransaction};

use super::{
    key,
    row::{self, StoredRow},
};
use crate::store::{Change, Expect, Transaction};

/// Rows that expire, by time: table and key.
pub(super) const EXPIRY: TableDefinition<'static, (i64, &str, &[u8]), ()> = TableDefinition::new("_expiry");
/// Maximum number of expired rows that one step removes, so that a sweep never holds up other writes for long.
const MAX_SWEPT: usize = 1_000;

pub(super) enum Write {
    Apply(Vec<Change>),
    /// A conditional write, and changes that are applied if its conditions hold.
    Transact(Transaction, Vec<Change>),
    /// A write without changes. Its commit makes all earlier changes durable.
    Sync,
    Sweep {
        now_ms: i64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    Applied,
    Transacted(bool),
    Swept { more: bool },
}

type Expiry<'tx> = redb::Table<'tx, (i64, &'static str, &'static [u8]), ()>;

/// The tables of a write transaction, each opened once.
pub(super) struct Batch<'tx> {
    tx: &'tx WriteTransaction,
    now_ms: i64,
    tables: HashMap<String, redb::Table<'tx, &'static [u8], &'static [u8]>>,
    expiry: Option<Expiry<'tx>>,
}

impl<'tx> Batch<'tx> {
    pub(super) fn new(tx: &'tx WriteTransaction, now_ms: i64) -> Self {
        Self { tx, now_ms, tables: HashMap::new(), expiry: None }
    }

    /// Performs one write. Later writes of the same batch see it.
    pub(super) fn run(&mut self, write: &Write) -> Result<WriteOutcome, redb::Error> {
        match write {
            Write::Apply(changes) => {
                changes.iter().try_for_each(|change| self.apply(change))?;
                Ok(WriteOutcome::Applied)
            }
            Write::Transact(transaction, beside) => {
                let holds = self.transact(transaction)?;
                if holds {
                    beside.iter().try_for_each(|change| self.apply(change))?;
                }
                Ok(WriteOutcome::Transacted(holds))
            }
            Write::Sync => Ok(WriteOutcome::Applied),
            Write::Sweep { now_ms } => Ok(WriteOutcome::Swept { more: self.sweep(*now_ms)? }),
        }
    }

    fn table(&mut self, name: &str) -> Result<&mut redb::Table<'tx, &'static [u8], &'static [u8]>, redb::Error> {
        if !self.tables.contains_key(name) {
            self.tables.insert(name.to_owned(), self.tx.open_table(TableDefinition::new(name))?);
        }
        Ok(self.tables.get_mut(name).expect("just inserted"))
    }

    pub(super) fn apply(&mut self, change: &Change) -> Result<(), redb::Error> {
        let key = key::encode(&change.key);
        let table = self.table(change.table.name)?;
        let nothing_to_do = match table.get(key.as_slice())? {
            Some(stored) => StoredRow::decode(stored.value())?.version > change.version,
            None => change.body.is_none(),
        };
        if nothing_to_do {
            return Ok(());
        }
        self.put(change.table.name, &key, change.version, change.ttl, change.body.as_ref())
    }

    fn transact(&mut self, transaction: &Transaction) -> Result<bool, redb::Error> {
        let partition = key::encode(&transaction.partition);
        let name = transaction.table.name;
        let mut keys = Vec::with_capacity(transaction.writes.len());
        for write in &transaction.writes {
            let key = [partition.as_slice(), &key::encode(&write.clustering)].concat();
            let stored = match self.table(name)?.get(key.as_slice())? {
                Some(stored) => Some(StoredRow::decode(stored.value())?.version),
                None => None,
            };
            let holds = match write.expect {
                Expect::Any => true,
                Expect::Absent => stored.is_none(),
                Expect::Version(version) => stored == Some(version),
            };
            if !holds {
                return Ok(false);
            }
            keys.push(key);
        }
        for (write, key) in transaction.writes.iter().zip(&keys) {
            self.put(name, key, write.version, transaction.ttl, write.body.as_ref())?;
        }
        Ok(true)
    }

    fn put(
        &mut self,
        name: &str,
        key: &[u8],
        version: i64,
        ttl: Option<u32>,
        body: Option<&Bytes>,
    ) -> Result<(), redb::Error> {
        let ttl = ttl.filter(|_| body.is_some());
        let expires_ms = ttl.map_or(0, |seconds| self.now_ms.saturating_add(i64::from(seconds) * 1_000));
        let table = self.table(name)?;
        let before = match body {
            Some(body) => table.insert(key, row::encode(version, expires_ms, body).as_slice())?,
            None => table.remove(key)?,
        };
        let expired_ms = before.map(|before| Ok::<_, redb::Error>(StoredRow::decode(before.value())?.expires_ms));
        let expired_ms = expired_ms.transpose()?.unwrap_or_default();
        if expires_ms != expired_ms {
            let expiry = self.expiry()?;
            if expired_ms > 0 {
                expiry.remove((expired_ms, name, key))?;
            }
            if expires_ms > 0 {
                expiry.insert((expires_ms, name, key), ())?;
            }
        }
        Ok(())
    }

    fn expiry(&mut self) -> Result<&mut Expiry<'tx>, redb::Error> {
        if self.expiry.is_none() {
            self.expiry = Some(self.tx.open_table(EXPIRY)?);
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
        Ok(due.len() == MAX_SWEPT)
    }
}
