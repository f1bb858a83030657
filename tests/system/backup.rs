//! Backups while the service runs, and restored copies of it.

mod broken;
mod cursors;
mod encrypted;
mod refused;
mod trees;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;

use crate::{
    admin::admin,
    harness::{
        Client, LIVE_KEY, Ledger, Receiver, SERVICE_TOKEN, SOON, Service, Setup, assert_fields, eventually, ids,
        now_ms, rows, text, time,
    },
};

const WRITERS: usize = 4;
/// Theses before, while and after the backup is made.
const SOME: usize = 60;
const THESES: &str = "/v1/theses?handle=survivor&limit=100";
const CREATED: &str = "/v1/events?types=thesis.created&handle=survivor&limit=100";

/// Writes until told to stop.
async fn write(client: Client, name: usize, ledger: Arc<Ledger>, stop: Arc<AtomicBool>) {
    for number in 0.. {
        if stop.load(Relaxed) {
            return;
        }
        let said = format!("writer {name} says {number}");
        let made = client.post("/v1/test/theses", &Ledger::request(&said)).await.ok(201);
        ledger.acknowledge(&said, &made);
    }
}

/// Checks what the command told of its file.
fn check_told(file: &Path, told: &Value) {
    assert_fields(told, &["object", "file", "bytes", "rows", "tables", "created_at", "sha256"]);
    let bytes = fs::read(file).unwrap();
    assert_eq!((&told["object"], told["bytes"].as_u64()), (&"backup".into(), Some(bytes.len() as u64)));
    assert_eq!(text(told, "sha256"), hex::encode(Sha256::digest(&bytes)));
    assert_eq!(Path::new(text(told, "file")), fs::canonicalize(file).unwrap());
    assert!(told["rows"].as_u64() > Some(1_000) && told["tables"].as_u64() > Some(10), "{told}");
    assert!((now_ms() - time(told, "created_at")).abs() < 60_000);
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!file.with_extension("backup.partial").exists());
}

#[tokio::test]
async fn a_backup_under_writes_becomes_a_whole_service() {
    let mut service = Service::embedded(|setup| setup);
    let receiver = Receiver::start().await;
    let project = service.project_on("huge").await;
    let client = project.test().await;
    let webhook = client.webhook(&receiver.url, &["thesis.created"]).await;
    let (ledger, stop) = (Arc::<Ledger>::default(), Arc::<AtomicBool>::default());
    let mut writers = JoinSet::new();
    for name in 0..WRITERS {
        writers.spawn(write(client.clone(), name, Arc::clone(&ledger), Arc::clone(&stop)));
    }
    let written = async |wanted: usize| {
        eventually("acknowledgements", SOON, async || (ledger.len() >= wanted).then_some(())).await;
    };
    written(SOME).await;
    let before = ledger.len();
    let (file, told) = service.save("service.backup").await;
    check_told(&file, &told);
    written(ledger.len() + SOME).await;
    stop.store(true, Relaxed);
    writers.join_all().await;
    let events = ledger.judge(&service, &project, &client).await;
    ledger.delivered(&receiver, &events, SOON).await;
    let (theses, webhooks) = (client.all(THESES).await, client.all("/v1/webhooks").await);

    let copy = service.restore(&file, "copy").await;
    service.go_on_in(&copy).await;
    // The copy is the service at one moment: the first of the events, and the theses of these.
    let client = client.anew();
    let mut kept: Vec<String> = client.all(CREATED).await.iter().map(|event| text(event, "id").to_owned()).collect();
    kept.reverse();
    let count = kept.len();
    println!("{before} theses before the backup, {count} in it, {} at the end", events.len());
    assert!(count >= before && count < events.len());
    assert_eq!(kept, events[..count]);
    let copied = client.all(THESES).await;
    assert_eq!(copied.len(), count);
    assert!(copied.iter().all(|thesis| theses.contains(thesis)));
    for dataset in ["live", "sandbox", project.dataset().as_str(), "control"] {
        let log = service.check_log(dataset).await;
        assert_eq!((log.gaps, log.duplicates, log.entries), (0, 0, log.head), "{dataset}: {log:?}");
    }
    // Counts, search, and streams.
    let token = client.get(&format!("/v1/tokens/{}", text(&copied[0]["token"], "id"))).await.ok(200);
    assert_eq!(token["thesis_count"].as_u64(), Some(count as u64), "{token}");
    let phrase = text(&copied[0], "text").replace(' ', "%20");
    let found = client.search(&format!("/v1/search?q=%22{phrase}%22&types=theses")).await.ok(200);
    assert!(found.to_string().contains(text(&copied[0], "id")), "{found}");
    let mut stream = client.stream("?types=thesis.created&handle=survivor").await;
    // The audit log tells of the backup in the copy too.
    let acts = admin(&service, &["audit", "list", "--limit", "100"]);
    let begun: Vec<_> = rows(&acts).iter().filter(|act| act["action"] == "store.backup_begun").collect();
    assert_eq!((begun.len(), text(begun[0], "actor"), text(begun[0], "subject")), (1, "operator", "store"), "{acts}");
    // Keys, webhooks with their secrets, and deliveries.
    service.client(LIVE_KEY).get("/v1/me").await.ok(200);
    assert_eq!(client.all("/v1/webhooks").await, webhooks);
    let log = format!("/v1/webhooks/{}/deliveries?limit=100", text(&webhook, "id"));
    let deliveries = eventually("every delivery", SOON, async || {
        let all = client.all(&log).await;
        (all.len() == count && all.iter().all(|row| row["status"] == "delivered")).then_some(all)
    });
    let deliveries = deliveries.await;
    let mut delivered: Vec<&str> = deliveries.iter().map(|row| text(row, "event_id")).collect();
    delivered.sort_unstable();
    delivered.dedup();
    assert_eq!(delivered.len(), count);
    // It goes on as any service.
    let (thesis, event) = client.thesis("survivor", "CRASH", "written to the copy").await;
    assert_eq!(text(&stream.next().await.data, "id"), text(&event, "id"));
    receiver.delivery_of(&event).await.verify(text(&webhook, "secret"));
    assert_eq!(ids(&client.all(THESES).await)[0], text(&thesis, "id"));
}

#[tokio::test]
async fn a_core_alone_is_saved_and_a_copy_wants_its_own_secret_key() {
    let mut service = Service::embedded(|setup| setup.role("core"));
    let (file, _) = service.save("core.backup").await;
    let copy = service.restore(&file, "copy").await;
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o700);
    let listed = fs::read_dir(&copy).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut listed: Vec<String> = listed.collect();
    listed.sort_unstable();
    assert_eq!(listed, ["store", "store.lock"]);
    let dir = service.dir.path().to_owned();
    let on = |copy: &Path| Setup::new(&dir).set("SVC_DATA_DIR", copy.to_str().unwrap());
    // Without a key, and with another one.
    let refused = |setup: Setup| {
        let (code, _, error) = setup.run();
        assert_eq!(code, Some(1), "{error}");
        assert!(error.contains("SVC_SECRET_KEY: ") && error.lines().count() == 1, "{error}");
        error
    };
    refused(on(&copy));
    let other = "b3RoZXItc2VjcmV0LWtleS1vdGhlci1zZWNyZXQta2U=";
    let error = refused(on(&copy).set("SVC_SECRET_KEY", other));
    assert!(error.contains("made with another secret key") && !error.contains(other), "{error}");
    service.go_on_in(&copy).await;
    assert_eq!(service.check_log("sandbox").await.gaps, 0);
    service.end(0, "TERM").await;
    // Whoever has lost it may say so.
    let replaced = on(&copy).set("SVC_SERVICE_TOKEN", SERVICE_TOKEN).set("SVC_SECRET_KEY", other);
    let mut process = replaced.clone().set("SVC_REPLACE_SECRET_KEY", "true").start();
    let client = Client::new(&process.address("http"), Some(LIVE_KEY));
    client.get("/v1/me").await.error(401, "INVALID_API_KEY");
    process.signal("TERM");
    process.exit(SOON).await;
    assert!(process.log().contains("goes on with another secret key"), "{}", process.log());
    drop(replaced.start());
    // Without any key a new one is made, and kept.
    let alone = on(&copy).set("SVC_SERVICE_TOKEN", SERVICE_TOKEN);
    assert!(refused(alone.clone()).contains("SVC_REPLACE_SECRET_KEY=true"));
    drop(alone.clone().set("SVC_REPLACE_SECRET_KEY", "true").start());
    drop(alone.start());
}

/// A service with enough data that a backup is not over before it is looked at.
async fn large() -> Service {
    let service = Service::embedded(|setup| setup);
    let client = service.project_on("huge").await.test().await;
    let mut writers = JoinSet::new();
    for writer in 0..8_u64 {
        let client = client.clone();
        writers.spawn(async move {
            for number in 0..130_u64 {
                // Hardly to be packed.
                let word = |n: u64| hex::encode(Sha256::digest([writer, number, n].map(u64::to_be_bytes).concat()));
                let said = (0..12).map(word).collect::<Vec<_>>().join(" ");
                client.thesis("packrat", "LARGE", &said).await;
            }
        });
    }
    tokio::time::timeout(Duration::from_secs(60), writers.join_all()).await.unwrap();
    service
}
