//! The index in a folder: it goes on where it was, and a damaged one is made again.

use std::{fs, path::Path};

use tantivy::TantivyError;

use super::{Log, look};
use crate::{
    domain::dataset::Dataset,
    search::{LogMark, SearchError, SearchIndex},
};

#[test]
fn it_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let open = || SearchIndex::open(Some(folder.path())).unwrap();
    let mut log = Log::on(open());
    log.say(&Dataset::Live, "a", "kept words", 0);
    log.say(&Dataset::Sandbox, "a", "kept words", 0);
    log.index.commit().unwrap();
    log.say(&Dataset::Live, "b", "kept too, yet not committed", 1);
    assert!(matches!(SearchIndex::open(Some(folder.path())), Err(SearchError::Index(TantivyError::LockFailure(..)))));

    let Log { index, entries } = log;
    drop(index);
    let log = Log { index: open(), entries };
    assert_eq!(log.index.position(&Dataset::Live), 1);
    assert_eq!(log.index.mark(&Dataset::Sandbox), Some(LogMark { seq: 1, id: "evt_1".to_owned() }));
    assert_eq!(look(&log, "kept", &["a", "b"]), ["a"]);
    // From the start: entries that it has are skipped.
    log.index.apply(&Dataset::Live, &log.entries["live"]).unwrap();
    log.index.commit().unwrap();
    assert_eq!(look(&log, "kept", &["a", "b"]), ["a", "b"]);

    log.index.forget(&Dataset::Live);
    log.index.commit().unwrap();
    assert_eq!(log.index.position(&Dataset::Live), 0);
    assert!(look(&log, "kept", &["a", "b"]).is_empty());
    assert_eq!(log.index.position(&Dataset::Sandbox), 1);
}

#[test]
fn a_damaged_index_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let harm: [fn(&Path); 4] = [
        |dir| fs::write(dir.join("meta.json"), "{}").unwrap(),
        |dir| {
            let note = fs::read_to_string(dir.join("meta.json")).unwrap();
            let old = note.replace("\\\"version\\\":", "\\\"version\\\":9");
            assert_ne!(note, old);
            fs::write(dir.join("meta.json"), old).unwrap();
        },
        |dir| {
            let files = fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
            let words = files.into_iter().find(|path| path.extension().is_some_and(|end| end == "term")).unwrap();
            let mut bytes = fs::read(&words).unwrap();
            bytes[0] ^= 1;
            fs::write(words, bytes).unwrap();
        },
        |dir| fs::remove_file(dir.join("meta.json")).unwrap(),
    ];
    for harm in harm {
        let mut log = Log::on(SearchIndex::open(Some(folder.path())).unwrap());
        assert_eq!(log.index.position(&Dataset::Live), 0);
        log.say(&Dataset::Live, "a", "words", 0);
        log.index.commit().unwrap();
        assert_eq!(look(&log, "words", &["a"]), ["a"]);
        drop(log);
        harm(folder.path());
    }
    assert_eq!(SearchIndex::open(Some(folder.path())).unwrap().position(&Dataset::Live), 0);
}
