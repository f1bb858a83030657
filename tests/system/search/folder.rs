//! The folder of the search index fails under a running core: it is deleted, it cannot be read, or its disk is full.
//! Then only searches and lists by likes are refused, until the folder works again. No search ever finds a part.

use std::{fs, time::Duration};

use crate::harness::{
    Client, SOON, Service, Setup, Sse, Store, eventually, ids,
    ingest::{author, thesis, token},
    now_ms,
};

on_stores_of_their_own![
    a_deleted_folder_is_filled_again,
    a_folder_that_cannot_be_read_refuses_searches_alone,
    damaged_files_are_replaced_at_a_start,
    a_damaged_month_alone_is_built_again,
];

/// Maximum wait for a folder that works again: a core tries every 30 seconds at least, and then reads its logs.
const TRIED_AGAIN: Duration = Duration::from_secs(30).saturating_add(SOON);
/// Number of posts while searches are refused.
const POSTS_WHILE_REFUSED: usize = 3;

/// A service of its own, and a customer who searches.
struct Searched {
    service: Service,
    client: Client,
    stream: Sse,
    /// Theses that were posted.
    posted: usize,
    /// Theses that every search must find.
    found: usize,
}

impl Searched {
    /// A service whose index has a thesis.
    async fn on(store: &Store, settings: impl Fn(Setup) -> Setup) -> Self {
        let service = Service::on(store, settings).await;
        let client = service.project_on("huge").await.test().await;
        let stream = client.stream("?types=thesis.created").await;
        let mut searched = Self { service, client, stream, posted: 0, found: 0 };
        searched.post().await;
        searched.until_whole().await;
        searched
    }

    /// Writes and reads without a search.
    async fn post(&mut self) {
        let (_, event) = self.client.thesis("keeper", "FOLD", "folderword").await;
        self.posted += 1;
        assert_eq!(self.client.all("/v1/theses?token=FOLD").await.len(), self.posted);
        assert_eq!(self.stream.next().await.data["id"], event["id"]);
        self.service.is_ready().await;
    }

    /// Searches; none if the search is refused.
    async fn search(&self) -> Option<usize> {
        let answer = self.client.get("/v1/search?q=folderword&types=theses&limit=50").await;
        if answer.status == 503 {
            answer.error(503, "SERVICE_UNAVAILABLE");
            return None;
        }
        let found = answer.ok(200)["theses"].as_array().unwrap().len();
        assert!(found >= self.found, "a part: {found} of {}", self.found);
        Some(found)
    }

    /// Posts until the index fails, and on: only searches and lists by likes are refused.
    async fn is_refused(&mut self) {
        self.post().await;
        eventually("searches are refused", SOON, async || self.search().await.is_none().then_some(())).await;
        for _ in 0..POSTS_WHILE_REFUSED {
            self.post().await;
            assert_eq!(self.search().await, None);
            self.client.get("/v1/theses?sort=likes_desc").await.error(503, "SERVICE_UNAVAILABLE");
        }
    }

    /// Waits until a search finds all theses.
    async fn until_whole(&mut self) {
        let is_whole = async || (self.search().await == Some(self.posted)).then_some(());
        eventually("a search finds all", TRIED_AGAIN, is_whole).await;
        self.found = self.posted;
    }
}

async fn a_deleted_folder_is_filled_again(store: Store) {
    let mut searched = Searched::on(&store, |setup| setup).await;
    let folder = searched.service.search_folder();
    let gone = folder.with_extension("gone");
    // A rename deletes all at once, whatever the core does in the folder.
    fs::rename(&folder, &gone).unwrap();
    fs::remove_dir_all(&gone).unwrap();
    searched.post().await;
    searched.until_whole().await;
    assert!(folder.is_dir());
}

async fn a_folder_that_cannot_be_read_refuses_searches_alone(store: Store) {
    let mut searched = Searched::on(&store, |setup| setup).await;
    let folder = searched.service.search_folder();
    let aside = folder.with_extension("aside");
    // Nothing beneath a file can be read, even by a user who may read everything.
    fs::rename(&folder, &aside).unwrap();
    fs::write(&folder, "no folder").unwrap();
    searched.is_refused().await;
    fs::remove_file(&folder).unwrap();
    fs::rename(&aside, &folder).unwrap();
    searched.until_whole().await;
    let log = searched.service.processes[0].log();
    let lines = ["the search index failed;", "the search index works again"].map(|line| log.matches(line).count());
    assert_eq!(lines, [1, 1], "{log}");
}

/// All files of the common shard, which has the test data, are damaged while the core is down. What it reads at its
/// start is no index, so it builds one.
async fn damaged_files_are_replaced_at_a_start(store: Store) {
    let mut searched = Searched::on(&store, |setup| setup).await;
    searched.service.end(0, "KILL").await;
    for file in fs::read_dir(searched.service.search_folder().join("common")).unwrap() {
        fs::write(file.unwrap().path(), "damaged").unwrap();
    }
    searched.service.start_again(0).await;
    searched.service.is_ready().await;
    searched.client = searched.client.anew();
    searched.until_whole().await;
}

/// The ids of the live theses that a search finds; none if it is refused.
async fn live_theses(client: &Client) -> Option<Vec<String>> {
    let answer = client.get("/v1/search?q=monthword&types=theses&limit=50").await;
    if answer.status == 503 {
        answer.error(503, "SERVICE_UNAVAILABLE");
        return None;
    }
    let found = answer.ok(200);
    let mut found: Vec<String> = ids(found["theses"].as_array().unwrap()).into_iter().map(str::to_owned).collect();
    found.sort_unstable();
    Some(found)
}

/// All files of a month of live theses are damaged while the core is down. The other month and the common shard stay,
/// and until the month is whole again, searches in it are refused.
async fn a_damaged_month_alone_is_built_again(store: Store) {
    let mut service = Service::on(&store, |setup| setup).await;
    let client = service.project_on("huge").await.live().await;
    let (by, on) = (author("u-month", "monthly"), token("base", "0xmonth", "MONTH"));
    let mut posted = Vec::new();
    for (id, age_days) in [("month-old", 60), ("month-new", 0)] {
        let created_at = now_ms() - age_days * 24 * 3_600_000;
        posted.push(service.post("live", thesis(id, &by, &on, "monthword", created_at)).await);
    }
    posted.sort_unstable();
    let is_whole = async || (live_theses(&client).await? == posted).then_some(());
    eventually("a search finds both months", SOON, is_whole).await;
    service.end(0, "KILL").await;
    let folders = fs::read_dir(service.search_folder()).unwrap().map(|folder| folder.unwrap().path());
    let mut months: Vec<_> =
        folders.filter(|folder| folder.file_name().unwrap().to_str().unwrap().starts_with("live-")).collect();
    months.sort_unstable();
    assert_eq!(months.len(), 2, "{months:?}");
    for file in fs::read_dir(&months[0]).unwrap() {
        fs::write(file.unwrap().path(), "damaged").unwrap();
    }
    service.start_again(0).await;
    service.is_ready().await;
    let client = client.anew();
    let found = eventually("a search is answered", TRIED_AGAIN, async || live_theses(&client).await).await;
    assert_eq!(found, posted, "a part");
    let log = service.processes[0].log();
    let lines = ["building a month of the search index again", "building the search index again"];
    assert_eq!(lines.map(|line| log.matches(line).count()), [1, 0], "{log}");
}

/// A limit of the size of files stands for a full disk: no byte can be written, to the index or to the core's log. The
/// embedded store has its data on the same disk, so `full_disk` in core-service tests that.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_searches_alone() {
    let Some(store) = Store::cluster() else { return };
    let mut searched = Searched::on(&store, Setup::with_failing_writes).await;
    searched.service.processes[0].limit_files(Some(0));
    searched.is_refused().await;
    searched.service.processes[0].limit_files(None);
    searched.until_whole().await;
}
