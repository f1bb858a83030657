//! The archive: files of a day, their downloads and receipts.

use std::time::Duration;

use reqwest::{Method, Response, StatusCode};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use thesis_proto::v1::{self, Environment, archive_service_client::ArchiveServiceClient};
use thesis_receipts::{Document, Subject};
use tonic::transport::Endpoint;

use crate::{
    admin::{admin, refused},
    harness::{ALL_SCOPES, Answer, Client, SOON, Service, eventually, iso, now_ms, rows, text},
};

on_both_stores![
    a_day_is_built_listed_and_downloaded,
    a_part_of_a_file_is_downloaded,
    the_hash_of_a_file_has_a_receipt,
    what_is_not_there_is_named,
    grpc_has_the_same_bytes,
];

const DAY_MS: i64 = 86_400_000;
/// A day may get entries until this long after its end, and has no files before.
const SETTLE_MS: i64 = 300_000;
/// The files of a missed day come by themselves within this time.
const WITHIN_A_FEW_ROUNDS: Duration = Duration::from_secs(200);

/// The date some days before the first that cannot have files yet. The sandbox has theses of each of the last seven.
fn days_ago(days: i64) -> String {
    iso(now_ms() - SETTLE_MS - days * DAY_MS)[..10].to_owned()
}

/// Builds a day of the sandbox. Returns its files.
fn build(service: &Service, date: &str) -> Vec<Value> {
    rows(&admin(service, &["archive", "build", "--date", date, "--dataset", "sandbox"])).to_vec()
}

async fn download(client: &Client, path: &str, headers: &[(&str, &str)]) -> Response {
    let mut request = client.request(Method::GET, path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.send().await.unwrap()
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

fn path(date: &str, kind: &str) -> String {
    format!("/v1/archive/{date}/{kind}.parquet")
}

async fn a_day_is_built_listed_and_downloaded(service: &Service) {
    let (client, date) = (service.test_client().await, days_ago(2));
    let built = build(service, &date);
    assert_eq!(built.len(), 4, "{built:?}");
    let again = build(service, &date);
    assert_eq!(again, built, "the same bytes");
    let listed = client.get(&format!("/v1/archive?from={date}&to={date}")).await.ok(200);
    assert_eq!(rows(&listed).len(), 4);
    for file in rows(&listed) {
        let kind = text(file, "kind");
        let known = built.iter().find(|built| text(built, "kind") == kind).unwrap();
        assert_eq!(
            [&file["rows"], &file["bytes"], &file["sha256"]],
            [&known["rows"], &known["bytes"], &known["sha256"]]
        );
        assert!(text(file, "url").ends_with(&path(&date, kind)), "{file}");
        let response = download(&client, &path(&date, kind), &[]).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(header(&response, "content-type"), "application/vnd.apache.parquet");
        assert_eq!(header(&response, "etag"), format!("\"{}\"", text(file, "sha256")));
        let bytes = response.bytes().await.unwrap();
        assert_eq!((bytes.len() as u64, &bytes[..4]), (file["bytes"].as_u64().unwrap(), b"PAR1".as_slice()));
        assert_eq!(hex::encode(Sha256::digest(&bytes)), text(file, "sha256"));
    }
    // The rows are those of the API. The sandbox loses no theses of that day while the test runs.
    let theses = format!("/v1/theses?created_after={date}T00:00:00Z&created_before={date}T23:59:59.999Z&limit=100");
    let of_sandbox = client.all(&theses).await.len() as u64;
    let file = rows(&listed).iter().find(|file| text(file, "kind") == "theses").unwrap();
    assert_eq!(file["rows"].as_u64(), Some(of_sandbox));
    let pages = client.all(&format!("/v1/archive?from={date}&to={date}&limit=1")).await;
    assert_eq!(&pages, rows(&listed));
    let one = client.get(&format!("/v1/archive?from={date}&to={date}&kind=events")).await.ok(200);
    assert_eq!(rows(&one).iter().map(|file| text(file, "kind")).collect::<Vec<_>>(), ["events"]);
    assert!(rows(&admin(service, &["archive", "list"])).iter().any(|file| text(file, "date") == date));
}

async fn a_part_of_a_file_is_downloaded(service: &Service) {
    let (client, date) = (service.test_client().await, days_ago(3));
    build(service, &date);
    let path = path(&date, "theses");
    let whole = download(&client, &path, &[]).await;
    let tag = header(&whole, "etag").to_owned();
    assert_eq!(header(&whole, "accept-ranges"), "bytes");
    let whole = whole.bytes().await.unwrap();
    let size = whole.len();
    for (range, from, to) in [
        ("bytes=0-3".to_owned(), 0, 4),
        ("bytes=4-".to_owned(), 4, size),
        ("bytes=-4".to_owned(), size - 4, size),
        (format!("bytes=1-{}", 10 * size), 1, size),
    ] {
        let part = download(&client, &path, &[("range", &range), ("if-range", &tag)]).await;
        assert_eq!(part.status(), StatusCode::PARTIAL_CONTENT, "{range}");
        assert_eq!(header(&part, "content-range"), format!("bytes {from}-{}/{size}", to - 1));
        assert_eq!(part.bytes().await.unwrap(), whole.slice(from..to), "{range}");
    }
    for headers in [
        [("range", "bytes=0-3"), ("if-range", "\"another\"")],
        [("range", "bytes=0-1,3-4"), ("if-range", &*tag)],
        [("range", "lines=0-1"), ("if-range", &*tag)],
    ] {
        let response = download(&client, &path, &headers).await;
        assert_eq!(response.status(), StatusCode::OK, "{headers:?}");
        assert_eq!(response.bytes().await.unwrap(), whole);
    }
    // Readers that want a few columns request the size first. An encoded answer would have other offsets.
    let head = client.request(Method::HEAD, &path).header("accept-encoding", "gzip").send().await.unwrap();
    assert_eq!((head.status(), header(&head, "content-length")), (StatusCode::OK, &*size.to_string()));
    assert_eq!((header(&head, "accept-ranges"), header(&head, "content-encoding")), ("bytes", ""));
    let known = download(&client, &path, &[("if-none-match", &tag)]).await;
    assert_eq!((known.status(), header(&known, "etag")), (StatusCode::NOT_MODIFIED, &*tag));
    assert!(known.bytes().await.unwrap().is_empty());
    let range = format!("bytes={size}-");
    let beyond = client.send(client.request(Method::GET, &path).header("range", &range)).await;
    let error = beyond.error(416, "RANGE_NOT_SATISFIABLE");
    assert_eq!(
        (&error["details"]["bytes"], beyond.header("content-range")),
        (&size.into(), &*format!("bytes */{size}"))
    );
}

async fn the_hash_of_a_file_has_a_receipt(service: &Service) {
    let (client, date) = (service.test_client().await, days_ago(4));
    let built = build(service, &date);
    let receipt = eventually("the log is signed", SOON, async || {
        let answer = client.get(&format!("/v1/archive/{date}/theses/receipt")).await;
        (answer.status != 409).then(|| answer.ok(200))
    })
    .await;
    let proven = Document::parse(receipt.to_string().as_bytes()).unwrap().verify(&[], &[]).unwrap();
    let Subject::Archived { entry, .. } = &proven.subject else { panic!("{proven:?}") };
    let theses = built.iter().find(|file| text(file, "kind") == "theses").unwrap();
    assert_eq!((&*entry.date, &*entry.kind, &*entry.sha256), (&*date, "theses", text(theses, "sha256")));
    let numbers = [entry.position, entry.rows, entry.bytes].map(Some);
    assert_eq!(numbers, ["position", "rows", "bytes"].map(|name| theses[name].as_u64()));
    let mut other = receipt.clone();
    other["kind"] = "events".into();
    assert!(Document::parse(other.to_string().as_bytes()).unwrap().verify(&[], &[]).is_err());
}

async fn what_is_not_there_is_named(service: &Service) {
    let (client, date) = (service.test_client().await, days_ago(5));
    build(service, &date);
    for missing in [path(&days_ago(0), "theses"), path(&date, "nothing"), path("yesterday", "theses")] {
        client.get(&missing).await.error(404, "ARCHIVE_FILE_NOT_FOUND");
    }
    client.get(&format!("/v1/archive/{date}/theses")).await.error(404, "ARCHIVE_FILE_NOT_FOUND");
    client.get(&format!("/v1/archive/{}/theses/receipt", days_ago(0))).await.error(404, "ARCHIVE_FILE_NOT_FOUND");
    client.get(&format!("/v1/archive?from={}", days_ago(400))).await.error(403, "HISTORY_LIMIT");
    client.get("/v1/archive?from=2026-01-02&to=2026-01-01").await.invalid(&["to"]);
    let others: Vec<&str> = ALL_SCOPES.iter().copied().filter(|scope| *scope != "archive:read").collect();
    let project = service.project().await;
    // A live key has no files of the sandbox.
    let live = project.live().await;
    live.get(&path(&date, "theses")).await.error(404, "ARCHIVE_FILE_NOT_FOUND");
    let listed = live.get(&format!("/v1/archive?from={date}&to={date}")).await.ok(200);
    assert!(rows(&listed).is_empty(), "{listed}");
    let bare = project.key(Environment::Test, &others).await.client;
    bare.get("/v1/archive").await.error(403, "INSUFFICIENT_SCOPE");
    refused(service, &["archive", "build", "--date", &days_ago(0)], "VALIDATION_FAILED");
    refused(service, &["archive", "build", "--date", "yesterday"], "VALIDATION_FAILED");
}

async fn grpc_has_the_same_bytes(service: &Service) {
    let (date, project) = (days_ago(2), service.project().await);
    build(service, &date);
    let key = project.key(Environment::Test, ALL_SCOPES).await;
    let whole = download(&key.client, &path(&date, "events"), &[]).await.bytes().await.unwrap();
    let channel = Endpoint::from_shared(service.grpc.clone()).unwrap().connect_lazy();
    let mut archive = ArchiveServiceClient::new(channel);
    let first = 4;
    let wanted =
        v1::GetArchiveFileRequest { date, kind: "events".to_owned(), first: Some(first), ..Default::default() };
    let mut request = tonic::Request::new(wanted);
    request.metadata_mut().insert("authorization", format!("Bearer {}", key.raw).parse().unwrap());
    let mut pieces = archive.get_archive_file(request).await.unwrap().into_inner();
    let mut bytes = Vec::new();
    let mut files = Vec::new();
    while let Some(piece) = pieces.message().await.unwrap() {
        files.extend(piece.file);
        bytes.extend_from_slice(&piece.data);
    }
    assert_eq!(bytes, whole[4..]);
    assert_eq!(files.len(), 1, "the first message alone names the file");
    assert_eq!(files[0].sha256, hex::encode(Sha256::digest(&whole)));
}

#[tokio::test]
async fn a_killed_build_leaves_nothing_half() {
    killed_builds_leave_nothing_half(Service::embedded(|setup| setup)).await;
}

#[tokio::test]
async fn a_killed_build_leaves_nothing_half_on_a_cluster() {
    if let Some(service) = Service::cluster().await {
        killed_builds_leave_nothing_half(service).await;
    }
}

/// Files that are listed are whole, wherever the process that built them was killed. Then the day can be built.
async fn killed_builds_leave_nothing_half(mut service: Service) {
    let client = service.test_client().await;
    for round in 1..=6 {
        let (grpc, date) = (service.grpc.clone(), days_ago(round));
        let building = tokio::spawn(async move {
            let channel = Endpoint::from_shared(grpc).unwrap().connect_lazy();
            let mut request = tonic::Request::new(v1::BuildArchiveRequest { date, dataset: None });
            let token = crate::harness::SERVICE_TOKEN.parse().unwrap();
            request.metadata_mut().insert("x-service-token", token);
            let mut admin = v1::admin_service_client::AdminServiceClient::new(channel);
            // The process may be gone before it answers.
            if let Ok(mut built) = admin.build_archive(request).await.map(tonic::Response::into_inner) {
                while let Ok(Some(_)) = built.message().await {}
            }
        });
        let wait = Duration::from_millis(u64::try_from(round).unwrap() * 7);
        drop(tokio::time::timeout(wait, building).await);
        service.kill_and_start(0).await;
        service.is_ready().await;
        let client = client.moved_to(&service.http);
        for file in client.all("/v1/archive").await {
            let response = download(&client, &path(text(&file, "date"), text(&file, "kind")), &[]).await;
            let bytes = response.bytes().await.unwrap();
            assert_eq!(hex::encode(Sha256::digest(&bytes)), text(&file, "sha256"), "{file}");
        }
        let built = build(&service, &days_ago(round));
        assert_eq!(built.len(), 4, "{built:?}");
    }
}

#[tokio::test]
async fn missed_days_come_by_themselves() {
    let service = Service::embedded(|setup| setup);
    let client = service.test_client().await;
    // The oldest is built first.
    eventually("the days of the sandbox are built", WITHIN_A_FEW_ROUNDS, async || {
        let files = client.all(&format!("/v1/archive?to={}", days_ago(1))).await;
        let dates: Vec<&str> = files.iter().map(|file| text(file, "date")).collect();
        assert!(dates.is_sorted_by(|one, next| one >= next), "the newest first: {dates:?}");
        (dates.len() >= 6 * 4 && dates[0] == days_ago(1)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_place_that_cannot_be_written_refuses_the_start() {
    for (url, reason) in [("file:///proc/archive", "cannot be used"), ("https://example.com/", "must be file:///")] {
        let dir = tempfile::tempdir().unwrap();
        let (code, _, log) = crate::harness::Setup::new(dir.path()).set("SVC_ARCHIVE_URL", url).run();
        assert!(
            code.is_some_and(|code| code != 0) && log.contains("SVC_ARCHIVE_URL") && log.contains(reason),
            "{url}: {code:?} {log}"
        );
    }
}

/// The error of an answer, for a storage that went away while the service ran.
fn is_unavailable(answer: &Answer) -> bool {
    answer.status == 503 && answer.json()["error"]["code"] == "SERVICE_UNAVAILABLE"
}

#[tokio::test]
async fn a_file_that_somebody_deleted_is_built_again() {
    let service = Service::embedded(|setup| setup);
    let (client, date) = (service.test_client().await, days_ago(1));
    build(&service, &date);
    let folder = service.dir.path().join("archive").join("sandbox").join(&date);
    std::fs::remove_dir_all(folder).unwrap();
    assert!(is_unavailable(&client.get(&path(&date, "theses")).await));
    build(&service, &date);
    assert_eq!(download(&client, &path(&date, "theses"), &[]).await.status(), StatusCode::OK);
}
