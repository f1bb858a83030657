//! The page's texts, and its reads of core.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use thesis_proto::v1;
use tokio::time::advance;
use tonic::Status;

use super::*;
use crate::tests::fake::{FakeCore, event, reply};

fn reads(core: &FakeCore) -> usize {
    core.seen.lock().iter().filter(|call| call.operation == "StreamService/ReadSandbox").count()
}

#[tokio::test(start_paused = true)]
async fn visitors_share_one_read_a_second() {
    let core = FakeCore::new(|_, _| reply(v1::ReadSandboxResponse { events: vec![event(7)] }));
    let (services, sandbox) = (core.services(), SandboxEvents::default());
    let rows = join_all((0..50).map(|_| sandbox.rows(&services))).await;
    assert!(rows.iter().all(|rows| rows.contains("data-id=\"evt_7\"")), "{rows:?}");
    assert_eq!(reads(&core), 1);
    advance(Duration::from_millis(1_100)).await;
    sandbox.rows(&services).await;
    assert_eq!(reads(&core), 2);
}

#[tokio::test(start_paused = true)]
async fn without_core_the_last_rows_stay() {
    let is_away = Arc::new(AtomicBool::new(false));
    let away = Arc::clone(&is_away);
    let core = FakeCore::new(move |_, _| {
        if away.load(Ordering::SeqCst) {
            return Err(Status::unavailable("away"));
        }
        reply(v1::ReadSandboxResponse { events: vec![event(7)] })
    });
    let (services, sandbox) = (core.services(), SandboxEvents::default());
    let first = sandbox.rows(&services).await;
    is_away.store(true, Ordering::SeqCst);
    advance(Duration::from_millis(1_100)).await;
    assert_eq!(sandbox.rows(&services).await, first);
    assert_eq!(reads(&core), 2);
    // A page that has never had rows says so.
    assert!(SandboxEvents::default().rows(&services).await.contains("no events"));
}

#[test]
fn texts_of_events_are_escaped() {
    let mut hostile = event(7);
    hostile.id = "\"><script>".to_owned();
    let rows = sandbox::rows_of(&[hostile]);
    assert!(!rows.contains("<script>") && rows.contains("script&#62;"), "{rows}");
}

#[test]
fn examples_are_whole() {
    let examples = Examples::new("https://data.test");
    // Without the colours of its tokens.
    let json = |html: &str| {
        let parts = html.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
        parts.collect::<String>()
    };
    let delivery = json(&examples.delivery);
    for text in [&json(&examples.question), &json(&examples.answer), &delivery] {
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        assert!(value.is_object() && !text.contains("{{"), "{text}");
    }
    // The fields keep the order of the file.
    assert!(delivery.starts_with("{\n  \"object\": \"event\",\n  \"id\": \"evt_"), "{delivery}");
    assert!(examples.event_id.starts_with("evt_"));
    assert!(
        examples.stream.contains("event: thesis.created") && !examples.stream.contains("gap"),
        "{}",
        examples.stream
    );
}

#[test]
fn every_guarantee_names_tests_that_exist() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for guarantee in GUARANTEES {
        assert!(!guarantee.tests.is_empty(), "{}", guarantee.promise);
        for test in guarantee.tests {
            assert!(repository.join(test).is_file(), "{test}");
        }
    }
}
