//! Examines a store without changing it.

use std::{
    fs::{File, TryLockError},
    io,
    path::Path,
};

use super::{
    database::{FORMAT, Target, guarded},
    disk::Fence,
    open::{FoundFiles, LOCK, OpenError, Options, at, exists, open_error},
    read,
    store_files::FOLDER,
};
use crate::store::{Row, Scan};

/// The content of a store's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Examined {
    /// There is no store; a start would create one.
    Nothing,
    /// A store that a start would open.
    Healthy {
        /// The format of the files.
        format: u64,
        /// The size of the files.
        bytes: u64,
        /// True if every page was verified, as a start does with files of this size.
        verified: bool,
        /// The requested rows.
        rows: Vec<Row>,
    },
}

/// Opens the store in a folder as a start does, but keeps writes in memory and drops them. Reads the requested rows.
/// [`OpenError::InUse`] is an error too: a store in use cannot be examined from outside.
pub fn examine(dir: &Path, options: Options, scans: &[Scan]) -> Result<Examined, OpenError> {
    // If a process starts to use the store now, it changes during the read and could appear damaged.
    free(dir)?;
    if !exists(dir)? {
        return Ok(Examined::Nothing);
    }
    let examined = open(&dir.join(FOLDER), options, scans);
    free(dir)?;
    examined
}

fn open(folder: &Path, options: Options, scans: &[Scan]) -> Result<Examined, OpenError> {
    let found = FoundFiles::find(folder, File::options().read(true))?;
    let store = found.open(Target::Memory, &Fence::default(), options)?;
    let slices = scans.iter().map(|scan| {
        let slice = guarded(|| read::slice(&store.snapshot(scan.table)?, scan));
        slice.map_err(|error| open_error(found.names.of(scan.table.name), error))
    });
    let rows = slices.collect::<Result<Vec<_>, _>>()?.concat();
    Ok(Examined::Healthy { format: FORMAT, bytes: found.bytes, verified: found.are_verified(options), rows })
}

/// Refuses a folder that a process holds. It takes the lock and releases it at once.
fn free(dir: &Path) -> Result<(), OpenError> {
    let path = dir.join(LOCK);
    let file = match File::open(&path) {
        Ok(file) => file,
        // The first start creates it.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(()),
        Err(error) => return Err(at(&path)(error)),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(dir.to_owned())),
        Err(TryLockError::Error(source)) => Err(at(&path)(source)),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use bytes::Bytes;
    use thesis_net::clock::{SystemClock, SystemIdSource};

    use super::{
        super::{EmbeddedStore, files_in},
        *,
    };
    use crate::{
        key,
        store::{Backend as _, Change, schema::CONTROL},
    };

    /// The files of a data folder and of the store in it.
    fn contents(dir: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
        let folders = [dir.to_owned(), dir.join(FOLDER)];
        let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
        files.sort();
        files.into_iter().map(|file| (file.clone(), fs::read(file).unwrap())).collect()
    }

    fn examine(dir: &Path, options: Options) -> Result<Examined, OpenError> {
        let part = |shard| Scan::all(&CONTROL, key!["kind", shard], 1);
        super::examine(dir, options, &[part(0), part(1)])
    }

    #[tokio::test]
    async fn a_store_is_judged_as_a_start_does_and_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let examine_again = || examine(dir.path(), Options::default());
        assert_eq!(examine_again().unwrap(), Examined::Nothing);
        assert_eq!(examine(&dir.path().join("none"), Options::default()).unwrap(), Examined::Nothing);
        assert!(contents(dir.path()).is_empty());

        let (options, clock) = (Options::default(), Arc::new(SystemClock));
        let store = EmbeddedStore::open(dir.path(), options, clock, &SystemIdSource).unwrap();
        assert!(matches!(examine_again(), Err(OpenError::InUse(_))));
        // A killed process leaves files that the next start repairs.
        let killed = tempfile::tempdir().unwrap();
        fs::create_dir(killed.path().join(FOLDER)).unwrap();
        files_in(dir.path()).zip(files_in(killed.path())).map(|(from, to)| fs::copy(from, to).unwrap());
        let change = |shard, id: &str, body| Change {
            table: &CONTROL,
            key: key!["kind", shard, id],
            version: 1,
            body: Some(body),
            ttl: None,
        };
        let [one, other] = [Bytes::from_static(b"one"), Bytes::from_static(b"other")];
        store.apply(vec![change(0, "a", one.clone()), change(0, "b", one.clone())]).await.unwrap();
        store.apply(vec![change(1, "c", other.clone())]).await.unwrap();
        store.close().await.unwrap();
        drop(store);
        for dir in [dir.path(), killed.path()] {
            let before = contents(dir);
            let found = examine(dir, Options::default()).unwrap();
            assert!(matches!(found, Examined::Healthy { format: FORMAT, verified: true, .. }), "{found:?}");
            assert_eq!(contents(dir), before);
        }
        let rows = |dir: &Path| match examine(dir, Options::default()).unwrap() {
            Examined::Healthy { rows, .. } => rows.into_iter().map(|row| row.body).collect::<Vec<_>>(),
            Examined::Nothing => panic!("there is a store"),
        };
        assert_eq!((rows(dir.path()), rows(killed.path())), (vec![one, other], vec![]));

        let path = files_in(dir.path()).rows;
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        assert!(matches!(examine_again(), Err(OpenError::Damaged { .. })));
        fs::remove_dir_all(dir.path().join(FOLDER)).unwrap();
        fs::write(dir.path().join("store.redb"), "of an earlier version").unwrap();
        assert!(matches!(examine_again(), Err(OpenError::Older { .. })));
    }
}
