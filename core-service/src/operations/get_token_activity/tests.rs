use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::*;
use crate::{
    access::gate::RequestMeta,
    domain::{
        dataset::View,
        observation::{Observation, ObservedProfile, ObservedThesis, ObservedThing, ObservedToken},
        operation::Operation,
        window::MINUTE_MS,
    },
    operations::list_theses::list_theses,
    store::schema,
    tables::theses::thesis_change,
    tests::harness::{LIVE_KEY, ManualClock, NOON, SharedMemory, core, memory},
};

async fn post(core: &Core, number: i64) {
    post_on(core, ("moon", "0xA1"), number).await;
}

/// Posts a thesis on a token with this symbol and address. Each one is a minute older than the one of the number before.
async fn post_on(core: &Core, (symbol, address): (&str, &str), number: i64) {
    let profile =
        ObservedProfile { upstream_id: "u".to_owned(), handle: "writer".to_owned(), ..ObservedProfile::default() };
    let token = ObservedToken {
        chain: "base".to_owned(),
        address: address.to_owned(),
        symbol: symbol.to_owned(),
        ..ObservedToken::default()
    };
    let created_at = NOON - number * MINUTE_MS;
    let thesis = ObservedThesis {
        upstream_id: number.to_string(),
        profile,
        token,
        text: format!("number {number}"),
        likes: None,
        replies: None,
        created_at,
        updated_at: created_at,
    };
    let observation = Observation { observed_at: NOON, revision: None, seen: ObservedThing::Thesis(Box::new(thesis)) };
    core.datasets.observe_here(&Dataset::Live, observation).await.unwrap();
}

fn admit(core: &Core) -> Call {
    let meta = RequestMeta { authorization: Some(format!("Bearer {LIVE_KEY}").into()), ..RequestMeta::default() };
    let Ok(call) = core.gate.admit(meta, Operation::GetTokenActivity) else { panic!("a key that works") };
    call
}

fn texts(theses: &[v1::Thesis]) -> Vec<&str> {
    theses.iter().map(|thesis| thesis.text.as_str()).collect()
}

#[tokio::test]
async fn what_is_deleted_between_two_reads_is_not_shown() {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 1).await;
    for number in 0..8 {
        post(&core, number).await;
    }
    // The index names them, and then their rows change. A reader that comes between the two writes sees the same.
    let id = |number: i64| crate::domain::id::of_thesis("live", &number.to_string());
    for number in [0, 1, 3, 4] {
        let (_, thesis) = core.shared.theses.thesis(&View::live(), &id(number)).await.unwrap().unwrap();
        let mut gone = Thesis::clone(&thesis);
        if number == 3 {
            gone.profile_id.clear();
        } else {
            gone.deleted_at = Some(NOON);
        }
        core.shared.theses.apply(vec![thesis_change("live", &gone, i64::MAX)]).await.unwrap();
    }
    let call = admit(&core);
    // A list that is too short is filled up from the index.
    for (recent, shown) in [
        (1, &["number 2"][..]),
        (3, &["number 2", "number 5", "number 6"]),
        (4, &["number 2", "number 5", "number 6", "number 7"]),
        (50, &["number 2", "number 5", "number 6", "number 7"]),
    ] {
        // The theses of an earlier time are filled up from memory, and then from the index.
        for as_of in [None, Some(from_millis(NOON))] {
            let (r#ref, recent) = ("moon".to_owned(), Some(recent));
            let request = v1::GetTokenActivityRequest { r#ref, recent, as_of, chain: None };
            let activity = get_token_activity(&core, &call, request).await.unwrap().activity.unwrap();
            assert_eq!(texts(&activity.recent_theses), shown, "{as_of:?}");
        }
    }
    let request = v1::ListThesesRequest { limit: Some(5), ..v1::ListThesesRequest::default() };
    let page = list_theses(&core, &call, request.clone()).await.unwrap();
    assert_eq!(texts(&page.data), ["number 2"]);
    let next = v1::ListThesesRequest { cursor: page.next_cursor, ..request };
    let rest = list_theses(&core, &call, next).await.unwrap();
    assert_eq!(texts(&rest.data), ["number 5", "number 6", "number 7"]);
}

#[tokio::test]
async fn activity_of_further_times_reads_no_theses_and_no_entries_again() {
    let clock = ManualClock::new();
    let store = SharedMemory::new(&clock);
    let core = core(store.clone(), &clock, 1).await;
    for number in 0..8 {
        post(&core, number).await;
    }
    clock.advance(1_000);
    let call = admit(&core);
    let read = async |at: i64| {
        let (r#ref, as_of) = ("moon".to_owned(), Some(from_millis(at)));
        let request = v1::GetTokenActivityRequest { r#ref, recent: Some(3), as_of, chain: None };
        get_token_activity(&core, &call, request).await.unwrap().activity.unwrap()
    };
    let first = read(NOON + 900).await;
    // The core's other work would count too.
    core.stop.cancel();
    core.tasks.close();
    timeout(Duration::from_secs(10), core.tasks.wait()).await.unwrap();
    let reads = || (store.scans(&schema::THESIS_INDEX), store.calls(&schema::EVENT_LOG));
    let before = reads();
    for at in (NOON..NOON + 900).step_by(100) {
        let next = read(at).await;
        assert_eq!((next.thesis_count_24h, next.unique_authors_24h), (8, 1), "{at}");
        assert_eq!(texts(&next.recent_theses), ["number 0", "number 1", "number 2"], "{at}");
        assert_eq!(next.recent_theses, first.recent_theses, "{at}");
    }
    assert_eq!(reads(), before);
}

#[tokio::test(start_paused = true)]
async fn a_post_at_another_core_makes_only_the_hours_of_its_time_old() {
    let clock = ManualClock::new();
    let store = SharedMemory::without_threads();
    let beside = store.beside();
    let writer = core(store, &clock, 1).await;
    for number in 0..8 {
        post(&writer, number).await;
    }
    // An entry with a later time closes the time before it.
    clock.advance(1_000);
    post(&writer, 8).await;
    let reader = core(beside.clone(), &clock, 2).await;
    // Both finish their work beside requests. No time passes during the reads.
    sleep(Duration::from_secs(10)).await;
    // The theses of the last day at a time, with the scans of indexes and the reads of totals that this takes.
    let count = async |at: i64| {
        let reads = || [beside.scans(&schema::THESIS_INDEX), beside.calls(&schema::TOKEN_TOTALS)];
        let (r#ref, as_of) = ("moon".to_owned(), Some(from_millis(at)));
        let request = v1::GetTokenActivityRequest { r#ref, recent: Some(3), as_of, chain: None };
        let (call, before) = (admit(&reader), reads());
        let activity = get_token_activity(&reader, &call, request).await.unwrap().activity.unwrap();
        let after = reads();
        (activity.thesis_count_24h, [after[0] - before[0], after[1] - before[1]])
    };
    // A day has parts of five blocks. Each block is in two lists.
    assert_eq!(count(NOON + 900).await, (8, [10, 0]));
    assert_eq!(count(NOON + 900).await, (8, [0, 0]));
    // A thesis of the same block as the last one.
    clock.advance(1_000);
    post(&writer, 9).await;
    assert_eq!(count(NOON + 1_900).await, (9, [2, 0]));
    assert_eq!(count(NOON + 1_900).await, (9, [0, 0]));
    // The cache does not apply that many entries at once. The totals of the token show that none of them is about it.
    for number in 10..30 {
        post_on(&writer, ("mars", "0xB2"), number).await;
    }
    assert_eq!(count(NOON + 1_900).await, (9, [0, 1]));
    assert_eq!(count(NOON + 1_900).await, (9, [0, 0]));
}
