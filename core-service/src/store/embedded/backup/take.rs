//! Takes a backup: reads a snapshot on a separate thread and sends pieces as fast as the receiver takes them.

use std::{io, mem::take, thread, time::Duration};

use redb::{ReadTransaction, ReadableTable as _, ReadableTableMetadata as _, TableDefinition, TableHandle as _};
use thread_priority::ThreadPriority;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, mpsc},
    time::timeout,
};

use super::{
    super::{
        database::{FORMAT, guarded, store_error},
        store_files::Files,
    },
    file::{Contents, Rows, TableContents, Writer, is_internal},
};
use crate::store::{BackupPiece, StoreError, StoreResult, schema::TREE_TILE};

/// Bytes of rows after which a piece is sent. Packed it has a third of them.
const PIECE_BYTES: usize = 128 << 10;
/// Maximum number of pieces that wait for the receiver.
const MAX_WAITING: usize = 2;
/// Time without progress of the receiver after which the backup ends: its snapshot keeps old pages of the file in use.
const READER_TIMEOUT: Duration = Duration::from_mins(1);

type Pieces = mpsc::Receiver<StoreResult<BackupPiece>>;

/// Begins a backup of both files, of one moment. The slot is free again once the thread has ended.
pub(in super::super) fn begin(
    tx: Files<ReadTransaction>,
    created_at_ms: i64,
    folder: String,
    slot: OwnedSemaphorePermit,
) -> StoreResult<Pieces> {
    let (sender, pieces) = mpsc::channel(MAX_WAITING);
    let runtime = Handle::current();
    let send = move |piece| {
        let sent = runtime.block_on(async { timeout(READER_TIMEOUT, sender.send(piece)).await });
        sent.is_ok_and(|sent| sent.is_ok())
    };
    let work = move || {
        // Requests have priority over the backup.
        if let Err(error) = ThreadPriority::Min.set_for_current() {
            tracing::warn!(%error, "a backup runs at the priority of everything else");
        }
        if let Err(error) = guarded(|| copy(&tx, created_at_ms, |piece| send(Ok(piece)))) {
            tracing::error!(folder, %error, "a backup failed");
            send(Err(store_error(&folder, &error)));
        }
        drop((tx, slot));
    };
    let thread = thread::Builder::new().name("store-backup".to_owned()).spawn(work);
    thread.map_err(|error| StoreError::Unavailable(format!("a thread for the backup: {error}")))?;
    Ok(pieces)
}

/// Reads all tables but the tiles of the trees, until the receiver is dropped. A restore begins a new generation of the
/// logs, whose trees are made anew.
pub(super) fn copy(
    tx: &Files<ReadTransaction>,
    created_at_ms: i64,
    mut send: impl FnMut(BackupPiece) -> bool,
) -> Result<(), redb::Error> {
    let mut names = Vec::new();
    for tx in [&tx.log, &tx.rows] {
        let found = tx.list_tables()?.map(|table| table.name().to_owned());
        names.extend(found.filter(|name| !is_internal(name) && name != TREE_TILE.name));
    }
    let open = |name: &str| tx.of(name).open_table(TableDefinition::<&[u8], &[u8]>::new(name));
    let mut contents =
        Contents { schema: FORMAT, created_at_ms, program: env!("CARGO_PKG_VERSION").to_owned(), tables: Vec::new() };
    for name in names {
        let rows = open(&name)?.len()?;
        contents.tables.push(TableContents { name, rows });
    }
    let (tables, of) = (contents.tables.clone(), contents.rows());
    let mut done = 0;
    let mut sent = |bytes: io::Result<Vec<u8>>, rows: u64| {
        done += rows;
        Ok::<_, redb::Error>(send(BackupPiece { bytes: bytes?, rows: done, of }))
    };
    let (mut writer, first) = Writer::begin(contents)?;
    if !sent(Ok(first), 0)? {
        return Ok(());
    }
    for (number, table) in (0..).zip(&tables) {
        let mut rows = Rows { table: number, ..Rows::default() };
        let (mut size, mut read) = (0, 0);
        for entry in open(&table.name)?.iter()? {
            let (key, value) = entry?;
            let (key, value) = (key.value().to_vec(), value.value().to_vec());
            size += key.len() + value.len();
            rows.keys.push(key);
            rows.values.push(value);
            read += 1;
            if size >= PIECE_BYTES {
                let (keys, values) = (take(&mut rows.keys), take(&mut rows.values));
                let count = keys.len() as u64;
                if !sent(writer.rows(Rows { table: number, keys, values }), count)? {
                    return Ok(());
                }
                size = 0;
            }
        }
        if read != table.rows {
            return Err(redb::Error::Corrupted(format!("{} has {read} rows of {}", table.name, table.rows)));
        }
        let count = rows.keys.len() as u64;
        if count > 0 && !sent(writer.rows(rows), count)? {
            return Ok(());
        }
    }
    sent(writer.end(), 0).map(drop)
}
