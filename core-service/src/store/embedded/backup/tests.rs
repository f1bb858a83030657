//! The form of the file, what is refused, and a store that comes back.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use bytes::Bytes;
use proptest::prelude::*;
use sha2::{Digest as _, Sha256};
use thesis_net::clock::SystemIdSource;

use super::{
    file::{MAX_PIECE_BYTES, Reader, Rows, Writer, sealed},
    *,
};
use crate::{
    key,
    store::{
        Backend as _, Backup, Change,
        embedded::{
            EmbeddedStore, OpenError, Options,
            database::FORMAT,
            files_in, row,
            store_files::FOLDER,
            tests::{Fixed, append, applied, apply, head, insert, inserted},
        },
        schema::{PROFILE, TOKEN, TREE_TILE},
    },
};

thesis_fuzz::fuzz_tests!(backups, backup_pieces);

/// A file that is accepted is accepted again, with the length and the sum that it has.
fn backups(input: &[u8]) {
    let Ok(verified) = verify(input) else { return };
    assert_eq!(verified.bytes, input.len() as u64);
    assert_eq!(verified.sha256, hex::encode(Sha256::digest(input)));
    assert_eq!(verify(input).unwrap(), verified);
}

/// Messages that no writer made are refused, also in pieces whose checksums are right. The input is a list of messages,
/// each after its length.
fn backup_pieces(input: &[u8]) {
    let (mut messages, mut rest) = (Vec::new(), input);
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let (message, after) = after.split_at(after.len().min(u16::from_le_bytes(*length).into()));
        messages.push(message);
        rest = after;
    }
    backups(&sealed(&messages));
}

/// The harness reads on from this file. A file of another format is refused at its first piece.
#[test]
fn the_corpus_has_a_backup_of_this_format() {
    let whole = include_bytes!("../../../../../fuzz/corpus/backups/whole");
    assert_eq!(verify(whole.as_slice()).unwrap().contents.schema, FORMAT);
}

type Tables = Vec<BTreeMap<Vec<u8>, Vec<u8>>>;

fn contents(tables: &Tables) -> Contents {
    let named = |(number, rows): (usize, &BTreeMap<_, _>)| TableContents {
        name: format!("table_{number}"),
        rows: rows.len() as u64,
    };
    let tables = tables.iter().enumerate().map(named).collect();
    Contents { schema: FORMAT, created_at_ms: 1_700_000_000_000, program: "1.2.3".to_owned(), tables }
}

/// A backup of tables, whose pieces have the given number of rows.
fn written(contents: Contents, tables: &Tables, piece: usize) -> Vec<u8> {
    let (mut writer, mut bytes) = Writer::begin(contents).unwrap();
    for (table, rows) in (0..).zip(tables) {
        let rows: Vec<_> = rows.iter().collect();
        for rows in rows.chunks(piece) {
            let (keys, values) = rows.iter().map(|(key, value)| ((*key).clone(), (*value).clone())).unzip();
            bytes.extend(writer.rows(Rows { table, keys, values }).unwrap());
        }
    }
    bytes.extend(writer.end().unwrap());
    bytes
}

fn small() -> (Tables, Vec<u8>) {
    let row = |n: u8| (vec![n], row::encode(i64::from(n), 0, &Bytes::from(vec![n; 5])));
    let tables = vec![(0..5).map(row).collect(), BTreeMap::new(), (3..6).map(row).collect()];
    let bytes = written(contents(&tables), &tables, 2);
    (tables, bytes)
}

proptest! {
    #[test]
    fn every_row_comes_back(
        tables in prop::collection::vec(
            prop::collection::btree_map(
                prop::collection::vec(any::<u8>(), 0..9),
                (any::<i64>(), any::<i64>(), prop::collection::vec(any::<u8>(), 0..40)),
                0..20,
            ),
            0..4,
        ),
        piece in 1..9_usize,
    ) {
        let value = |(version, expires, body)| row::encode(version, expires, &Bytes::from(body));
        let tables: Tables =
            tables.into_iter().map(|rows| rows.into_iter().map(|(key, row)| (key, value(row))).collect()).collect();
        let bytes = written(contents(&tables), &tables, piece);
        let mut reader = Reader::open(bytes.as_slice()).unwrap();
        prop_assert_eq!(reader.contents(), &contents(&tables));
        let mut read: Tables = vec![BTreeMap::new(); tables.len()];
        while let Some(rows) = reader.next().unwrap() {
            read[rows.table as usize].extend(rows.keys.into_iter().zip(rows.values));
        }
        prop_assert_eq!(read, tables);
        prop_assert_eq!(reader.verified().bytes, bytes.len() as u64);
    }
}

#[test]
fn every_cut_and_every_flipped_bit_is_recognised() {
    let (tables, whole) = small();
    assert_eq!(verify(whole.as_slice()).unwrap().contents, contents(&tables));
    for end in 0..whole.len() {
        assert!(verify(&whole[..end]).is_err(), "cut at {end} of {}", whole.len());
    }
    for (at, bit) in (0..whole.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut changed = whole.clone();
        changed[at] ^= 1 << bit;
        assert!(verify(changed.as_slice()).is_err(), "bit {bit} of byte {at} of {}", whole.len());
    }
    assert!(matches!(verify([whole.as_slice(), &[0]].concat().as_slice()), Err(BackupError::Damaged(_))));
}

#[test]
fn pieces_that_are_whole_but_wrong_are_recognised() {
    let (tables, _) = small();
    let one = |keys: &[u8]| Rows {
        table: 0,
        keys: keys.iter().map(|key| vec![*key]).collect(),
        values: keys.iter().map(|_| row::encode(1, 0, &Bytes::new())).collect(),
    };
    let of = |rows: Vec<Rows>| {
        let mut counts = contents(&tables);
        counts.tables[0].rows = rows.iter().map(|rows| rows.keys.len() as u64).sum();
        counts.tables[2].rows = 0;
        let (mut writer, mut bytes) = Writer::begin(counts).unwrap();
        for rows in rows {
            bytes.extend(writer.rows(rows).unwrap());
        }
        bytes.extend(writer.end().unwrap());
        verify(bytes.as_slice())
    };
    of(vec![one(&[1, 2]), one(&[3])]).unwrap();
    for wrong in [
        vec![one(&[2, 1])],
        vec![one(&[1]), one(&[1])],
        vec![one(&[])],
        vec![Rows { table: 7, ..one(&[1]) }],
        vec![Rows { values: Vec::new(), ..one(&[1]) }],
        vec![Rows { values: vec![vec![0x80]], ..one(&[1]) }],
    ] {
        assert!(matches!(of(wrong.clone()), Err(BackupError::Damaged(_))), "{wrong:?}");
    }
    let few = Contents { tables: contents(&tables).tables, ..contents(&tables) };
    assert!(matches!(verify(written(few, &Tables::new(), 1).as_slice()), Err(BackupError::Damaged(_))));
    let mut own = contents(&vec![BTreeMap::new()]);
    own.tables[0].name = "_format".to_owned();
    assert!(matches!(verify(written(own, &Tables::new(), 1).as_slice()), Err(BackupError::Damaged(_))));
    // A row that no reader would take.
    let (mut writer, _) = Writer::begin(contents(&tables)).unwrap();
    let huge = Rows { table: 0, keys: vec![vec![1]], values: vec![vec![1; MAX_PIECE_BYTES]] };
    assert!(writer.rows(huge).is_err());
}

#[test]
fn a_piece_has_as_many_rows_as_the_smallest_fill_it_with_and_not_many_more() {
    let piece_of = |rows: u32| {
        let value = row::encode(0, 0, &Bytes::new());
        let keys = (0..rows).map(|number| number.to_be_bytes().to_vec()).collect();
        let rows = Rows { table: 0, keys, values: vec![value; rows as usize] };
        let tables = vec![TableContents { name: "table_0".to_owned(), rows: rows.keys.len() as u64 }];
        let (mut writer, mut bytes) = Writer::begin(Contents { tables, ..contents(&Tables::new()) }).unwrap();
        bytes.extend(writer.rows(rows).unwrap());
        bytes.extend(writer.end().unwrap());
        verify(bytes.as_slice())
    };
    // A key of one byte and a value of two.
    piece_of((128 << 10) / 3).unwrap();
    assert!(matches!(piece_of(65 << 10), Err(BackupError::Damaged("a piece cannot be read"))));
    let named = TableContents { name: String::new(), rows: 0 };
    let many = Contents { tables: vec![named; 130 << 10], ..contents(&Tables::new()) };
    assert!(matches!(verify(written(many, &Tables::new(), 1).as_slice()), Err(BackupError::Damaged(_))));
}

#[test]
fn backups_of_another_version_or_program_are_refused_by_name() {
    let (tables, whole) = small();
    assert!(matches!(verify(&b"PK\x03\x04 something else"[..]), Err(BackupError::Foreign)));
    assert!(matches!(verify(&b""[..]), Err(BackupError::Foreign)));
    let mut newer = whole;
    newer[8] += 1;
    let refused = verify(newer.as_slice()).unwrap_err();
    assert!(matches!(refused, BackupError::NewerForm(2)), "{refused}");
    let newer = Contents { schema: FORMAT + 1, ..contents(&tables) };
    let refused = verify(written(newer, &tables, 2).as_slice()).unwrap_err();
    assert!(matches!(refused, BackupError::OtherFormat { found, .. } if found == FORMAT + 1));
    assert!(refused.to_string().contains("1.2.3"), "{refused}");
}

/// Restores a file that is not encrypted, without the token `left`.
fn restore(file: &Path, dir: &Path, options: Options) -> Result<Verified, RestoreError> {
    let left_out = key!["d", "left"];
    super::restore(
        file,
        |file| Ok(Box::new(io::BufReader::new(file))),
        dir,
        options,
        (&TOKEN, left_out.as_slice()),
        &SystemIdSource,
    )
}

/// Takes a whole backup into a file.
async fn save(store: &EmbeddedStore, file: &Path) {
    let Backup::Begun(mut pieces) = store.backup(7, Vec::new()).await.unwrap() else { panic!("no backup") };
    let (mut bytes, mut counts) = (Vec::new(), (0, 0));
    while let Some(piece) = pieces.recv().await {
        let piece = piece.unwrap();
        bytes.extend(piece.bytes);
        counts = (piece.rows, piece.of);
    }
    assert_eq!(counts.0, counts.1);
    fs::write(file, bytes).unwrap();
}

fn open(dir: &Path, clock: &Arc<Fixed>) -> EmbeddedStore {
    EmbeddedStore::open(dir, Options::default(), clock.clone(), &SystemIdSource).unwrap()
}

#[tokio::test]
async fn a_restored_store_is_the_one_that_was_saved() {
    let dir = tempfile::tempdir().unwrap();
    let (file, copy, clock) = (dir.path().join("backup"), dir.path().join("a/copy"), Arc::new(Fixed::default()));
    let store = open(&dir.path().join("data"), &clock);
    for n in 0..300 {
        apply(&store, &n.to_string(), n).await.unwrap();
        assert!(insert(&store, &n.to_string()).await.unwrap());
    }
    for seq in 0..10 {
        assert!(append(&store, seq).await.unwrap());
    }
    let expires = Change { table: &TOKEN, key: key!["d", "t"], version: 1, body: Some(Bytes::new()), ttl: Some(10) };
    let left = Change { key: key!["d", "left"], ttl: None, ..expires.clone() };
    let tile = Change { table: &TREE_TILE, key: key!["d", "gen_1", 0, 0, 0], ttl: None, ..expires.clone() };
    store.apply(vec![expires, left, tile]).await.unwrap();
    save(&store, &file).await;
    apply(&store, "later", 1).await.unwrap();
    let verified = restore(&file, &copy, Options::default()).unwrap();
    assert_eq!((verified.contents.rows(), verified.contents.created_at_ms), (614, 7));
    let restored = open(&copy, &clock);
    for n in 0..300 {
        assert_eq!(applied(&restored, &n.to_string()).await, Some(n));
        assert!(inserted(&restored, &n.to_string()).await);
    }
    assert_eq!((head(&restored).await, applied(&restored, "later").await), (10, None));
    assert_eq!(restored.all(&TOKEN).await.unwrap().len(), 1);
    assert_eq!(restored.all(&PROFILE).await.unwrap().len(), 300);
    assert_eq!(restored.all(&TREE_TILE).await.unwrap().len(), 0);
    // Expiring rows still expire, and the store can be written.
    clock.0.store(10_000, Ordering::Relaxed);
    restored.sweep(10_000).await.unwrap();
    assert_eq!(restored.all(&TOKEN).await.unwrap().len(), 0);
    assert!(insert(&restored, "new").await.unwrap());
    restored.close().await.unwrap();
    drop(restored);
    assert!(inserted(&open(&copy, &clock), "new").await);
}

#[tokio::test]
async fn one_backup_at_a_time_and_it_ends_with_its_reader() {
    let store = EmbeddedStore::in_memory(Arc::new(Fixed::default()));
    for n in 0..200 {
        insert(&store, &n.to_string()).await.unwrap();
    }
    let Backup::Begun(pieces) = store.backup(1, Vec::new()).await.unwrap() else { panic!("no backup") };
    assert!(matches!(store.backup(1, Vec::new()).await.unwrap(), Backup::Busy));
    drop(pieces);
    while matches!(store.backup(1, Vec::new()).await.unwrap(), Backup::Busy) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_backup_is_of_one_moment_and_no_longer_than_its_store() {
    let store = EmbeddedStore::in_memory(Arc::new(Fixed::default()));
    for n in 0..200 {
        insert(&store, &n.to_string()).await.unwrap();
    }
    let Backup::Begun(mut pieces) = store.backup(1, Vec::new()).await.unwrap() else { panic!("no backup") };
    let first = pieces.recv().await.unwrap().unwrap();
    for n in 200..250 {
        insert(&store, &n.to_string()).await.unwrap();
    }
    let mut bytes = first.bytes;
    while let Some(piece) = pieces.recv().await {
        bytes.extend(piece.unwrap().bytes);
    }
    assert_eq!(verify(bytes.as_slice()).unwrap().contents.rows(), 200);

    let Backup::Begun(mut pieces) = store.backup(1, Vec::new()).await.unwrap() else { panic!("no backup") };
    store.close().await.unwrap();
    let mut bytes = Vec::new();
    while let Some(Ok(piece)) = pieces.recv().await {
        bytes.extend(piece.bytes);
    }
    // The backup may have been quicker than the end. A truncated backup never counts as a whole one.
    assert!(
        verify(bytes.as_slice()).is_ok_and(|verified| verified.contents.rows() == 250)
            || verify(bytes.as_slice()).is_err()
    );
    assert!(!matches!(store.backup(1, Vec::new()).await, Ok(Backup::Begun(_))));
}

/// A folder's files, with their lengths.
fn files(dir: &Path) -> BTreeMap<String, u64> {
    let entries = fs::read_dir(dir).into_iter().flatten().map(Result::unwrap);
    entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len())).collect()
}

#[tokio::test]
async fn a_refused_restore_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (file, clock) = (dir.path().join("backup"), Arc::new(Fixed::default()));
    let store = open(&dir.path().join("data"), &clock);
    insert(&store, "1").await.unwrap();
    save(&store, &file).await;
    let into = |name: &str| restore(&file, &dir.path().join(name), Options::default());
    // Folders with something in them, a store in use among them.
    for name in ["data", "search", "notes.txt"] {
        let folder = dir.path().join(format!("with {name}"));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(name), "x").unwrap();
        let before = files(&folder);
        let refused = restore(&file, &folder, Options::default()).unwrap_err();
        assert!(matches!(&refused, RestoreError::Occupied { found, .. } if found == name), "{refused}");
        assert_eq!(files(&folder), before);
    }
    assert!(matches!(into("data"), Err(RestoreError::Occupied { .. })));
    // Files that are no whole backup: not even the folder is made.
    let whole = fs::read(&file).unwrap();
    for bytes in [&whole[..whole.len() - 1], &whole[..100], b"", b"something else"] {
        fs::write(&file, bytes).unwrap();
        assert!(matches!(into("new"), Err(RestoreError::Backup { .. })));
        assert!(!dir.path().join("new").exists());
    }
    fs::remove_file(&file).unwrap();
    assert!(matches!(into("new"), Err(RestoreError::Backup { error: BackupError::Io(_), .. })));
    assert!(!dir.path().join("new").exists());
}

#[tokio::test]
async fn a_restore_that_did_not_end_is_reported_and_can_be_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let (file, copy, clock) = (dir.path().join("backup"), dir.path().join("copy"), Arc::new(Fixed::default()));
    let store = open(&dir.path().join("data"), &clock);
    insert(&store, "1").await.unwrap();
    save(&store, &file).await;
    // The folder has the files of a crash, a key of the operator and the folder of a new disk.
    fs::create_dir(&copy).unwrap();
    fs::create_dir(copy.join("store.restoring")).unwrap();
    fs::write(copy.join("store.restoring/log.redb"), "half").unwrap();
    fs::write(copy.join("store.lock"), "").unwrap();
    fs::write(copy.join("secret_key"), "key").unwrap();
    fs::create_dir(copy.join("lost+found")).unwrap();
    assert_eq!(unfinished(&copy), Some(copy.join("store.restoring")));
    restore(&file, &copy, Options::default()).unwrap();
    assert_eq!(unfinished(&copy), None);
    assert_eq!(files(&copy).into_keys().collect::<Vec<_>>(), ["lost+found", "secret_key", FOLDER, "store.lock"]);
    for folder in ["data", "copy"] {
        let folder = dir.path().join(folder);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let of_files = files_in(&folder).map(|path| mode(&path));
        assert_eq!((mode(&folder.join(FOLDER)), of_files.log, of_files.rows), (0o700, 0o600, 0o600), "{folder:?}");
    }
    let restored = open(&copy, &clock);
    assert!(inserted(&restored, "1").await);
    // Another one now would be over data, and one beside a process that holds the folder too.
    assert!(matches!(restore(&file, &copy, Options::default()), Err(RestoreError::Occupied { .. })));
    fs::remove_dir_all(copy.join(FOLDER)).unwrap();
    assert!(matches!(restore(&file, &copy, Options::default()), Err(RestoreError::Open(OpenError::InUse(_)))));
}
