//! The index in a folder: it goes on where it was, and is built again when it cannot be used.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::*;

pub(super) const GENERATION: &str = "gen_1";

fn open_for(folder: &Path, generation: &str) -> SearchIndex {
    let index = SearchIndex::open(Some(SearchFolder::lock(folder).unwrap())).unwrap();
    assert!(!index.is_open());
    index.reopen(generation).unwrap();
    while index.open_month(0, false).unwrap() {}
    index
}

pub(super) fn open(folder: &Path) -> SearchIndex {
    open_for(folder, GENERATION)
}

#[test]
fn it_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::on(open(folder.path()));
    log.say(&Dataset::Live, "a", "kept words", 0);
    log.say(&Dataset::Sandbox, "a", "kept words", 0);
    log.index.commit().unwrap();
    log.say(&Dataset::Live, "b", "kept too, yet not committed", 1);
    assert_eq!(SearchFolder::lock(folder.path()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    assert!(SearchFolder::is_in_use(folder.path()).unwrap());

    let Log { index, entries } = log;
    drop(index);
    assert!(!SearchFolder::is_in_use(folder.path()).unwrap());
    assert!(!SearchFolder::is_in_use(&folder.path().join("none")).unwrap());
    let log = Log { index: open(folder.path()), entries };
    assert_eq!(log.index.position(&Dataset::Live), 1);
    assert_eq!(log.index.mark(&Dataset::Sandbox), Some(LogMark { seq: 1, id: "evt_1".to_owned() }));
    assert_eq!(look(&log, "kept", &["a", "b"]), ["a"]);
    // From the start: entries that it has are skipped.
    log.index.apply(&Dataset::Live, &log.entries["live"]).unwrap();
    log.index.commit().unwrap();
    assert_eq!(look(&log, "kept", &["a", "b"]), ["a", "b"]);

    log.index.forget(&Dataset::Live).unwrap();
    log.index.commit().unwrap();
    assert_eq!(log.index.position(&Dataset::Live), 0);
    assert!(look(&log, "kept", &["a", "b"]).is_empty());
    assert_eq!(log.index.position(&Dataset::Sandbox), 1);
}

#[test]
fn a_damaged_index_is_built_again() {
    let folder = tempfile::tempdir().unwrap();
    let harm: [fn(&Path); 6] = [
        |dir| fs::write(dir.join("meta.json"), "{}").unwrap(),
        |dir| {
            let note = fs::read_to_string(dir.join("meta.json")).unwrap();
            let old = note.replace("\\\"version\\\":", "\\\"version\\\":9");
            assert_ne!(note, old);
            fs::write(dir.join("meta.json"), old).unwrap();
        },
        |dir| {
            let words = file(dir, "term");
            let mut bytes = fs::read(&words).unwrap();
            bytes[0] ^= 1;
            fs::write(words, bytes).unwrap();
        },
        |dir| fs::write(file(dir, "term"), "cut").unwrap(),
        |dir| fs::remove_file(file(dir, "term")).unwrap(),
        |dir| fs::remove_file(dir.join("meta.json")).unwrap(),
    ];
    for harm in harm {
        let mut log = Log::on(open(folder.path()));
        assert_eq!(log.index.position(&Dataset::Live), 0);
        log.say(&Dataset::Live, "a", "words", 0);
        log.say(&Dataset::Sandbox, "a", "words", 0);
        log.index.commit().unwrap();
        assert_eq!(look(&log, "words", &["a"]), ["a"]);
        drop(log);
        harm(&folder.path().join("common"));
    }
    assert_eq!(open(folder.path()).position(&Dataset::Live), 0);
}

/// The file of a segment whose name ends so: `term` has the words, `idx` where they occur.
pub(super) fn file(dir: &Path, end: &str) -> PathBuf {
    let mut files = fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    files.find(|path| path.extension().is_some_and(|extension| extension == end)).unwrap()
}

#[test]
fn a_file_that_cannot_be_read_now_deletes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::on(open(folder.path()));
    log.say(&Dataset::Sandbox, "a", "words", 0);
    log.index.commit().unwrap();
    drop(log);
    let (words, aside) = (file(&folder.path().join("common"), "term"), folder.path().join("aside"));
    fs::rename(&words, &aside).unwrap();
    // A folder cannot be mapped into memory, as no file can when there is no memory.
    fs::create_dir(&words).unwrap();
    fs::write(words.join("content"), "").unwrap();
    let index = SearchIndex::open(Some(SearchFolder::lock(folder.path()).unwrap())).unwrap();
    assert!(matches!(index.reopen(GENERATION), Err(SearchError::Index(_))) && index.is_failing());
    fs::remove_dir_all(&words).unwrap();
    fs::rename(&aside, &words).unwrap();
    index.reopen(GENERATION).unwrap();
    assert_eq!(index.position(&Dataset::Sandbox), 1);
}

#[test]
fn files_of_failed_commits_do_not_pile_up() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::on(open(folder.path()));
    log.say(&Dataset::Sandbox, "a", "words", 0);
    log.index.commit().unwrap();
    let dir = folder.path().join("common");
    let (note, aside) = (dir.join("meta.json"), folder.path().join("aside"));
    let mut counts = Vec::new();
    for _ in 0..2 {
        log.say(&Dataset::Sandbox, "b", "words", 1);
        // The last step of the commit fails: no file can replace a folder.
        fs::rename(&note, &aside).unwrap();
        fs::create_dir(&note).unwrap();
        log.index.commit().unwrap_err();
        fs::remove_dir(&note).unwrap();
        fs::rename(&aside, &note).unwrap();
        counts.push(fs::read_dir(&dir).unwrap().count());
        log.index.reopen(GENERATION).unwrap();
        assert_eq!(log.index.position(&Dataset::Sandbox), 1);
        log.entries.get_mut("sandbox").unwrap().pop();
    }
    assert_eq!(counts[0], counts[1]);
}

#[test]
fn checksums_are_verified_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::on(open(folder.path()));
    log.say(&Dataset::Sandbox, "a", "words", 0);
    log.index.commit().unwrap();
    log.index.write::<()>(|_| Err(SearchError::Closed)).unwrap_err();
    assert!(!log.index.is_open());
    let places = file(&folder.path().join("common"), "idx");
    let mut bytes = fs::read(&places).unwrap();
    bytes[0] ^= 1;
    fs::write(places, bytes).unwrap();
    log.index.reopen(GENERATION).unwrap();
    assert_eq!(log.index.position(&Dataset::Sandbox), 1);
    drop(log);
    assert_eq!(open(folder.path()).position(&Dataset::Sandbox), 0);
}

#[test]
fn an_index_of_another_generation_is_built_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::on(open(folder.path()));
    log.say(&Dataset::Live, "a", "words", 0);
    log.index.commit().unwrap();
    drop(log);
    assert_eq!(open(folder.path()).position(&Dataset::Live), 1);
    let other = Log::on(open_for(folder.path(), "gen_2"));
    assert_eq!(other.index.position(&Dataset::Live), 0);
    assert!(look(&other, "words", &["a"]).is_empty());
}

#[tokio::test]
async fn an_index_whose_folder_goes_is_closed_until_it_is_whole_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("search");
    let mut log = Log::on(open(&path));
    log.index.request_dataset(&Dataset::Live);
    log.index.set_start(&Dataset::Live, 1);
    log.say(&Dataset::Live, "a", "words", 0);
    log.index.commit().unwrap();
    assert_eq!(look(&log, "words", &["a"]), ["a"]);

    fs::remove_dir_all(&path).unwrap();
    fs::write(&path, "no folder").unwrap();
    log.say(&Dataset::Live, "b", "words", 1);
    log.index.commit().unwrap_err();
    let find = |log: &Log| {
        let (view, word) = (View::live(), parse("words").unwrap());
        log.index.find(Kind::Thesis, &view, &word, &SearchFilter::default(), Order::Newest, 9)
    };
    assert!(matches!(find(&log), Err(SearchError::Closed)) && log.index.is_failing());
    assert!(matches!(log.index.apply(&Dataset::Live, &log.entries["live"]), Err(SearchError::Closed)));
    assert!(matches!(log.index.reopen(GENERATION), Err(SearchError::Folder(_))) && !log.index.is_open());
    let mut whole = Box::pin(log.index.wait_until_complete(&Dataset::Live));
    assert!(futures::poll!(&mut whole).is_pending());

    fs::remove_file(&path).unwrap();
    log.index.reopen(GENERATION).unwrap();
    assert!(log.index.is_open() && matches!(find(&log), Err(SearchError::Closed)), "it is empty");
    assert_eq!(log.index.datasets_without_start(), [Dataset::Live]);
    log.index.set_start(&Dataset::Live, 2);
    log.index.apply(&Dataset::Live, &log.entries["live"]).unwrap();
    log.index.commit().unwrap();
    whole.await;
    assert!(!log.index.is_failing());
    assert_eq!(look(&log, "words", &["a", "b"]), ["b", "a"]);
}

#[test]
fn a_commit_writes_only_the_positions_that_moved() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::on(open(folder.path()));
    let projects: Vec<Dataset> = (0..50).map(|number| project(&format!("prj_{number}"))).collect();
    for dataset in &projects {
        log.say(dataset, "a", "words", 0);
    }
    log.index.commit().unwrap();
    // Segments are merged meanwhile.
    for number in 0..20 {
        log.say(&projects[7], &format!("b{number}"), "more words", 1);
        log.index.commit().unwrap();
    }
    log.index.forget(&projects[9]).unwrap();
    log.index.commit().unwrap();
    let positions = |index: &SearchIndex| projects.iter().map(|dataset| index.position(dataset)).collect::<Vec<_>>();
    let mut expected = vec![1; projects.len()];
    (expected[7], expected[9]) = (21, 0);
    assert_eq!(positions(&log.index), expected);
    let note = fs::read_to_string(folder.path().join("common").join("meta.json")).unwrap();
    assert!(!note.contains("prj_"), "the note of a commit does not grow with the datasets");
    drop(log);
    let index = open(folder.path());
    assert_eq!(positions(&index), expected);
    assert_eq!(index.mark(&projects[7]), Some(LogMark { seq: 21, id: "evt_21".to_owned() }));
}
