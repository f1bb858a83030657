//! The files of days in which theses are posted, edited and deleted, on a store in memory and a folder.

mod retries;

use std::{collections::BTreeMap, fs, path::Path, pin::pin};

use futures::StreamExt as _;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use tempfile::TempDir;
use thesis_proto::{
    error::ErrorCode,
    v1::{BuildArchiveRequest, EraseThesisRequest},
};
use url::Url;

use super::{run::Search, *};
use crate::{
    domain::{
        account::Actor,
        archive::{Day, FileKind},
        entry::Kind,
        id,
        observation::{Observation, ObservedEngagement, ObservedProfile, ObservedThesis, ObservedThing, ObservedToken},
        window::{DAY_MS, HOUR_MS},
    },
    operations::admin::{archive::build_archive, erase_thesis::erase_thesis},
    service::Core,
    start::CoreSettings,
    store::{Consistency, SharedBackend},
    tables::archive_files,
    tests::harness::{ManualClock, NOON, ids, memory, settings, shared_memory},
};

const LIVE: Dataset = Dataset::Live;
const SECRET: &str = "my name and address";

struct World {
    core: Arc<Core>,
    clock: Arc<ManualClock>,
    folder: TempDir,
    revision: i64,
}

impl World {
    async fn start(backend: SharedBackend, clock: &Arc<ManualClock>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let storage = ArchiveStorage::open(&Url::from_file_path(folder.path()).unwrap()).unwrap();
        let archive = Some(ArchiveSettings { storage, scratch: folder.path().to_owned() });
        let settings = CoreSettings { archive, ..settings() };
        let core = Core::start(backend, settings, clock.clone(), ids(1)).await.unwrap();
        Self { core, clock: Arc::clone(clock), folder, revision: 0 }
    }

    fn archive(&self) -> &Archive {
        self.core.archive.as_ref().unwrap()
    }

    async fn observe(&mut self, seen: ObservedThing) {
        self.revision += 1;
        let observation = Observation { observed_at: 1, revision: Some(self.revision), seen };
        assert!(self.core.datasets.observe_here(&LIVE, observation).await.unwrap().applied);
    }

    /// Posts a thesis, or gives it another text.
    async fn post(&mut self, name: &str, author: &str, text: &str, created_at: i64) {
        let upstream_id = author.to_owned();
        let profile = ObservedProfile { upstream_id, handle: author.to_owned(), ..ObservedProfile::default() };
        let (chain, address, symbol) = ("base".to_owned(), "0xa".to_owned(), "RUN".to_owned());
        let seen = ObservedThesis {
            upstream_id: name.to_owned(),
            profile,
            token: ObservedToken { chain, address, symbol, ..ObservedToken::default() },
            text: text.to_owned(),
            created_at,
            updated_at: created_at,
            ..ObservedThesis::default()
        };
        self.observe(ObservedThing::Thesis(Box::new(seen))).await;
    }

    async fn erase(&self, name: &str) {
        let (dataset, id, reason) = ("live".to_owned(), thesis(name), "the author asked".to_owned());
        let message = EraseThesisRequest { dataset, id, reason };
        erase_thesis(&self.core, &Actor::operator(None), &message).await.unwrap();
    }

    /// The number of entries about files.
    async fn file_entries(&self) -> usize {
        let log = &self.core.shared.log;
        let head = log.head("live", 0, Consistency::Serial).await.unwrap();
        let entries = log.entries("live", 0, head).await.unwrap();
        entries.iter().filter(|of| matches!(of.entry.kind, Some(Kind::ArchiveFile(_)))).count()
    }

    /// The listed files of a day by kind.
    async fn listed(&self, day: Day) -> BTreeMap<String, ArchiveFile> {
        let listed = archive_files::of_day(&self.core.shared.backend, "live", &day.to_string()).await.unwrap();
        listed.into_iter().map(|listed| (listed.file.kind.clone(), listed.file)).collect()
    }

    /// The names of the stored files of a day.
    fn stored(&self, day: Day) -> Vec<String> {
        let folder = self.folder.path().join("live").join(day.to_string());
        let names = fs::read_dir(folder).into_iter().flatten();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The rows of a listed file, each as the texts of its values by column.
    async fn rows(&self, day: Day, kind: FileKind) -> Vec<BTreeMap<String, String>> {
        let listed = self.listed(day).await;
        let file = &listed[kind.as_str()];
        let path = self.folder.path().join(name_of(&LIVE, file));
        let bytes = fs::read(&path).unwrap();
        assert_eq!((bytes.len() as u64, hex::encode(sha(&bytes))), (file.bytes, file.sha256.clone()));
        let rows = read(&path);
        assert_eq!(rows.len() as u64, file.rows);
        rows
    }

    async fn column(&self, day: Day, kind: FileKind, column: &str) -> Vec<String> {
        let rows = self.rows(day, kind).await;
        rows.into_iter().map(|mut row| row.remove(column).unwrap().trim_matches('"').to_owned()).collect()
    }
}

fn sha(bytes: &[u8]) -> Vec<u8> {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).to_vec()
}

fn read(path: &Path) -> Vec<BTreeMap<String, String>> {
    let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    let cells = |row: parquet::record::Row| -> BTreeMap<String, String> {
        row.get_column_iter().map(|(name, field)| (name.clone(), field.to_string())).collect()
    };
    rows.map(|row| cells(row.unwrap())).collect()
}

fn thesis(name: &str) -> String {
    id::of_thesis("live", name)
}

/// Two days: on the first three theses, one of which is deleted again; on the second one more, a late one, an edit and a
/// deletion. Returns the days.
async fn two_days(world: &mut World) -> (Day, Day) {
    let first = Day::of(NOON);
    world.post("kept", "ann", "first", NOON).await;
    world.post("edited", "bob", "before", NOON + 1).await;
    world.post("gone", "ann", SECRET, NOON + HOUR_MS).await;
    let liked = ObservedEngagement { upstream_id: "kept".to_owned(), likes: Some(7), replies: None };
    world.observe(ObservedThing::Engagement(liked)).await;
    world.observe(ObservedThing::Deletion("gone".to_owned())).await;
    // An entry without content, which is no row of any file.
    world.core.datasets.close_time_here(&LIVE, world.core.shared.clock.now_ms()).await.unwrap();
    world.clock.advance(DAY_MS);
    world.post("late", "bob", "arrived late", NOON + 2).await;
    world.post("edited", "bob", "after", NOON + 1).await;
    world.post("new", "ann", "today", NOON + DAY_MS).await;
    world.observe(ObservedThing::Deletion("kept".to_owned())).await;
    world.clock.advance(DAY_MS);
    (first, first.next())
}

#[tokio::test]
async fn a_day_has_what_was_known_at_its_end() {
    let clock = ManualClock::new();
    for backend in [memory(&clock), shared_memory(&clock)] {
        let clock = ManualClock::new();
        let mut world = World::start(backend, &clock).await;
        let (first, second) = two_days(&mut world).await;
        for day in [second, first] {
            world.archive().build(&LIVE, day).await.unwrap();
        }
        let ids = |names: &[&str]| names.iter().map(|name| thesis(name)).collect::<Vec<_>>();
        assert_eq!(world.column(first, FileKind::Theses, "id").await, ids(&["kept", "edited"]));
        assert_eq!(world.column(first, FileKind::Theses, "text").await, ["first", "before"]);
        assert_eq!(world.column(first, FileKind::Theses, "likes").await, ["7", "null"]);
        assert_eq!(world.column(second, FileKind::Theses, "id").await, ids(&["new"]));
        assert!(world.rows(first, FileKind::Changes).await.is_empty());
        assert_eq!(world.column(second, FileKind::Changes, "change").await, ["late", "edited", "deleted"]);
        assert_eq!(world.column(second, FileKind::Changes, "thesis_id").await, ids(&["late", "edited", "kept"]));
        assert_eq!(world.column(second, FileKind::Changes, "text").await, ["arrived late", "after", "null"]);
        assert_eq!(world.column(first, FileKind::TokenHours, "theses").await, ["2"]);
        assert_eq!(world.column(first, FileKind::TokenHours, "unique_authors").await, ["2"]);
        let created = |types: Vec<String>| types.iter().filter(|of| *of == "thesis.created").count();
        assert_eq!(created(world.column(first, FileKind::Events, "type").await), 3);
        assert!(world.column(first, FileKind::Events, "id").await.iter().all(|id| id.starts_with("evt_")));
        assert_eq!(created(world.column(second, FileKind::Events, "type").await), 2);
        world.core.close().await;
    }
}

#[tokio::test]
async fn building_again_changes_nothing() {
    let clock = ManualClock::new();
    let mut world = World::start(memory(&clock), &clock).await;
    let (first, second) = two_days(&mut world).await;
    world.archive().build(&LIVE, first).await.unwrap();
    let (listed, stored) = (world.listed(first).await, world.stored(first));
    assert_eq!((listed.len(), stored.len()), (4, 4));
    world.archive().build(&LIVE, second).await.unwrap();
    assert_eq!(world.file_entries().await, 8);
    // Files that a killed process left, and one that somebody deleted.
    let folder = world.folder.path().join("live").join(first.to_string());
    fs::write(folder.join("theses-0000.parquet"), "half").unwrap();
    fs::write(folder.join("theses-0000.parquet#1"), "half").unwrap();
    fs::remove_file(folder.join(&stored[0])).unwrap();
    world.archive().build(&LIVE, first).await.unwrap();
    assert_eq!((world.file_entries().await, world.listed(first).await, world.stored(first)), (8, listed, stored));
    world.core.close().await;
}

#[tokio::test]
async fn an_erased_text_leaves_the_files_that_are_built_after_it() {
    let clock = ManualClock::new();
    let mut world = World::start(memory(&clock), &clock).await;
    let (first, _) = two_days(&mut world).await;
    world.archive().build(&LIVE, first).await.unwrap();
    let has_secret = |rows: &[BTreeMap<String, String>]| rows.iter().any(|row| row["json"].contains(SECRET));
    assert!(has_secret(&world.rows(first, FileKind::Events).await));
    let before = world.listed(first).await;
    world.erase("gone").await;
    world.archive().build(&LIVE, first).await.unwrap();
    assert!(!has_secret(&world.rows(first, FileKind::Events).await));
    let after = world.listed(first).await;
    let changed: Vec<_> =
        after.iter().filter(|(kind, file)| before[*kind] != **file).map(|(kind, _)| kind.as_str()).collect();
    assert_eq!((changed, world.file_entries().await, world.stored(first).len()), (vec!["events"], 5, 4));
    assert_eq!(before["events"].position, after["events"].position);
    world.core.close().await;
}

#[tokio::test]
async fn files_that_were_written_before_an_erasure_are_not_listed_after_it() {
    let clock = ManualClock::new();
    let mut world = World::start(memory(&clock), &clock).await;
    let (first, _) = two_days(&mut world).await;
    let written = world.archive().write_day(&LIVE, first).await.unwrap().unwrap();
    world.erase("gone").await;
    assert_eq!(world.archive().publish_day(&LIVE, first, written).await.unwrap(), None);
    assert!(world.listed(first).await.is_empty() && world.stored(first).is_empty());
    world.archive().build(&LIVE, first).await.unwrap();
    let events = world.rows(first, FileKind::Events).await;
    assert!(!events.is_empty() && events.iter().all(|row| !row["json"].contains(SECRET)));
    assert_eq!(world.stored(first).len(), 4);
    world.core.close().await;
}

#[tokio::test]
async fn a_day_whose_files_were_listed_during_an_erasure_is_missing_until_it_is_built_again() {
    let clock = ManualClock::new();
    let mut world = World::start(memory(&clock), &clock).await;
    let (first, _) = two_days(&mut world).await;
    let mut written = world.archive().write_day(&LIVE, first).await.unwrap().unwrap();
    world.archive().build(&LIVE, first).await.unwrap();
    assert_eq!((world.listed(first).await.len(), world.stored(first).len()), (4, 4));
    world.erase("gone").await;
    // All files are listed, so only the last check is left.
    written.files.clear();
    assert_eq!(world.archive().publish_day(&LIVE, first, written).await.unwrap(), None);
    assert!(world.stored(first).is_empty());
    world.archive().build_missing(&LIVE, &mut Search::default()).await.unwrap();
    let events = world.rows(first, FileKind::Events).await;
    assert!(!events.is_empty() && events.iter().all(|row| !row["json"].contains(SECRET)));
    assert_eq!(world.stored(first).len(), 4);
    world.core.close().await;
}

#[tokio::test]
async fn an_erasure_from_another_day_delays_no_file() {
    let clock = ManualClock::new();
    let mut world = World::start(memory(&clock), &clock).await;
    let (first, second) = two_days(&mut world).await;
    let written = world.archive().write_day(&LIVE, second).await.unwrap().unwrap();
    // The thesis was posted and deleted on the first day.
    world.erase("gone").await;
    assert_eq!(world.archive().publish_day(&LIVE, second, written).await.unwrap().map(|files| files.len()), Some(4));
    // This one was posted on the first day and deleted on the second.
    for day in [first, second] {
        let written = world.archive().write_day(&LIVE, day).await.unwrap().unwrap();
        world.erase("kept").await;
        assert_eq!(world.archive().publish_day(&LIVE, day, written).await.unwrap(), None, "{day}");
    }
    world.core.close().await;
}

#[tokio::test]
async fn a_core_that_stops_builds_nothing() {
    let clock = ManualClock::new();
    let mut world = World::start(memory(&clock), &clock).await;
    let (first, _) = two_days(&mut world).await;
    let message = BuildArchiveRequest { date: first.to_string(), dataset: Some("live".to_owned()) };
    world.core.stop.cancel();
    let built = build_archive(&world.core, &Actor::operator(None), &message).await.unwrap();
    let error = pin!(built).next().await.unwrap().unwrap_err();
    assert_eq!(error.api.code, ErrorCode::ServiceUnavailable);
    assert!(world.listed(first).await.is_empty());
    world.core.close().await;
}

#[tokio::test]
async fn missed_days_are_built_and_a_day_that_is_not_over_is_none() {
    let clock = ManualClock::new();
    let mut world = World::start(memory(&clock), &clock).await;
    let mut search = Search::default();
    world.archive().build_missing(&LIVE, &mut search).await.unwrap();
    assert_eq!(search.next_day, None, "the log is empty");
    assert!(world.archive().build(&LIVE, Day::of(NOON).previous()).await.unwrap().is_empty());
    assert_eq!(world.file_entries().await, 0, "a log without entries stays without");
    let (first, second) = two_days(&mut world).await;
    assert!(matches!(world.archive().build(&LIVE, second.next()).await, Err(BuildError::NotOver)));
    world.archive().build_missing(&LIVE, &mut search).await.unwrap();
    assert_eq!(search.next_day, Some(second.next()));
    assert_eq!([world.listed(first).await.len(), world.listed(second).await.len()], [4, 4]);
    // A core that starts again finds them complete.
    world.archive().build_missing(&LIVE, &mut Search::default()).await.unwrap();
    assert_eq!(world.file_entries().await, 8);
    world.core.close().await;
}

#[tokio::test]
async fn files_that_somebody_deleted_are_built_again_within_a_day() {
    let clock = ManualClock::new();
    let mut world = World::start(memory(&clock), &clock).await;
    let (first, _) = two_days(&mut world).await;
    let mut search = Search::default();
    world.archive().build_missing(&LIVE, &mut search).await.unwrap();
    let stored = world.stored(first);
    fs::remove_dir_all(world.folder.path().join("live").join(first.to_string())).unwrap();
    world.archive().build_missing(&LIVE, &mut search).await.unwrap();
    assert!(world.stored(first).is_empty(), "the days are searched once a day");
    world.clock.advance(DAY_MS);
    world.archive().build_missing(&LIVE, &mut search).await.unwrap();
    assert_eq!((world.stored(first), stored.len()), (stored, 4));
    world.core.close().await;
}

#[tokio::test]
async fn a_storage_that_fails_leaves_no_row() {
    let clock = ManualClock::new();
    let mut world = World::start(memory(&clock), &clock).await;
    let (first, _) = two_days(&mut world).await;
    // A file stands where the folder of the dataset should be.
    fs::write(world.folder.path().join("live"), "").unwrap();
    let failed = world.archive().build(&LIVE, first).await;
    assert!(matches!(failed, Err(BuildError::Storage(_))), "{failed:?}");
    assert!(world.listed(first).await.is_empty());
    fs::remove_file(world.folder.path().join("live")).unwrap();
    world.archive().build(&LIVE, first).await.unwrap();
    assert_eq!(world.listed(first).await.len(), 4);
    world.core.close().await;
}

#[test]
fn a_place_that_cannot_be_used_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let refused = |url: &Url| ArchiveStorage::open(url).err();
    assert!(matches!(refused(&Url::from_file_path(file.join("beneath")).unwrap()), Some(OpenError::Folder { .. })));
    for other in ["https://example.com/", "gs://bucket/", "s3:///folder"] {
        assert!(matches!(refused(&other.parse().unwrap()), Some(OpenError::Url)), "{other}");
    }
}
