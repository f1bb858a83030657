//! `admin ingest` where no upstream is configured.

use serde_json::json;

use super::{admin, refused, setup};
use crate::harness::{Service, text};

on_both_stores![without_an_upstream_ingestion_is_off, a_backfill_needs_an_upstream];

async fn without_an_upstream_ingestion_is_off(service: &Service) {
    let expected = json!({
        "state": "off", "position": null, "last_frame_at": null, "lag_ms": null, "last_error": null,
        "breaker": "closed", "frames": {}, "refused": {}, "look_ups": {"made": 0, "failed": 0, "held_back": 0},
    });
    assert_eq!(admin(service, &["ingest", "status"]), expected);
    let (exit, stdout, stderr) = setup(service).arguments(&["admin", "ingest", "status"]).run();
    assert_eq!((exit, stderr.as_str(), stdout.lines().count()), (Some(0), "", 9), "{stdout}");
    assert!(stdout.starts_with("state ") && stdout.contains("made 0, failed 0, held back 0"), "{stdout}");
}

async fn a_backfill_needs_an_upstream(service: &Service) {
    for wanted in [&["--all"][..], &["--profile", "u-1"], &["--token", "base:0x1"]] {
        let arguments = [&["ingest", "backfill", "--since", "24h"], wanted].concat();
        let error = refused(service, &arguments, "VALIDATION_FAILED");
        assert!(text(&error, "message").contains("SVC_UPSTREAM_URL"), "{error}");
        assert_eq!(text(&error, "param"), wanted[0].trim_start_matches('-'));
    }
    for (since, param) in [("9999999d", "since"), ("2031-01-01", "profile")] {
        let arguments = ["ingest", "backfill", "--profile", "", "--since", since];
        assert_eq!(refused(service, &arguments, "VALIDATION_FAILED")["param"], param);
    }
}
