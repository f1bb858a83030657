//! A connector that is configured wrongly fails the start.

use serde_json::json;

use crate::{
    admin::admin,
    harness::{Service, Setup, UPSTREAM_TOKEN},
};

const URL: (&str, &str) = ("SVC_UPSTREAM_URL", "http://127.0.0.1:9");
const TOKEN: (&str, &str) = ("SVC_UPSTREAM_TOKEN", UPSTREAM_TOKEN);

#[tokio::test]
async fn a_wrong_setting_stops_the_start_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let spaced = ("SVC_UPSTREAM_TOKEN", "a secret with spaces");
    for (named, settings) in [
        ("SVC_UPSTREAM_TOKEN", &[URL][..]),
        ("SVC_UPSTREAM_URL", &[TOKEN]),
        ("SVC_UPSTREAM_TOKEN", &[URL, spaced]),
        ("SVC_UPSTREAM_URL", &[("SVC_UPSTREAM_URL", "ftp://127.0.0.1/"), TOKEN]),
        ("SVC_UPSTREAM_URL", &[("SVC_UPSTREAM_URL", "127.0.0.1:9"), TOKEN]),
        ("SVC_UPSTREAM_URL", &[("SVC_UPSTREAM_URL", "http://127.0.0.1:9/?a=b"), TOKEN]),
        ("SVC_UPSTREAM_URL", &[("SVC_UPSTREAM_URL", "http://user:secret-one@127.0.0.1:9/"), TOKEN]),
        ("SVC_UPSTREAM_TIMEOUT_MS", &[URL, TOKEN, ("SVC_UPSTREAM_TIMEOUT_MS", "99")]),
        ("SVC_UPSTREAM_TIMEOUT_MS", &[URL, TOKEN, ("SVC_UPSTREAM_TIMEOUT_MS", "2s")]),
        ("SVC_UPSTREAM_RPS", &[URL, TOKEN, ("SVC_UPSTREAM_RPS", "0")]),
        ("SVC_UPSTREAM_BACKFILL", &[URL, TOKEN, ("SVC_UPSTREAM_BACKFILL", "24")]),
        ("SVC_UPSTREAM_BACKFILL", &[URL, TOKEN, ("SVC_UPSTREAM_BACKFILL", "366d")]),
        ("SVC_UPSTREAM_REFRESH_SECONDS", &[URL, TOKEN, ("SVC_UPSTREAM_REFRESH_SECONDS", "0")]),
    ] {
        let setup = settings.iter().fold(Setup::new(dir.path()), |setup, (name, value)| setup.set(name, value));
        let (code, stdout, stderr) = setup.run();
        assert!(code.is_some_and(|code| code != 0), "{settings:?}: {code:?}");
        assert_eq!((stdout.as_str(), stderr.lines().count()), ("", 1), "{settings:?}: {stderr}");
        assert!(stderr.contains(named), "{settings:?}: {stderr}");
        let secrets = [UPSTREAM_TOKEN, "a secret with spaces", "secret-one"];
        assert!(!secrets.iter().any(|secret| stderr.contains(secret)), "{stderr}");
    }
}

/// An upstream that is away at the start does not stop it: the service says so and tries again.
#[tokio::test]
async fn an_upstream_that_is_away_stops_no_start() {
    let service = Service::embedded(|setup| setup.set(URL.0, URL.1).set(TOKEN.0, TOKEN.1));
    let live = service.project().await.live().await;
    live.get("/v1/profiles?handle=nobody").await.error(503, "UPSTREAM_UNAVAILABLE");
    assert!(live.all("/v1/theses").await.is_empty());
    let status = admin(&service, &["ingest", "status"]);
    assert_eq!((&status["state"], status["position"].is_null()), (&json!("down"), true));
    let test = service.test_client().await;
    test.thesis("writer", "AWAY", "x").await;
}
