use bytes::Bytes;
use futures::StreamExt as _;
use thesis_net::{clock::SystemIdSource, services::Trusted};
use thesis_proto::json::RenderedRows;
use tonic::Request;

use super::*;
use crate::{
    domain::{
        id,
        observation::{Observation, ObservedEngagement, ObservedProfile, ObservedThesis, ObservedThing, ObservedToken},
    },
    grpc::local,
    store::{
        Consistency, SharedBackend,
        embedded::{EmbeddedStore, Options},
        schema,
    },
    tables::audit,
    tests::harness::{LIVE_KEY, ManualClock, NOON, core, memory, shared_memory},
};

const SECRET: &str = "my name and address";

fn observed(text: &str) -> ObservedThing {
    ObservedThing::Thesis(Box::new(ObservedThesis {
        upstream_id: "post".to_owned(),
        profile: ObservedProfile {
            upstream_id: "u".to_owned(),
            handle: "ann".to_owned(),
            ..ObservedProfile::default()
        },
        token: ObservedToken {
            chain: "base".to_owned(),
            address: "0xa".to_owned(),
            symbol: "RUN".to_owned(),
            ..ObservedToken::default()
        },
        text: text.to_owned(),
        created_at: 1_000,
        updated_at: 1_000,
        ..ObservedThesis::default()
    }))
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

/// The first page of events, as the JSON that a core keeps for an edge in its process.
async fn page(core: &Arc<Core>) -> String {
    let mut request = Request::new(v1::ListEventsRequest::default());
    request.extensions_mut().insert(Trusted { renders: true, ..Trusted::default() });
    request.metadata_mut().insert("authorization", format!("Bearer {LIVE_KEY}").parse().unwrap());
    let page = local(core).events.list_events(request).await.unwrap();
    page.extensions().get::<RenderedRows>().unwrap().0.iter().map(|row| row.get()).collect()
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
        texts.extend(events.into_iter().filter_map(|event| match event.event?.data? {
            v1::event::Data::ThesisCreated(created) => Some(created.text),
            _ => None,
        }));
        if position >= upto {
            return (texts, erased);
        }
    }
}

#[tokio::test]
async fn no_core_shows_an_erased_text_from_its_caches() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let [writer, reader] = [core(Arc::clone(&backend), &clock, 1).await, core(backend, &clock, 2).await];
    assert!(observe(&writer, 1, observed(SECRET)).await);
    assert!(observe(&writer, 2, ObservedThing::Deletion("post".to_owned())).await);
    for core in [&writer, &reader] {
        for is_kept in [false, true] {
            assert!(page(core).await.contains(SECRET), "{is_kept}");
        }
        assert_eq!(streamed(core).await, (vec![SECRET.to_owned()], 0));
    }
    assert_eq!(erase(&writer, &request(&id::of_thesis("live", "post"))).await.unwrap(), 2);
    let head = writer.datasets.refresh(&Dataset::Live).await.unwrap();
    for core in [&writer, &reader] {
        // Search and streams of each core read the log to its end.
        let (texts, erased) = streamed(core).await;
        assert!(texts == [""] && erased > 0 && erased <= head, "{texts:?} {erased}");
        let page = page(core).await;
        assert!(page.contains("\"text\":\"\"") && !page.contains(SECRET), "{page}");
    }
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
