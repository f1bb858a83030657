mod months;
mod unused;

use std::{collections::HashSet, path::Path, sync::Arc};

use thesis_proto::time::from_millis;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    access::gate::RequestMeta,
    domain::{
        dataset::View,
        entry::SequencedEntry,
        id,
        observation::{Observation, ObservedEngagement, ObservedProfile, ObservedThesis, ObservedThing, ObservedToken},
        operation::Operation,
        window::MINUTE_MS,
    },
    search::{
        ListedThesis, SearchFolder, SearchIndex,
        follow::{Follower, advance, read_starts, round},
        months::likes_page,
    },
    store::schema::EVENT_LOG,
    tables::log::decode,
    tests::harness::{
        LIVE_KEY, ManualClock, NOON, SharedMemory, TEST_KEY, core, ids, memory, new_thesis, settings, shared_memory,
    },
};

fn call(core: &Arc<Core>, key: &str) -> Call {
    let meta = RequestMeta { authorization: Some(format!("Bearer {key}").into()), ..RequestMeta::default() };
    core.gate.admit(meta, Operation::Search).map_err(|refused| refused.error).unwrap()
}

fn query(text: &str) -> v1::SearchRequest {
    v1::SearchRequest { q: text.to_owned(), ..v1::SearchRequest::default() }
}

async fn result(core: &Core, call: &Call, message: v1::SearchRequest) -> Result<v1::SearchResult> {
    Ok(search(core, call, message).await?.result.unwrap())
}

#[test]
fn wrong_forms_are_named() {
    let fine = query("run");
    let (_, _, limit) = check(&fine).unwrap();
    let kinds = [SearchType::Theses, SearchType::Profiles, SearchType::Tokens];
    assert!(kinds.iter().all(|kind| is_for(&fine, *kind)) && limit == 10);
    let tokens = v1::SearchRequest { types: vec![3], sort: 2, ..fine.clone() };
    check(&tokens).unwrap();
    assert_eq!(kinds.map(|kind| is_for(&tokens, kind)), [false, false, true]);
    assert!(fine.sort() != SearchSort::CreatedAtDesc && tokens.sort() == SearchSort::CreatedAtDesc);
    let wrong = |change: fn(&mut v1::SearchRequest)| {
        let mut request = fine.clone();
        change(&mut request);
        check(&request).unwrap_err().api.param.clone().unwrap_or_default()
    };
    assert_eq!(wrong(|request| request.q = String::new()), "q");
    assert_eq!(wrong(|request| request.q = "é".repeat(513)), "q");
    assert_eq!(wrong(|request| request.q = "\"open".to_owned()), "q");
    assert_eq!(wrong(|request| request.q = "a\0".to_owned()), "q");
    assert_eq!(wrong(|request| request.types = vec![0]), "types");
    assert_eq!(wrong(|request| request.types = vec![1, 9]), "types");
    assert_eq!(wrong(|request| request.sort = 3), "sort");
    assert_eq!(wrong(|request| request.limit = Some(51)), "limit");
    assert_eq!(wrong(|request| request.chain = Some(String::new())), "chain");
}

async fn observe(core: &Arc<Core>, version: i64, seen: ObservedThing) {
    let observation = Observation { observed_at: 0, revision: Some(version), seen };
    core.datasets.observe_here(&Dataset::Live, observation).await.unwrap();
}

async fn post(core: &Arc<Core>, number: &str, handle: &str, text: &str, likes: Option<i64>, age: i64) {
    let profile = ObservedProfile {
        upstream_id: format!("user {handle}"),
        handle: handle.to_owned(),
        ..ObservedProfile::default()
    };
    let token = ObservedToken {
        chain: "base".to_owned(),
        address: "0xA1".to_owned(),
        symbol: "moon".to_owned(),
        ..ObservedToken::default()
    };
    let thesis = ObservedThesis {
        upstream_id: number.to_owned(),
        profile,
        token,
        text: text.to_owned(),
        likes,
        replies: None,
        created_at: NOON - age,
        updated_at: NOON - age,
    };
    observe(core, 1, ObservedThing::Thesis(Box::new(thesis))).await;
}

async fn reached(core: &Arc<Core>, dataset: &Dataset) {
    core.search.wait_for_position(dataset, core.datasets.refresh(dataset).await.unwrap()).await;
}

fn texts(result: &v1::SearchResult) -> Vec<&str> {
    result.theses.iter().map(|thesis| thesis.text.as_str()).collect()
}

#[tokio::test]
async fn what_is_written_is_found_and_what_is_deleted_is_not() {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 1).await;
    let live = call(&core, LIVE_KEY);
    post(&core, "1", "@ana", "to the moon 🚀", None, 2).await;
    post(&core, "2", "@bob", "from the moon 比特币", None, 1).await;
    post(&core, "3", "@bob", "moon of long ago", None, 8 * 86_400_000).await;
    reached(&core, &Dataset::Live).await;

    let found = result(&core, &live, query("moon")).await.unwrap();
    assert_eq!(texts(&found), ["to the moon 🚀", "from the moon 比特币"]);
    assert_eq!(found.tokens.len(), 1);
    assert_eq!((found.tokens[0].symbol.as_str(), found.tokens[0].thesis_count), ("$moon", 3));
    assert!(found.profiles.is_empty() && found.livemode);
    let by_bob = result(&core, &live, v1::SearchRequest { handle: Some("BOB".to_owned()), ..query("moon OR bob") })
        .await
        .unwrap();
    assert_eq!(texts(&by_bob), ["from the moon 比特币"]);
    assert_eq!(by_bob.profiles[0].handle, "@bob");
    for nothing in [
        v1::SearchRequest { handle: Some("nobody".to_owned()), types: vec![1, 2], ..query("moon") },
        v1::SearchRequest { token: Some("$NONE".to_owned()), ..query("moon") },
        v1::SearchRequest { chain: Some("solana".to_owned()), ..query("moon") },
        v1::SearchRequest { created_before: Some(from_millis(NOON - 5)), types: vec![1], ..query("moon") },
    ] {
        let found = result(&core, &live, nothing).await.unwrap();
        assert!(found.theses.is_empty() && found.tokens.is_empty());
    }
    let early = v1::SearchRequest { created_after: Some(from_millis(0)), ..query("moon") };
    assert_eq!(result(&core, &live, early).await.unwrap_err().api.code.http_status(), 403);

    // A deletion shows at once, whether the index knows of it or not.
    observe(&core, 2, ObservedThing::Deletion("2".to_owned())).await;
    assert_eq!(texts(&result(&core, &live, query("moon")).await.unwrap()), ["to the moon 🚀"]);

    let test = call(&core, TEST_KEY);
    assert!(result(&core, &test, query("moon -run")).await.unwrap().theses.iter().all(|thesis| !thesis.livemode));
    reached(&core, &Dataset::Sandbox).await;
    assert!(!result(&core, &test, query("$RUN")).await.unwrap().tokens.is_empty());
    assert!(result(&core, &live, query("$RUN")).await.unwrap().tokens.is_empty());
    core.close().await;
}

#[tokio::test]
async fn likes_are_exact_once_written() {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 1).await;
    post(&core, "1", "@ana", "one", Some(5), 3).await;
    post(&core, "2", "@ana", "two", None, 2).await;
    post(&core, "3", "@ana", "three", Some(7), 1).await;
    // On a busy machine the index may take more than a quarter of a second, and says so.
    let page = async |after: Option<(Option<i64>, i64, String)>, limit| {
        loop {
            match likes_page(cores(&core), &core.datasets, live(), SearchFilter::default(), after.clone(), limit).await
            {
                Err(error) if error.api.code == thesis_proto::error::ErrorCode::ServiceUnavailable => {}
                outcome => return outcome,
            }
        }
    };
    let id = |number: &str| id::of_thesis("live", number);
    let ids = |page: Vec<ListedThesis>| page.into_iter().map(|liked| liked.id).collect::<Vec<_>>();
    assert_eq!(ids(page(None, 9).await.unwrap()), [id("3"), id("1"), id("2")]);
    let seen = ObservedEngagement { upstream_id: "1".to_owned(), likes: Some(8), replies: None };
    observe(&core, 2, ObservedThing::Engagement(seen)).await;
    let first = page(None, 1).await.unwrap();
    assert_eq!((first[0].likes, &first[0].id), (Some(8), &id("1")));
    let after = Some((first[0].likes, first[0].created_at, first[0].id.clone()));
    assert_eq!(ids(page(after, 9).await.unwrap()), [id("3"), id("2")]);
    core.close().await;
}

fn cores(core: &Core) -> SearchCores<'_> {
    SearchCores { index: &core.search, peers: &core.peers, organization: "prj" }
}

fn live() -> &'static View {
    static LIVE: std::sync::LazyLock<View> = std::sync::LazyLock::new(View::live);
    &LIVE
}

#[tokio::test]
async fn nothing_is_answered_from_a_part_of_the_logs_of_the_start() {
    let clock = ManualClock::new();
    let store = shared_memory(&clock);
    let first = core(Arc::clone(&store), &clock, 1).await;
    post(&first, "1", "@ana", "to the moon", None, 2).await;
    post(&first, "2", "@bob", "from the moon", None, 1).await;
    // Another core, whose index nobody keeps up.
    let index = Arc::new(SearchIndex::open(None).unwrap());
    let second = Core::start_beside(index, None, store, settings(), clock.clone(), ids(2)).await.unwrap();
    let (live, test) = (call(&second, LIVE_KEY), call(&second, TEST_KEY));
    let is_refused = async |call: &Call| {
        let found = result(&second, call, query("moon OR run")).await.map(|found| found.theses.len());
        let liked = likes_page(cores(&second), &second.datasets, &call.caller.view, SearchFilter::default(), None, 9)
            .await
            .map(|page| page.len());
        for outcome in [found, liked] {
            let Err(error) = outcome else { return false };
            assert_eq!((error.api.code.http_status(), error.api.retry_after), (503, Some(1)));
        }
        true
    };
    assert!(is_refused(&live).await && is_refused(&test).await, "nobody knows how far the logs reach");
    let checked = read_starts(&second.follower()).await;
    assert!(checked.contains(&Dataset::Live) && checked.contains(&Dataset::Sandbox));
    assert!(is_refused(&live).await && is_refused(&test).await, "nothing is taken in");
    // The index takes in one whole log, and a part of the sandbox.
    let read = second.shared.log.read("live", 0, u64::MAX, 100).await.unwrap();
    let entries = read.into_iter().map(|(seq, body)| SequencedEntry { seq, entry: decode(seq, body).unwrap() });
    second.search.apply(&Dataset::Live, &entries.collect::<Vec<_>>()).unwrap();
    let read = second.shared.log.read("sandbox", 0, 5, 100).await.unwrap();
    let entries = read.into_iter().map(|(seq, body)| SequencedEntry { seq, entry: decode(seq, body).unwrap() });
    second.search.apply(&Dataset::Sandbox, &entries.collect::<Vec<_>>()).unwrap();
    second.search.commit().unwrap();
    assert_eq!(result(&second, &live, query("moon")).await.unwrap().theses.len(), 2);
    assert!(is_refused(&test).await, "a part of the sandbox is taken in");
    let mut checked = checked.into_iter().collect();
    advance(&second.follower(), &mut checked).await;
    assert!(!result(&second, &test, query("run")).await.unwrap().theses.is_empty());
    // A thesis written after that may be missed for a moment; that is no reason to refuse.
    post(&first, "3", "@bob", "beyond the moon", None, 0).await;
    assert_eq!(result(&second, &live, query("moon")).await.unwrap().theses.len(), 2);
    first.close().await;
    second.close().await;
}

#[tokio::test]
async fn an_index_that_is_behind_is_said_to_be() {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 1).await;
    core.stop.cancel();
    tokio::time::pause();
    let view = call(&core, TEST_KEY).caller.view.clone();
    let error = likes_page(cores(&core), &core.datasets, &view, SearchFilter::default(), None, 9).await.unwrap_err();
    assert_eq!(error.api.code.http_status(), 503);
}

#[tokio::test]
async fn a_growing_log_is_followed_while_somebody_asks_for_it() {
    let clock = ManualClock::new();
    let index = Arc::new(SearchIndex::open(None).unwrap());
    let core = Core::start_beside(Arc::clone(&index), None, memory(&clock), settings(), clock.clone(), ids(1));
    let core = core.await.unwrap();
    let dataset = Dataset::of_project("prj_one");
    let write = async |number| {
        core.datasets.create_thesis(&dataset, new_thesis(&dataset, number)).await.unwrap();
    };
    let (follower, mut checked) = (core.follower(), HashSet::new());
    write(1).await;
    round(&follower, &mut checked).await;
    assert_eq!(index.position(&dataset), 0, "nobody asked for it");
    assert!(index.position(&Dataset::Sandbox) > 0);

    index.request_dataset(&dataset);
    round(&follower, &mut checked).await;
    index.wait_until_complete(&dataset).await;
    let first = index.position(&dataset);
    assert!(first > 0);
    clock.advance(30 * MINUTE_MS - 1);
    write(2).await;
    round(&follower, &mut checked).await;
    assert!(index.position(&dataset) > first);
    clock.advance(1);
    round(&follower, &mut checked).await;
    assert_eq!(index.position(&dataset), 0, "nobody asked for it for half an hour");
    write(3).await;
    round(&follower, &mut checked).await;
    assert_eq!(index.position(&dataset), 0);
    core.close().await;
}

/// A core whose index is in a folder, and which only the test brings up to date.
async fn core_on(store: &Arc<SharedMemory>, clock: &Arc<ManualClock>, replica: u64, folder: &Path) -> Arc<Core> {
    let index = Arc::new(SearchIndex::open(Some(SearchFolder::lock(folder).unwrap())).unwrap());
    Core::start_beside(index, None, store.clone(), settings(), clock.clone(), ids(replica)).await.unwrap()
}

#[tokio::test]
async fn after_a_restart_the_index_reads_what_it_lacks() {
    let (clock, folder) = (ManualClock::new(), tempfile::tempdir().unwrap());
    let store = SharedMemory::new(&clock);
    let writer = core(store.clone(), &clock, 1).await;
    post(&writer, "1", "@ana", "to the moon", None, 2).await;
    let first = core_on(&store, &clock, 2, folder.path()).await;
    round(&first.follower(), &mut HashSet::new()).await;
    assert_eq!(result(&first, &call(&first, LIVE_KEY), query("moon")).await.unwrap().theses.len(), 1);
    let position = first.search.position(&Dataset::Live);
    assert!(position > 0);
    first.close().await;
    drop(first);
    post(&writer, "2", "@bob", "from the moon", None, 1).await;
    writer.close().await;

    // No other reads happen on this connection once its core is closed.
    let own = store.beside();
    let second = core_on(&own, &clock, 3, folder.path()).await;
    second.close().await;
    second.search.reopen(second.shared.generation.as_str()).unwrap();
    assert_eq!(second.search.position(&Dataset::Live), position);
    let mut behind = 0;
    for dataset in [Dataset::Live, Dataset::Sandbox] {
        let head = second.datasets.refresh(&dataset).await.unwrap();
        behind += usize::from(second.search.position(&dataset) < head);
    }
    assert!(behind > 0);
    let follower = Follower { stop: CancellationToken::new(), ..second.follower() };
    let mut checked = HashSet::new();
    let before = own.scans(&EVENT_LOG);
    round(&follower, &mut checked).await;
    assert_eq!(own.scans(&EVENT_LOG), before + behind);
    let head = second.datasets.refresh(&Dataset::Live).await.unwrap();
    assert_eq!(second.search.position(&Dataset::Live), head);
    round(&follower, &mut checked).await;
    assert_eq!(own.scans(&EVENT_LOG), before + behind, "nothing is read twice");
}

#[tokio::test]
async fn a_core_whose_folder_goes_refuses_searches_alone() {
    let (clock, folder) = (ManualClock::new(), tempfile::tempdir().unwrap());
    let (store, path) = (SharedMemory::new(&clock), folder.path().join("search"));
    let core = core_on(&store, &clock, 1, &path).await;
    let (follower, mut checked, caller) = (core.follower(), HashSet::new(), call(&core, LIVE_KEY));
    post(&core, "1", "@ana", "to the moon", Some(1), 2).await;
    round(&follower, &mut checked).await;
    std::fs::remove_dir_all(&path).unwrap();
    std::fs::write(&path, "no folder").unwrap();
    // Writes go on.
    post(&core, "2", "@bob", "from the moon", Some(2), 1).await;
    for _ in 0..3 {
        round(&follower, &mut checked).await;
        assert!(!core.search.is_open());
        let found = result(&core, &caller, query("moon")).await.map(|found| found.theses.len());
        let liked = likes_page(cores(&core), &core.datasets, live(), SearchFilter::default(), None, 9).await;
        for outcome in [found, liked.map(|page| page.len())] {
            let error = outcome.unwrap_err();
            assert_eq!((error.api.code.http_status(), error.api.retry_after), (503, Some(1)));
        }
    }
    std::fs::remove_file(&path).unwrap();
    // Derived events may be appended meanwhile, and the list waits for them too.
    let liked = loop {
        round(&follower, &mut checked).await;
        let page = likes_page(cores(&core), &core.datasets, live(), SearchFilter::default(), None, 9).await;
        if let Ok(page) = page {
            break page;
        }
    };
    assert_eq!(liked.len(), 2);
    assert_eq!(result(&core, &caller, query("moon")).await.unwrap().theses.len(), 2);
    core.close().await;
}

#[tokio::test]
async fn an_index_that_lacks_nothing_works_again_too() {
    let (clock, folder) = (ManualClock::new(), tempfile::tempdir().unwrap());
    let (store, shard, aside) = (SharedMemory::new(&clock), folder.path().join("common"), folder.path().join("aside"));
    let first = core_on(&store, &clock, 1, folder.path()).await;
    post(&first, "1", "@ana", "to the moon", None, 2).await;
    round(&first.follower(), &mut HashSet::new()).await;
    first.close().await;
    drop(first);
    std::fs::rename(&shard, &aside).unwrap();
    std::fs::write(&shard, "no folder").unwrap();
    let second = core_on(&store, &clock, 2, folder.path()).await;
    let (follower, mut checked) = (second.follower(), HashSet::new());
    round(&follower, &mut checked).await;
    assert!(second.search.is_failing());
    std::fs::remove_file(&shard).unwrap();
    std::fs::rename(&aside, &shard).unwrap();
    round(&follower, &mut checked).await;
    assert!(second.search.is_open() && !second.search.is_failing());
    second.close().await;
}
