//! Exports of datasets, and imports on either store: ids, cursors and counts come out the same.

use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt as _, path::Path};

use core_service::domain::entry::Entry;
use serde_json::{Value, json};
use thesis_proto::v1::{ExportDatasetRequest, ImportDatasetRequest, observation::Observed};

use crate::{
    admin::{admin, refused},
    harness::{
        Client, LIVE_KEY, Receiver, SOON, Service, Store, TEST_KEY, eventually,
        ingest::{author, deletion, engagement, revision, thesis, token},
        now_ms, rows, text,
    },
};

on_stores_of_their_own![datasets_come_out_the_same, a_broken_off_import_goes_on];

/// Theses of the mixture; more than two parts of an import have entries of them.
const THESES: usize = 300;

/// Theses, edits, figures, deletions and renames on three authors and tokens.
async fn mix(service: &Service, dataset: &str) {
    let posted = now_ms() - 60_000;
    let one = |number: usize, edit: bool| {
        let by = author(&format!("user_{}", number % 3), &format!("mover{}", number % 3));
        let on = token("base", &format!("0x{:040x}", number % 3), &format!("MOVE{}", number % 3));
        // Together the long ones do not fit into one part of an import.
        let rest = if number < 90 { String::new() } else { format!(" {}far", "and ".repeat(400)) };
        let said = if edit { format!("edited {number}") } else { format!("moving thesis {number}{rest}") };
        Observed::Thesis(thesis(&format!("post_{number}"), &by, &on, &said, posted - number as i64 * 1_000))
    };
    let created = (0..THESES).map(|number| revision(1, one(number, false))).collect::<Vec<_>>();
    let edits = (0..30).map(|number| revision(2, one(number, true)));
    let figures = (30..60).map(|number| revision(3, engagement(&format!("post_{number}"), number as i64, 2)));
    let gone = (60..90).map(|number| revision(4, deletion(&format!("post_{number}"))));
    let renamed = (0..3).map(|by| revision(5, Observed::Profile(author(&format!("user_{by}"), &format!("moved{by}")))));
    for some in created.chunks(50) {
        service.ingest(dataset, some.to_vec()).await;
    }
    service.ingest(dataset, edits.chain(figures).chain(gone).collect()).await;
    service.ingest(dataset, renamed.collect()).await;
}

fn export(service: &Service, dataset: &str, to: &Path) -> Value {
    let _ = fs::remove_file(to);
    admin(service, &["export", "--dataset", dataset, "--to", to.to_str().unwrap()])
}

fn import(service: &Service, dataset: &str, from: &Path) -> Value {
    admin(service, &["import", "--dataset", dataset, "--from", from.to_str().unwrap()])
}

fn import_refused(service: &Service, dataset: &str, from: &Path, code: &str) -> String {
    let error = refused(service, &["import", "--dataset", dataset, "--from", from.to_str().unwrap()], code);
    text(&error, "message").to_owned()
}

/// How often the audit log tells of imports of a dataset, or of its exports.
fn told(service: &Service, organization: Option<&str>, action: &str, dataset: &str) -> usize {
    let mut list = vec!["audit", "list", "--limit", "1000"];
    list.extend(organization.iter().flat_map(|id| ["--organization", id]));
    let acts = admin(service, &list);
    let these = rows(&acts).iter().filter(|act| act["action"] == action && act["subject"] == dataset);
    these.inspect(|act| assert_eq!(text(act, "actor"), "operator", "{act}")).count()
}

/// The lines of an export without its header.
fn lines(of: &Path) -> String {
    let text = fs::read_to_string(of).unwrap();
    text.split_once('\n').unwrap().1.to_owned()
}

/// Waits until a dataset owes no more derived events; then its export is in the file.
async fn settled(service: &Service, dataset: &str, to: &Path) {
    eventually("derived events", SOON, async || {
        export(service, dataset, to);
        let mut owing = BTreeSet::new();
        for line in lines(to).lines() {
            let kind = serde_json::from_str::<Value>(line).unwrap()["entry"]["kind"].take();
            if let Some(token) = kind["thesis_created"]["token"]["id"].as_str() {
                owing.insert(token.to_owned());
            }
            if let Some(token) = kind["token_activity"]["token"]["id"].as_str() {
                owing.remove(token);
            }
        }
        owing.is_empty().then_some(())
    })
    .await;
}

/// An answer without what depends on the time of the question; a cursor holds where its list begins.
fn lasting(mut answer: Value) -> Value {
    if let Some(fields) = answer.as_object_mut() {
        fields.retain(|name, _| !["computed_at", "timeline", "next_cursor"].contains(&name.as_str()));
    }
    answer
}

/// Demands that two services answer alike, soon: their search indexes follow the log. Gives the first one's answer.
async fn same(one: &Client, other: &Client, path: &str) -> Value {
    eventually(&format!("the same answer to {path}"), SOON, async || {
        let (one, other) = (one.get(path).await, other.get(path).await);
        let (one, other) = (one.status == 200 && other.status == 200).then(|| (one.json(), other.json()))?;
        (lasting(one.clone()) == lasting(other)).then_some(one)
    })
    .await
}

/// The ids of the theses that a search finds; no order, since that depends on how an index was built.
async fn found(client: &Client, words: &str) -> Option<BTreeSet<String>> {
    let answer = client.search(&format!("/v1/search?q={words}&limit=25")).await;
    let found = (answer.status == 200).then(|| answer.json())?["theses"].take();
    let found: BTreeSet<String> = found.as_array()?.iter().map(|row| text(row, "id").to_owned()).collect();
    (!found.is_empty()).then_some(found)
}

/// Demands that all that a key sees of a moved dataset is as it was.
async fn compare(source: &Client, target: &Client, of_token: &str, words: &str) {
    for list in ["/v1/theses?limit=100", "/v1/events?limit=100", "/v1/theses?sort=likes_desc&limit=50"] {
        same(source, target, list).await;
    }
    for operation in ["", "/activity", "/thesis-velocity"] {
        same(source, target, &format!("/v1/tokens/{of_token}{operation}")).await;
    }
    eventually("the same hits", SOON, async || {
        (found(source, words).await? == found(target, words).await?).then_some(())
    })
    .await;
    let theses = same(source, target, "/v1/theses?limit=7").await;
    for row in theses["data"].as_array().unwrap() {
        same(source, target, &format!("/v1/theses/{}", text(row, "id"))).await;
    }
    let events = same(source, target, "/v1/events?limit=7").await;
    for row in events["data"].as_array().unwrap() {
        same(source, target, &format!("/v1/events/{}", text(row, "id"))).await;
    }
    // A cursor of the source goes on at the target, unless it has a position in the log: later entries have others there.
    let after = |page: &Value, list: &str| format!("/v1/{list}?limit=7&cursor={}", text(page, "next_cursor"));
    same(source, target, &after(&theses, "theses")).await;
    target.get(&after(&events, "events")).await.error(400, "INVALID_CURSOR");
}

async fn datasets_come_out_the_same(from: Store) {
    let source = Service::on(&from, |setup| setup).await;
    let files = tempfile::tempdir().unwrap();
    let (file, again) = (files.path().join("live.jsonl"), files.path().join("again.jsonl"));
    let live = source.client(LIVE_KEY);
    let mut before = live.stream("").await;
    let stood_at = before.first_cursor().await;
    mix(&source, "live").await;
    settled(&source, "live", &file).await;
    let half = before.take(20).await.last().unwrap().cursor().to_owned();
    // It is for its owner alone, and nothing is left beside it.
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(files.path()).unwrap().count(), 1);
    let exported = told(&source, None, "dataset.export_begun", "live");
    export(&source, "live", &file);
    assert_eq!(told(&source, None, "dataset.export_begun", "live"), exported + 1);

    let stores = [Some(Store::Embedded), Store::cluster()];
    for to in stores.into_iter().flatten() {
        let target = Service::on(&to, |setup| setup.set("SVC_SANDBOX_FIXTURES", "false")).await;
        let moved = target.client(LIVE_KEY);
        let beginning = moved.stream("").await.first_cursor().await;
        let made = import(&target, "live", &file);
        assert_eq!((&made["imported"], &made["entries"]), (&made["entries"], &json!(lines(&file).lines().count() - 1)));
        export(&target, "live", &again);
        assert!(lines(&again) == lines(&file), "an export of an import differs");
        compare(&live, &moved, &format!("base:0x{:040x}", 1), "123").await;
        let (mut one, mut other) = (live.resume("", &stood_at).await, moved.resume("", &beginning).await);
        let (one, other) = (one.take(50).await, other.take(50).await);
        assert!(one.iter().map(|frame| &frame.raw).eq(other.iter().map(|frame| &frame.raw)));
        for cursor in [&stood_at, &half] {
            moved.get(&format!("/v1/events/stream?from_cursor={cursor}")).await.error(400, "INVALID_CURSOR");
        }
        // What the upstream brings again is known; what is new goes on after the last entry.
        let repeated = target.ingest("live", vec![revision(4, deletion("post_60"))]).await;
        assert!(!repeated[0].applied, "{repeated:?}");
        let new = thesis("post_new", &author("user_0", "moved0"), &token("base", "0xnew", "NEW"), "new", now_ms());
        target.post("live", new).await;
        let log = target.check_log("live").await;
        assert_eq!((log.gaps, log.duplicates), (0, 0));
        // The same file changes nothing more, another one is refused.
        assert_eq!(import(&target, "live", &file)["imported"], 0);
        let more = format!("post_{}", now_ms());
        source.post("live", thesis(&more, &author("u", "u"), &token("base", "0xu", "U"), "u", now_ms())).await;
        export(&source, "live", &again);
        let why = import_refused(&target, "live", &again, "VALIDATION_FAILED");
        assert!(why.contains("must have no entries"), "{why}");
        assert_eq!(told(&target, None, "dataset.import_begun", "live"), 2);
        projects_and_the_sandbox(&source, &target, files.path()).await;
        settled(&source, "live", &file).await;
    }
}

/// A project's own data, and the sandbox that it refers to.
async fn projects_and_the_sandbox(source: &Service, target: &Service, files: &Path) {
    let (sandbox, own) = (files.join("sandbox.jsonl"), files.join("own.jsonl"));
    let client = source.client(TEST_KEY);
    let default = text(&client.get("/v1/me").await.ok(200)["project"], "id").to_owned();
    let dataset = format!("project/{default}");
    // A webhook that is older than the events hears of none of them when they are imported.
    let (mine, receiver) = (target.client(TEST_KEY), Receiver::start().await);
    let webhook = mine.webhook(&receiver.url, &["thesis.created"]).await;
    let known = client.thesis("own", "TOOK", "moving other one").await.0;
    for number in 0..9 {
        client.thesis("sbx_runner", "TOOK", &format!("moving own {number}")).await;
        client.thesis("own", "RUN", &format!("moving other {number}")).await;
    }
    settled(source, "sandbox", &sandbox).await;
    settled(source, &dataset, &own).await;
    // A file of another kind of dataset is refused by its header.
    let why = import_refused(target, &dataset, &sandbox, "INVALID_REQUEST");
    assert!(why.contains("line 1: `dataset` is \"sandbox\""), "{why}");
    assert_eq!(target.check_log(&dataset).await.head, 0);
    import(target, "sandbox", &sandbox);
    import(target, &dataset, &own);
    compare(&client, &mine, "TOOK", "other").await;
    let event = mine.thesis("own", "TOOK", "after").await.1;
    receiver.delivery_of(&event).await;
    assert_eq!(mine.all(&format!("/v1/webhooks/{}/deliveries", text(&webhook, "id"))).await.len(), 1);
    // A project of another installation has another id.
    let fresh = target.project().await;
    import(target, &fresh.dataset(), &own);
    assert_eq!(told(target, None, "dataset.import_begun", &fresh.dataset()), 0);
    assert_eq!(told(target, Some(&fresh.organization.id), "dataset.import_begun", &fresh.dataset()), 1);
    let moved = fresh.test().await;
    let (made, event) = moved.thesis("own", "TOOK", "goes on").await;
    assert_eq!(made["profile"]["id"], known["profile"]["id"]);
    assert_eq!(moved.get(&format!("/v1/events/{}", text(&event, "id"))).await.status, 200);
    let counted = moved.get("/v1/tokens/TOOK").await.ok(200);
    let before = client.get("/v1/tokens/TOOK").await.ok(200)["thesis_count"].as_i64().unwrap();
    assert_eq!(counted["thesis_count"], before + 1);
}

async fn a_broken_off_import_goes_on(to: Store) {
    let source = Service::embedded(|setup| setup);
    let files = tempfile::tempdir().unwrap();
    let (file, again) = (files.path().join("live.jsonl"), files.path().join("again.jsonl"));
    mix(&source, "live").await;
    settled(&source, "live", &file).await;
    let whole = lines(&file);
    let sum = serde_json::from_str::<Value>(whole.lines().last().unwrap()).unwrap();
    let sum = text(&sum, "sha256");

    let mut target = Service::on(&to, |setup| setup).await;
    // A file with a fault changes nothing.
    let damaged = fs::read_to_string(&file).unwrap().replacen("moving thesis 7\"", "moving thesis 8\"", 1);
    fs::write(&again, damaged).unwrap();
    let why = import_refused(&target, "live", &again, "INVALID_REQUEST");
    assert!(why.contains("the file was changed or damaged"), "{why}");
    let unnamed = refused(&target, &["import", "--dataset", "live"], "INVALID_REQUEST");
    assert!(text(&unnamed, "message").contains("--from"), "{unnamed}");
    assert_eq!(target.check_log("live").await.head, 0);
    assert_eq!(told(&target, None, "dataset.import_begun", "live"), 0);

    // The first entries, as the command sends them; then the core is killed.
    let request = ExportDatasetRequest { dataset: "live".to_owned() };
    let mut parts = source.admin().export_dataset(request).await.unwrap().into_inner();
    let head = parts.message().await.unwrap().unwrap().head;
    let mut entries = parts.message().await.unwrap().unwrap().entries;
    entries.truncate(100);
    let part = |after, entries: &[_]| ImportDatasetRequest {
        dataset: "live".to_owned(),
        head,
        sha256: hex::decode(sum).unwrap().into(),
        after,
        entries: entries.to_vec(),
    };
    let late = target.admin().import_dataset(part(50, &entries[50..])).await.unwrap_err();
    assert!(late.message().contains("lacks the entries before these"), "{late:?}");
    for after in [u64::MAX - 1, u64::MAX] {
        let beyond = ImportDatasetRequest { head: u64::MAX, ..part(after, &entries[..1]) };
        let refused = target.admin().import_dataset(beyond).await.unwrap_err();
        assert!(refused.message().contains("the number of entries of the whole import"), "{refused:?}");
    }
    for _ in 0..2 {
        let told = target.admin().import_dataset(part(0, &entries)).await.unwrap().into_inner();
        assert_eq!(told.head, 100);
    }
    target.kill_and_start(0).await;
    target.is_ready().await;
    let mut changed = entries.clone();
    let mut first = Entry::read_whole(1, &changed[0]).unwrap();
    first.created_at += 1;
    changed[0] = first.stored(1).into();
    let other = eventually("an answer", SOON, async || {
        let refused = target.admin().import_dataset(part(0, &changed)).await.unwrap_err();
        (refused.code() == tonic::Code::InvalidArgument).then_some(refused)
    });
    assert!(other.await.message().contains("other entries at these places"));

    // Half of it is no dataset: nothing else enters, and nobody exports it.
    let new = thesis("post_new", &author("u", "u"), &token("base", "0xnew", "NEW"), "new", now_ms());
    let new = revision(1, Observed::Thesis(new));
    assert!(target.try_ingest("live", vec![new.clone()]).await.is_err());
    let error = refused(&target, &["export", "--dataset", "live"], "VALIDATION_FAILED");
    assert!(text(&error, "message").contains("is being imported"), "{error}");
    assert_eq!(target.check_log("live").await.head, 100);

    // Going on with it is one act more, however many parts it has.
    let begun = told(&target, None, "dataset.import_begun", "live");
    assert_eq!(import(&target, "live", &file)["imported"], json!(head - 100));
    assert_eq!(told(&target, None, "dataset.import_begun", "live"), begun + 1);
    export(&target, "live", &again);
    assert!(lines(&again) == whole, "an export of an import differs");
    assert!(target.ingest("live", vec![new]).await[0].applied);
}
