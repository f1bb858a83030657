//! `trade-thesis --demo-live`: the whole service against a simulated upstream, with one command.

use std::{fs, os::unix::fs::PermissionsExt as _, time::Duration};

use serde_json::json;

use super::assert_public;
use crate::harness::{Client, SOON, Setup, eventually, rows, text};

#[tokio::test]
async fn one_command_shows_live_data() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = Setup::new(dir.path()).arguments(&["--demo-live"]).start();
    assert_eq!(process.ready["role"], "all");
    let file = text(&process.ready, "live_key_file").to_owned();
    assert!(file.starts_with('/') && file.ends_with("/live-key"), "{file}");
    assert!(!file.starts_with(dir.path().to_str().unwrap()), "the data folder stays as it is");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let key = fs::read_to_string(&file).unwrap();
    let key = key.trim();
    assert!(key.starts_with("svc_live_") && !process.log().contains(key));
    // The test key is there as ever.
    assert!(process.ready["test_key_file"].is_string(), "{}", process.ready);

    let client = Client::new(&process.address("http"), Some(key));
    let me = client.get("/v1/me").await.ok(200);
    assert_eq!((&me["environment"], &me["livemode"]), (&json!("live"), &json!(true)));
    let listed = eventually("live theses", SOON, async || {
        let answer = client.get("/v1/theses?limit=100").await;
        answer.ok(200);
        assert_public(&answer.text);
        let listed = rows(&answer.json()).clone();
        (!listed.is_empty()).then_some(listed)
    })
    .await;
    assert!(listed.iter().all(|row| row["source"] == "upstream" && row["livemode"] == true));
    let mut stream = client.stream("?types=thesis.created").await;
    let told = stream.next().await.data;
    client.get(&format!("/v1/theses/{}", text(&told["data"], "thesis_id"))).await.ok(200);
    let handle = text(&listed[0]["profile"], "handle").to_owned();
    assert_eq!(client.get(&format!("/v1/profiles?handle={handle}")).await.ok(200)["handle"], handle.as_str());
    process.signal("TERM");
    assert_eq!(process.exit(Duration::from_secs(10)).await.code(), Some(0));
    assert!(!fs::exists(&file).unwrap(), "the demonstration's data are thrown away");
}
