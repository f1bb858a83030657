//! Lists and verifications at one core while another one writes.

use std::{collections::HashSet, sync::Arc, time::Duration};

use thesis_proto::{
    time::from_millis,
    v1::{self, VerificationReason as Reason},
};

use crate::{
    access::gate::{Call, RequestMeta},
    domain::{
        dataset::Dataset,
        observation::{Observation, ObservedProfile, ObservedThesis, ObservedThing, ObservedToken},
        operation::Operation,
        window::HOUR_MS,
    },
    operations::{list_theses::list_theses, verify_thesis::verify_thesis},
    service::Core,
    store::schema,
    tests::harness::{LIVE_KEY, ManualClock, NOON, SharedMemory, core},
};

/// Maximum number of requests for a list of 25 different authors and tokens at a core that has cached none of them:
/// three each for theses, authors and tokens, one each for the buckets, the index and the position, and a few for other
/// reads of the position.
const MAX_COLD_REQUESTS: usize = 15;

fn author(handle: &str) -> ObservedProfile {
    ObservedProfile { upstream_id: "u".to_owned(), handle: handle.to_owned(), ..ObservedProfile::default() }
}

pub(super) fn thesis(number: i64, text: &str) -> ObservedThing {
    let token = ObservedToken {
        chain: "base".to_owned(),
        address: "0xA1".to_owned(),
        symbol: "moon".to_owned(),
        ..ObservedToken::default()
    };
    // All in one hour, so that a page is in one bucket.
    let created_at = NOON - HOUR_MS + number;
    ObservedThing::Thesis(Box::new(ObservedThesis {
        upstream_id: number.to_string(),
        profile: author("writer"),
        token,
        text: text.to_owned(),
        likes: None,
        replies: None,
        created_at,
        updated_at: created_at,
    }))
}

/// A thesis whose author and token have no other one.
pub(super) fn thesis_of_its_own(number: i64) -> ObservedThing {
    let mut seen = thesis(number, "alone");
    if let ObservedThing::Thesis(seen) = &mut seen {
        seen.profile.upstream_id = format!("u{number}");
        seen.profile.handle = format!("writer{number}");
        seen.token.address = format!("0x{number}");
        seen.token.symbol = format!("own{number}");
    }
    seen
}

pub(super) async fn observe(core: &Core, observed_at: i64, seen: ObservedThing) {
    let observation = Observation { observed_at, revision: None, seen };
    core.datasets.observe_here(&Dataset::Live, observation).await.unwrap();
}

async fn list(core: &Core, call: &Call) -> Vec<v1::Thesis> {
    let request = v1::ListThesesRequest { limit: Some(25), ..v1::ListThesesRequest::default() };
    list_theses(core, call, request).await.unwrap().data
}

/// A core that has written 30 theses, and another one with its connection to the store.
async fn writer_and_reader() -> (Arc<Core>, Arc<Core>, Arc<SharedMemory>) {
    let clock = ManualClock::new();
    let store = SharedMemory::new(&clock);
    let beside = store.beside();
    let writer = core(store, &clock, 1).await;
    let reader = core(beside.clone(), &clock, 2).await;
    for number in 0..30 {
        observe(&writer, NOON, thesis(number, &format!("number {number}"))).await;
    }
    (writer, reader, beside)
}

pub(super) fn admitted(core: &Core, key: &str, operation: Operation) -> Call {
    let meta = RequestMeta { authorization: Some(format!("Bearer {key}").into()), ..RequestMeta::default() };
    let Ok(call) = core.gate.admit(meta, operation) else { panic!("a key that works") };
    call
}

#[tokio::test]
async fn a_warm_list_is_one_request_and_shows_what_another_core_wrote() {
    let (writer, reader, beside) = writer_and_reader().await;
    let call = admitted(&reader, LIVE_KEY, Operation::ListTheses);
    let requests = || {
        let indexes = [&schema::INDEX_BUCKET, &schema::THESIS_INDEX, &schema::LOG_CHECKPOINT];
        let bodies = [&schema::THESIS, &schema::PROFILE, &schema::TOKEN];
        [indexes, bodies].map(|tables| tables.iter().map(|table| beside.calls(table)).sum::<usize>())
    };
    let mut seen = Vec::new();
    for _ in 0..5 {
        let before = requests();
        let shown = list(&reader, &call).await;
        assert_eq!((shown.len(), shown[0].text.as_str()), (25, "number 29"));
        let after = requests();
        seen.push([after[0] - before[0], after[1] - before[1]]);
    }
    assert_eq!(seen[0][1], 3, "theses, authors and tokens, each once");
    assert!(seen[1..].iter().all(|list| list[1] == 0), "{seen:?}");
    // A core also reads a position now and then without a request.
    assert_eq!(seen[1..].iter().map(|list| list[0]).min(), Some(1), "{seen:?}");

    let scans = || beside.scans(&schema::INDEX_BUCKET) + beside.scans(&schema::THESIS_INDEX);
    let (before, scanned) = (requests(), scans());
    observe(&writer, NOON + 1, thesis(29, "edited")).await;
    assert_eq!(list(&reader, &call).await[0].text, "edited");
    observe(&writer, NOON + 2, ObservedThing::Deletion("28".to_owned())).await;
    observe(&writer, NOON + 3, thesis(30, "new")).await;
    observe(&writer, NOON + 4, ObservedThing::Profile(Box::new(author("renamed")))).await;
    let shown = list(&reader, &call).await;
    let texts: Vec<&str> = shown.iter().take(3).map(|thesis| thesis.text.as_str()).collect();
    assert_eq!(texts, ["new", "edited", "number 27"]);
    assert!(shown.iter().all(|thesis| thesis.profile.as_ref().unwrap().handle == "@renamed"));
    assert_eq!((requests()[1], scans()), (before[1], scanned), "the log brings the rows that changed");
}

#[tokio::test(start_paused = true)]
async fn a_cold_list_of_different_authors_and_tokens_is_few_requests() {
    let clock = ManualClock::new();
    let store = SharedMemory::without_threads();
    let beside = store.beside();
    let writer = core(store, &clock, 1).await;
    for number in 0..30 {
        observe(&writer, NOON, thesis_of_its_own(number)).await;
    }
    let reader = core(beside.clone(), &clock, 2).await;
    // The reader ends the work that follows its start. No time passes during the list.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let call = admitted(&reader, LIVE_KEY, Operation::ListTheses);
    beside.count_requests("live");
    let shown = list(&reader, &call).await;
    let requests = beside.requests();
    let authors: HashSet<_> = shown.iter().map(|thesis| &thesis.profile.as_ref().unwrap().id).collect();
    let tokens: HashSet<_> = shown.iter().map(|thesis| &thesis.token.as_ref().unwrap().id).collect();
    assert_eq!((shown.len(), authors.len(), tokens.len()), (25, 25, 25));
    assert!((12..=MAX_COLD_REQUESTS).contains(&requests), "{requests} requests");
}

#[tokio::test]
async fn a_verification_reads_cached_theses_and_sees_what_another_core_wrote() {
    let (writer, reader, beside) = writer_and_reader().await;
    let call = admitted(&reader, LIVE_KEY, Operation::VerifyThesis);
    let verify = async |contains: &str| {
        let request = v1::VerifyThesisRequest {
            handle: Some("writer".to_owned()),
            token: Some("moon".to_owned()),
            created_after: Some(from_millis(NOON - 2 * HOUR_MS)),
            // Old enough to answer without the upstream.
            created_before: Some(from_millis(NOON - HOUR_MS / 2)),
            contains: Some(contains.to_owned()),
            ..v1::VerifyThesisRequest::default()
        };
        verify_thesis(&reader, &call, request).await.unwrap().verification.unwrap().reason()
    };
    assert_eq!(verify("number 29").await, Reason::Verified);
    let before = beside.calls(&schema::THESIS);
    assert_eq!(verify("number 3").await, Reason::Verified);
    observe(&writer, NOON + 1, thesis(29, "edited")).await;
    assert_eq!(verify("number 29").await, Reason::TextNotFound);
    assert_eq!(verify("edited").await, Reason::Verified);
    observe(&writer, NOON + 2, thesis(30, "new")).await;
    assert_eq!(verify("new").await, Reason::Verified);
    assert_eq!(beside.calls(&schema::THESIS), before, "the log brings the rows that changed");
}
