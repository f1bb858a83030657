use bytes::Bytes;
use futures::StreamExt as _;
use thesis_net::{clock::SystemIdSource, services::Trusted};
use thesis_proto::json::RenderedRows;
use tonic::Request;

use super::*;
use crate::{
    domain::{
        id,
        observation::{Observation, ObservedEngagement, ObservedThing},
    },
    grpc::local,
    store::{
        Consistency, SharedBackend,
        embedded::{EmbeddedStore, Options},
        schema,
    },
    tables::{audit, log::ROWS},
    tests::harness::{LIVE_KEY, ManualClock, NOON, core, memory, observed_thesis, shared_memory},
};

const SECRET: &str = "my name and address";

fn observed(text: &str) -> ObservedThing {
    ObservedThing::Thesis(Box::new(observed_thesis("post", text)))
}

async fn observe(core: &Arc<Core>, revision: i64, seen: ObservedThing) -> bool {
    let observation = Observation { observed_at: 1, revision: Some(revision), seen };
    core.datasets.observe_here(&Dataset::Live, observation).await.unwrap().applied
}

fn request(id: &str) -> v1::EraseThesisRequest {
    v1::EraseThesisRequest { dataset: "live".to_owned(), id: id.to_owned(), reason: "the author asked".to_owned() }
}

async fn erase(core: &Core, request: &v1::EraseThesisRequest) -> Result<u64> {
    Ok(erase_thesis(core, &Actor::operator(None), request).await?.entries)
}

/// The stored entries of the log of live data, from the first one.
async fn stored(backend: &SharedBackend) -> Vec<(u64, Bytes)> {
    let log = LogStore::new(Arc::clone(backend));
    let head = log.head("live", 0, Consistency::Serial).await.unwrap();
    log.read("live", 0, head, usize::MAX).await.unwrap()
}

fn has_secret(body: &[u8]) -> bool {
    body.windows(SECRET.len()).any(|window| window == SECRET.as_bytes())
}

#[tokio::test]
async fn an_erased_text_is_gone_and_the_tree_stays() {
    let clock = ManualClock::new();
    for backend in [memory(&clock), shared_memory(&clock)] {
        let core = core(Arc::clone(&backend), &clock, 1).await;
        let thesis_id = id::of_thesis("live", "post");
        assert!(observe(&core, 1, observed(SECRET)).await);
        assert!(observe(&core, 2, observed(&format!("{SECRET}, edited"))).await);
        assert!(observe(&core, 3, observed(&format!("{SECRET}, edited again"))).await);
        let liked = ObservedEngagement { upstream_id: "post".to_owned(), likes: Some(7), replies: None };
        assert!(observe(&core, 4, ObservedThing::Engagement(liked)).await);
        assert!(observe(&core, 5, ObservedThing::Deletion("post".to_owned())).await);
        let before = stored(&backend).await;
        assert_eq!(before.iter().filter(|(_, body)| has_secret(body)).count(), 5);

        assert_eq!(erase(&core, &request(&thesis_id)).await.unwrap(), 5);
        let after = stored(&backend).await;
        let leaf_at = |(seq, body): &(u64, Bytes)| leaf("live", *seq, body).unwrap();
        for (old, new) in before.iter().zip(&after) {
            assert!(!has_secret(&new.1) && leaf_at(old) == leaf_at(new), "entry {}", old.0);
        }
        let from_memory = core.shared.log.read("live", 0, before.len() as u64, usize::MAX).await.unwrap();
        assert!(from_memory.iter().all(|(_, body)| !has_secret(body)));
        let row = core.shared.theses.theses(&[("live", thesis_id.as_str())]).await.unwrap().pop().flatten().unwrap();
        assert_eq!((row.text.as_str(), row.likes, row.deleted_at.is_some()), ("", Some(7), true));

        assert_eq!(erase(&core, &request(&thesis_id)).await.unwrap(), 0, "erased twice");
        assert!(!observe(&core, 6, observed(SECRET)).await, "a late observation brings the text back");
        let acts = audit::list(&backend, None, None, NOON, 10).await.unwrap();
        let reasons = acts.iter().filter(|row| row.act.action == "thesis.erased" && row.act.subject == thesis_id);
        assert!(reasons.map(|row| row.act.reason.as_deref()).eq([Some("the author asked"); 2]), "{acts:?}");
    }
}

#[tokio::test]
async fn an_erasure_that_broke_off_is_finished_by_the_next_one() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let core = core(Arc::clone(&backend), &clock, 1).await;
    let thesis_id = id::of_thesis("live", "post");
    assert!(observe(&core, 1, observed(SECRET)).await);
    assert!(observe(&core, 2, ObservedThing::Deletion("post".to_owned())).await);
    // The row is written, and no entry is replaced.
    core.datasets.erase_text_here(&Dataset::Live, &thesis_id).await.unwrap();
    assert_eq!(erase(&core, &request(&thesis_id)).await.unwrap(), 2);
    assert!(stored(&backend).await.iter().all(|(_, body)| !has_secret(body)));
}

#[tokio::test]
async fn only_the_text_of_a_deleted_thesis_is_erased() {
    let clock = ManualClock::new();
    let backend = memory(&clock);
    let core = core(Arc::clone(&backend), &clock, 1).await;
    let thesis_id = id::of_thesis("live", "post");
    assert!(observe(&core, 1, observed(SECRET)).await);
    let whole = request(&thesis_id);
    for (request, code) in [
        (whole.clone(), ErrorCode::ValidationFailed),
        (v1::EraseThesisRequest { reason: " ".to_owned(), ..whole.clone() }, ErrorCode::ValidationFailed),
        (v1::EraseThesisRequest { dataset: "lives".to_owned(), ..whole.clone() }, ErrorCode::ValidationFailed),
        (v1::EraseThesisRequest { dataset: "sandbox".to_owned(), ..whole.clone() }, ErrorCode::ThesisNotFound),
        (request("th_unknown"), ErrorCode::ThesisNotFound),
    ] {
        assert_eq!(erase(&core, &request).await.unwrap_err().api.code, code, "{request:?}");
    }
    assert!(stored(&backend).await.iter().any(|(_, body)| has_secret(body)));
}

#[tokio::test]
async fn the_text_of_a_thesis_that_was_deleted_before_it_came_is_erased() {
    let clock = ManualClock::new();
    let backend = memory(&clock);
    let core = core(Arc::clone(&backend), &clock, 1).await;
    let thesis_id = id::of_thesis("live", "post");
    assert!(observe(&core, 1, ObservedThing::Deletion("post".to_owned())).await);
    assert!(observe(&core, 2, observed(SECRET)).await);
    assert_eq!(erase(&core, &request(&thesis_id)).await.unwrap(), 1);
    assert!(stored(&backend).await.iter().all(|(_, body)| !has_secret(body)));
}

/// Starts two cores on one store, with a thesis whose text the tests erase.
async fn writer_and_reader() -> [Arc<Core>; 2] {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let cores = [core(Arc::clone(&backend), &clock, 1).await, core(backend, &clock, 2).await];
    assert!(observe(&cores[0], 1, observed(SECRET)).await);
    assert!(observe(&cores[0], 2, ObservedThing::Deletion("post".to_owned())).await);
    cores
}

async fn erase_secret(core: &Core) {
    assert_eq!(erase(core, &request(&id::of_thesis("live", "post"))).await.unwrap(), 2);
}

fn with_key<M>(message: M) -> Request<M> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {LIVE_KEY}").parse().unwrap());
    request
}

/// Reads a page of events as the JSON that a core gives to an edge in its process, and the cursor of the next page.
async fn page_of(core: &Arc<Core>, message: v1::ListEventsRequest) -> (String, Option<String>) {
    let mut request = with_key(message);
    request.extensions_mut().insert(Trusted { renders: true, ..Trusted::default() });
    let page = local(core).events.list_events(request).await.unwrap();
    let rows = page.extensions().get::<RenderedRows>().unwrap().0.iter().map(|row| row.get()).collect();
    (rows, page.into_inner().next_cursor)
}

/// The first page of events.
async fn page(core: &Arc<Core>) -> String {
    page_of(core, v1::ListEventsRequest::default()).await.0
}

/// The text of a thesis in the event of its creation.
fn created_text(event: v1::Event) -> Option<String> {
    match event.data? {
        v1::event::Data::ThesisCreated(created) => Some(created.text),
        _ => None,
    }
}

/// The texts of theses that a core reads for streams, from the beginning of the log, and the position up to which an
/// edge forgets its events.
async fn streamed(core: &Arc<Core>) -> (Vec<String>, u64) {
    let upto = core.datasets.refresh(&Dataset::Live).await.unwrap();
    let log = core.shared.generation.log_name(&Dataset::Live);
    let after = vec![v1::DatasetPosition { dataset: log, position: 0 }];
    let mut tail = local(core).streams.tail(Trusted::request(v1::TailRequest { after })).await.unwrap().into_inner();
    let mut texts = Vec::new();
    loop {
        let v1::TailResponse { events, position, erased, .. } = tail.next().await.unwrap().unwrap();
        texts.extend(events.into_iter().filter_map(|event| created_text(event.event?)));
        if position >= upto {
            return (texts, erased);
        }
    }
}

#[tokio::test]
async fn no_core_shows_an_erased_text_from_its_caches() {
    let [writer, reader] = writer_and_reader().await;
    for core in [&writer, &reader] {
        for is_kept in [false, true] {
            assert!(page(core).await.contains(SECRET), "{is_kept}");
        }
        assert_eq!(streamed(core).await, (vec![SECRET.to_owned()], 0));
    }
    erase_secret(&writer).await;
    let head = writer.datasets.refresh(&Dataset::Live).await.unwrap();
    // The other core has read nothing of the log since the erasure.
    for core in [&reader, &writer] {
        let page = page(core).await;
        assert!(page.contains("\"text\":\"\"") && !page.contains(SECRET), "{page}");
    }
    for core in [&writer, &reader] {
        let (texts, erased) = streamed(core).await;
        assert!(texts == [""] && erased > 0 && erased <= head, "{texts:?} {erased}");
    }
}

#[tokio::test]
async fn a_later_page_of_another_core_shows_no_erased_text() {
    let [writer, reader] = writer_and_reader().await;
    assert!(observe(&writer, 3, ObservedThing::Thesis(Box::new(observed_thesis("later", "later")))).await);
    let mut request = v1::ListEventsRequest { limit: Some(1), ..v1::ListEventsRequest::default() };
    // Derived events may come before it.
    loop {
        let (page, cursor) = page_of(&reader, request.clone()).await;
        if page.contains(SECRET) {
            break;
        }
        request.cursor = Some(cursor.expect("the page with the text is not the last one"));
    }
    assert!(request.cursor.is_some(), "the first page has the later thesis");
    erase_secret(&writer).await;
    let (page, _) = page_of(&reader, request).await;
    assert!(page.contains("\"text\":\"\"") && !page.contains(SECRET), "{page}");
}

#[tokio::test]
async fn a_list_of_an_authors_events_shows_no_erased_text() {
    let [writer, reader] = writer_and_reader().await;
    let filters = Some(v1::EventFilters { handle: vec!["writer".to_owned()], ..v1::EventFilters::default() });
    let request = v1::ListEventsRequest { filters, ..v1::ListEventsRequest::default() };
    let texts = async |core: &Arc<Core>| {
        let page = local(core).events.list_events(with_key(request.clone())).await.unwrap().into_inner();
        page.data.into_iter().filter_map(created_text).collect::<Vec<_>>()
    };
    for core in [&writer, &reader, &reader] {
        assert_eq!(texts(core).await, [SECRET]);
    }
    erase_secret(&writer).await;
    for core in [&reader, &writer] {
        assert_eq!(texts(core).await, [""]);
    }
}

#[tokio::test]
async fn an_event_of_another_core_has_no_erased_text() {
    let [writer, reader] = writer_and_reader().await;
    let entries = stored(&reader.shared.backend).await;
    let (seq, body) = entries.into_iter().find(|(_, body)| has_secret(body)).unwrap();
    let request = v1::GetEventRequest { id: decode(seq, body).unwrap().id };
    // Its entries come into memory.
    assert_eq!(streamed(&reader).await.0, [SECRET]);
    let text = async || {
        let event = local(&reader).events.get_event(with_key(request.clone())).await.unwrap().into_inner().event;
        created_text(event.unwrap()).unwrap()
    };
    assert_eq!(text().await, SECRET);
    erase_secret(&writer).await;
    assert_eq!(text().await, "");
}

#[tokio::test]
async fn an_edge_that_reads_at_another_core_gets_no_erased_text() {
    let [writer, reader] = writer_and_reader().await;
    let dataset = reader.shared.generation.log_name(&Dataset::Live);
    let request = v1::ReadRequest { dataset, ..v1::ReadRequest::default() };
    let texts = async || {
        let read = local(&reader).streams.read(Trusted::request(request.clone())).await.unwrap().into_inner();
        let texts = read.events.into_iter().filter_map(|event| created_text(event.event?));
        texts.collect::<Vec<_>>()
    };
    assert_eq!(texts().await, [SECRET]);
    erase_secret(&writer).await;
    assert_eq!(texts().await, [""]);
}

#[tokio::test]
async fn the_checkpoint_of_a_later_writer_names_the_erasure_too() {
    let [writer, other] = writer_and_reader().await;
    erase_secret(&writer).await;
    let erasure = writer.shared.log.newest_erasure("live");
    assert!(observe(&other, 3, ObservedThing::Deletion("another".to_owned())).await);
    let log = LogStore::new(Arc::clone(&other.shared.backend));
    assert!(erasure > 0 && log.checkpoint("live", ROWS).await.unwrap() > erasure);
    assert_eq!(log.newest_erasure("live"), erasure);
}

#[tokio::test]
async fn no_row_and_so_no_later_backup_has_an_erased_text() {
    let clock = ManualClock::new();
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(EmbeddedStore::open(dir.path(), Options::default(), clock.clone(), &SystemIdSource).unwrap());
    let rows_with_text = async || {
        let mut rows = 0;
        for table in schema::ALL {
            rows += store.all(table).await.unwrap().iter().filter(|(_, row)| has_secret(&row.body)).count();
        }
        rows
    };
    let core = core(Arc::clone(&store) as SharedBackend, &clock, 1).await;
    assert!(observe(&core, 1, observed(SECRET)).await);
    assert!(observe(&core, 2, observed(&format!("{SECRET}, edited"))).await);
    assert!(observe(&core, 3, ObservedThing::Deletion("post".to_owned())).await);
    assert!(rows_with_text().await >= 3);
    erase(&core, &request(&id::of_thesis("live", "post"))).await.unwrap();
    assert_eq!(rows_with_text().await, 0);
}
