//! The pages of an edge in this process have the bytes that any other edge would write.

use serde::Serialize;
use thesis_net::services::Trusted;
use thesis_proto::{
    json::{EventList, List, RenderedRows, ThesisList},
    v1,
};
use tonic::{Extensions, Request};

use super::*;
use crate::{
    domain::{
        entry::Entry,
        observation::{Observation, ObservedEngagement, ObservedProfile, ObservedThesis, ObservedThing, ObservedToken},
        window::HOUR_MS,
    },
    grpc::local,
    service::Core,
    tests::{
        faulty::{Process, StoreCall},
        harness::{LIVE_KEY, ManualClock, NOON, TEST_KEY, core, memory, new_thesis, shared_memory},
    },
};

fn author(handle: &str) -> ObservedProfile {
    ObservedProfile { upstream_id: "u".to_owned(), handle: handle.to_owned(), ..ObservedProfile::default() }
}

fn token(symbol: &str) -> ObservedToken {
    let (chain, address, symbol) = ("base".to_owned(), "0xA1".to_owned(), symbol.to_owned());
    ObservedToken { chain, address, symbol, ..ObservedToken::default() }
}

fn thesis(number: i64, text: &str) -> ObservedThing {
    let created_at = NOON - HOUR_MS + number;
    ObservedThing::Thesis(Box::new(ObservedThesis {
        upstream_id: number.to_string(),
        profile: author("writer"),
        token: token("moon"),
        text: text.to_owned(),
        likes: None,
        replies: None,
        created_at,
        updated_at: created_at,
    }))
}

async fn observe(core: &Arc<Core>, observed_at: i64, seen: ObservedThing) {
    let observation = Observation { observed_at, revision: None, seen };
    core.datasets.observe_here(&Dataset::Live, observation).await.unwrap();
}

/// A request of an edge in this process.
fn request<M>(message: M, key: &str, renders: bool) -> Request<M> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(Trusted { renders, ..Trusted::default() });
    request.metadata_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
    request
}

/// Writes a page as an edge does: its rendered rows, or else its messages.
fn written(extensions: &Extensions, next_cursor: Option<&str>, has_more: bool, messages: &impl Serialize) -> String {
    let text = match extensions.get::<RenderedRows>() {
        Some(RenderedRows(rows)) => {
            serde_json::to_string(&List::new(rows.iter().map(|row| &**row).collect(), next_cursor, has_more))
        }
        None => serde_json::to_string(messages),
    };
    text.unwrap()
}

/// A page as text, with its cursor.
type Page = (String, Option<String>);

async fn theses(core: &Arc<Core>, key: &str, message: &v1::ListThesesRequest, renders: bool) -> Page {
    let listed = local(core).theses.list_theses(request(message.clone(), key, renders)).await.unwrap();
    let (_, page, extensions) = listed.into_parts();
    assert_eq!(extensions.get::<RenderedRows>().is_some(), renders, "{message:?}");
    let text = written(&extensions, page.next_cursor.as_deref(), page.has_more, &ThesisList::from(&page));
    (text, page.next_cursor)
}

async fn events(core: &Arc<Core>, key: &str, message: &v1::ListEventsRequest, renders: bool) -> Page {
    let listed = local(core).events.list_events(request(message.clone(), key, renders)).await.unwrap();
    let (_, page, extensions) = listed.into_parts();
    assert_eq!(extensions.get::<RenderedRows>().is_some(), renders && message.types.is_empty(), "{message:?}");
    let text = written(&extensions, page.next_cursor.as_deref(), page.has_more, &EventList::from(&page));
    (text, page.next_cursor)
}

/// Reads a rendered page twice, the second time from the cache, and compares it with the page of messages.
async fn same_page(core: &Arc<Core>, read: impl AsyncFn(bool) -> Page) -> Page {
    let positions = || {
        let mut positions = core.datasets.positions();
        positions.sort_unstable();
        positions
    };
    loop {
        let before = positions();
        let [first, messages, again] = [read(true).await, read(false).await, read(true).await];
        // Derived events and fixtures may come at any time.
        if positions() == before {
            assert_eq!(first, messages);
            assert_eq!(again, messages);
            return messages;
        }
    }
}

/// Compares pages of a key. Returns the first page of theses and the first one of events.
async fn same_pages(core: &Arc<Core>, key: &str) -> [String; 2] {
    let mut pages = Vec::new();
    let newest = v1::ListThesesRequest::default();
    let sort = v1::ThesisSort::CreatedAtAsc.into();
    let oldest = v1::ListThesesRequest { sort, limit: Some(7), ..newest.clone() };
    for message in [newest, oldest] {
        let (page, cursor) = same_page(core, async |renders| theses(core, key, &message, renders).await).await;
        let next = v1::ListThesesRequest { cursor, ..message };
        same_page(core, async |renders| theses(core, key, &next, renders).await).await;
        pages.push(page);
    }
    let all = v1::ListEventsRequest { limit: Some(9), ..v1::ListEventsRequest::default() };
    let created = v1::ListEventsRequest { types: vec![v1::EventType::ThesisCreated.into()], ..all.clone() };
    for message in [all, created] {
        let (page, cursor) = same_page(core, async |renders| events(core, key, &message, renders).await).await;
        let next = v1::ListEventsRequest { cursor, ..message };
        same_page(core, async |renders| events(core, key, &next, renders).await).await;
        pages.push(page);
    }
    [pages.swap_remove(0), pages.swap_remove(2)]
}

#[tokio::test]
async fn rendered_pages_are_those_of_messages_and_follow_each_change() {
    let clock = ManualClock::new();
    for backend in [memory(&clock), shared_memory(&clock)] {
        let core = core(backend, &clock, 1).await;
        let project = core.shared.control.state().projects().next().unwrap().id.clone();
        let own = Dataset::of_project(&project);
        for number in 0..20 {
            let mut new = new_thesis(&own, number);
            new.thesis.created_at += NOON;
            core.datasets.create_thesis(&own, new).await.unwrap();
        }
        for number in 0..40 {
            observe(&core, NOON, thesis(number, &format!("number {number}"))).await;
        }
        let liked = ObservedEngagement { upstream_id: "37".to_owned(), likes: Some(5), replies: None };
        let changes = [
            (thesis(39, "edited"), "\"edited\"", "number 39"),
            (ObservedThing::Deletion("38".to_owned()), "number 37", "number 38"),
            (ObservedThing::Engagement(liked), "\"likes\":5", "number 38"),
            (ObservedThing::Profile(Box::new(author("renamed"))), "@renamed", "@writer"),
            (ObservedThing::Token(Box::new(token("sun"))), "$sun", "$moon"),
            (thesis(40, "new"), "\"new\"", "number 38"),
        ];
        for (later, (seen, has, lacks)) in (1..).zip(changes) {
            same_pages(&core, LIVE_KEY).await;
            observe(&core, NOON + later, seen).await;
            let [theses, events] = same_pages(&core, LIVE_KEY).await;
            assert!(theses.contains(has) && !theses.contains(lacks), "{has}: {theses}");
            assert!(events.contains("\"livemode\":true") && !events.contains("\"livemode\":false"), "{events}");
        }
        for page in same_pages(&core, TEST_KEY).await {
            assert!(page.contains("\"livemode\":false") && !page.contains("\"livemode\":true"), "{page}");
        }
    }
}

/// The rendered rows of the first page of theses.
async fn thesis_rows(core: &Arc<Core>) -> Vec<RenderedRow> {
    let message = request(v1::ListThesesRequest::default(), LIVE_KEY, true);
    let page = local(core).theses.list_theses(message).await.unwrap();
    page.extensions().get::<RenderedRows>().unwrap().0.clone()
}

/// The rendered rows of the first page of events.
async fn event_rows(core: &Arc<Core>) -> Vec<RenderedRow> {
    let message = request(v1::ListEventsRequest::default(), LIVE_KEY, true);
    let page = local(core).events.list_events(message).await.unwrap();
    page.extensions().get::<RenderedRows>().unwrap().0.clone()
}

/// Reads pages until two in a row have the same objects. The first ones may differ, since derived events come.
async fn cached_rows(read: impl AsyncFn() -> Vec<RenderedRow>) -> Vec<RenderedRow> {
    let mut before = read().await;
    for _ in 0..20 {
        let rows = read().await;
        let are_same = rows.iter().zip(&before).all(|(row, before)| Arc::ptr_eq(row, before));
        if rows.len() == before.len() && are_same {
            assert!(!rows.is_empty());
            return rows;
        }
        before = rows;
    }
    panic!("no page comes from the cache");
}

#[tokio::test]
async fn pages_share_their_rows_until_another_core_renames_the_author() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let [reader, writer] = [core(Arc::clone(&backend), &clock, 1).await, core(backend, &clock, 2).await];
    let alone = core(memory(&clock), &clock, 1).await;
    for (reader, writer) in [(&reader, &writer), (&alone, &alone)] {
        for number in 0..3 {
            observe(writer, NOON, thesis(number, "text")).await;
        }
        cached_rows(async || event_rows(reader).await).await;
        for (renamed_at, handle) in [(NOON + 1, "renamed"), (NOON + 2, "again")] {
            cached_rows(async || thesis_rows(reader).await).await;
            observe(writer, renamed_at, ObservedThing::Profile(Box::new(author(handle)))).await;
            let rows = thesis_rows(reader).await;
            assert_eq!(rows.len(), 3);
            assert!(rows.iter().all(|row| row.get().contains(&format!("\"@{handle}\""))), "{rows:?}");
        }
    }
}

#[tokio::test]
async fn a_repeated_page_reads_nothing_where_one_process_writes() {
    let clock = ManualClock::new();
    let process = Process::new(memory(&clock));
    let core = core(process.clone(), &clock, 1).await;
    for number in 0..3 {
        observe(&core, NOON, thesis(number, "text")).await;
    }
    process.count(true);
    let reads = || process.calls().iter().filter(|call| **call == StoreCall::Read).count();
    // The first page reads, and others may, since derived events come.
    for _ in 0..20 {
        let before = reads();
        let rows = thesis_rows(&core).await;
        assert_eq!(rows.len(), 3);
        if reads() == before {
            return;
        }
    }
    panic!("each page reads from the store");
}

/// Number of rendered theses on a page of an author or a token.
async fn listed(core: &Arc<Core>, handle: Option<&str>, token: Option<&str>) -> usize {
    let (handle, token) = (handle.map(str::to_owned), token.map(str::to_owned));
    let message = v1::ListThesesRequest { handle, token, ..v1::ListThesesRequest::default() };
    let page = local(core).theses.list_theses(request(message, LIVE_KEY, true)).await.unwrap();
    page.extensions().get::<RenderedRows>().map_or(0, |rows| rows.0.len())
}

#[tokio::test]
async fn pages_by_a_name_follow_its_changes() {
    let clock = ManualClock::new();
    for backend in [memory(&clock), shared_memory(&clock)] {
        let core = core(backend, &clock, 1).await;
        for number in 0..3 {
            observe(&core, NOON, thesis(number, "text")).await;
        }
        let pages = async || {
            let of_handles = [listed(&core, Some("writer"), None).await, listed(&core, Some("@renamed"), None).await];
            let of_symbols = [listed(&core, None, Some("$moon")).await, listed(&core, None, Some("sun")).await];
            (of_handles, of_symbols, listed(&core, Some("renamed"), Some("sun")).await)
        };
        for _ in 0..2 {
            assert_eq!(pages().await, ([3, 0], [3, 0], 0));
        }
        observe(&core, NOON + 1, ObservedThing::Profile(Box::new(author("renamed")))).await;
        assert_eq!(pages().await, ([0, 3], [3, 0], 0));
        observe(&core, NOON + 2, ObservedThing::Token(Box::new(token("sun")))).await;
        assert_eq!(pages().await, ([0, 3], [0, 3], 3));
        for deleted in [2_usize, 1] {
            observe(&core, NOON + 3, ObservedThing::Deletion(deleted.to_string())).await;
            for _ in 0..2 {
                assert_eq!(pages().await, ([0, deleted], [0, deleted], deleted));
            }
        }
    }
}

#[test]
fn a_thesis_is_known_at_the_steps_at_which_its_rows_were_read() {
    let lists = RenderedLists::default();
    let thesis = Arc::new(Thesis { id: "th_1".to_owned(), ..Thesis::default() });
    let (author, token) = (Arc::<Profile>::default(), Arc::<Token>::default());
    let render = |author: &Arc<Profile>, steps| lists.thesis(&Dataset::Live, &thesis, author, &token, steps);
    let is_known = |dataset: Dataset, steps| lists.known_theses(&[(dataset, "th_1".to_owned())], steps).is_some();
    render(&author, None);
    assert!(!is_known(Dataset::Live, 0) && !is_known(Dataset::Live, 1));
    let json = render(&author, Some(0));
    assert!(is_known(Dataset::Live, 0) && !is_known(Dataset::Sandbox, 0) && !is_known(Dataset::Live, 2));
    assert!(Arc::ptr_eq(&render(&author, Some(2)), &json));
    assert!(is_known(Dataset::Live, 2) && !is_known(Dataset::Live, 0));
    let both = ["th_1", "th_2"].map(|id| (Dataset::Live, id.to_owned()));
    assert!(lists.known_theses(&both, 2).is_none());
    // The rows of a request that has no steps may be newer.
    let renamed = Arc::new(Profile { handle: "renamed".to_owned(), ..Profile::default() });
    render(&renamed, None);
    assert!(!is_known(Dataset::Live, 2));
    render(&renamed, Some(4));
    let known = lists.known_theses(&both[..1], 4).unwrap();
    assert!(known[0].get().contains("renamed"), "{known:?}");
}

#[test]
fn the_json_of_all_theses_together_has_a_limit() {
    let lists = RenderedLists::default();
    let (author, token) = (Arc::<Profile>::default(), Arc::<Token>::default());
    let text = "x".repeat(4 << 10);
    let id = |number: usize| format!("th_{number}");
    for number in 0..8_000 {
        let thesis = Arc::new(Thesis { id: id(number), text: text.clone(), ..Thesis::default() });
        lists.thesis(&Dataset::Live, &thesis, &author, &token, Some(0));
    }
    let is_known = |number: &usize| lists.known_theses(&[(Dataset::Live, id(*number))], 0).is_some();
    let kept = (0..8_000).filter(is_known).count();
    assert!(kept > 1_000 && (kept * text.len()) as u64 <= MAX_THESES_BYTES, "{kept}");
}

#[test]
fn the_oldest_events_are_known_up_to_an_unknown_one() {
    let lists = RenderedLists::default();
    for seq in [1, 3, 4, 5] {
        lists.event(&Dataset::Live, seq, &Entry::filler(seq, 0).stored(seq).into(), 0).unwrap();
    }
    for (before, entries, expected) in
        [(6, 3, &[5_u64, 4, 3][..]), (8, 5, &[5, 4, 3]), (6, 9, &[1]), (6, 4, &[]), (6, 0, &[])]
    {
        let known = lists.known_events(&Dataset::Live, before, entries, 0);
        let known: Vec<u64> = known.into_iter().map(|(seq, _)| seq).collect();
        assert_eq!(known, expected, "{entries} before {before}");
    }
}

#[test]
fn events_of_before_an_erasure_are_not_known_after_it() {
    let lists = RenderedLists::default();
    let event = |seq: u64, erasure: u64| {
        lists.event(&Dataset::Live, seq, &Entry::filler(seq, 0).stored(seq).into(), erasure).unwrap();
    };
    let known = |erasure: u64| {
        let known = lists.known_events(&Dataset::Live, 8, 7, erasure);
        known.into_iter().map(|(seq, _)| seq).rev().collect::<Vec<_>>()
    };
    lists.event(&Dataset::Sandbox, 1, &Entry::filler(1, 0).stored(1).into(), 0).unwrap();
    (1..=4).for_each(|seq| event(seq, 0));
    assert_eq!(known(0), [1, 2, 3, 4]);
    assert!(known(4).is_empty());
    assert_eq!(lists.events.len(), 2, "they are not even in memory, only the later one and that of another log are");
    // This one was read before the erasure, and is rendered after it.
    event(1, 0);
    assert!(known(4).is_empty());
    (1..=5).for_each(|seq| event(seq, 4));
    assert_eq!(known(4), [1, 2, 3, 4, 5]);
}
