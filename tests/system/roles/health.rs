//! What a process tells of itself at its ops address.

use std::fs;

use serde_json::json;

use super::DRAINED;
use crate::harness::{SERVICE_TOKEN, Setup, TEST_KEY, fetch};

#[tokio::test]
async fn health_tells_by_its_exit_code_whether_a_process_is_ready() {
    let dir = tempfile::tempdir().unwrap();
    let health = |ops: &str| {
        let setup = Setup::new(dir.path()).set("SVC_OPS_ADDR", ops.trim_start_matches("http://"));
        // The address is asked itself, whatever proxy the machine has.
        setup.set("http_proxy", "http://127.0.0.1:9").arguments(&["health"]).run()
    };
    let mut core = Setup::new(dir.path()).role("core").start();
    let ops = core.address("ops");
    assert_eq!(health(&ops), (Some(0), String::new(), String::new()));
    assert_eq!(health(&ops.replace("127.0.0.1", "0.0.0.0")).0, Some(0));
    // It lives, but has no core.
    let token = fs::read_to_string(dir.path().join("data/service_token")).unwrap();
    let alone = Setup::new(dir.path()).set("SVC_SERVICE_TOKEN", &token).set("SVC_CORE_URL", "http://127.0.0.1:9");
    let edge = alone.role("edge").start();
    let (code, _, told) = health(&edge.address("ops"));
    assert!(code == Some(1) && told.contains("not ready") && told.contains("503"), "{told}");
    assert!(told.contains("no core serves: http://127.0.0.1:9: "), "{told}");
    core.signal("TERM");
    core.exit(DRAINED).await;
    for (address, hint) in [(ops.as_str(), "does the process run?"), ("127.0.0.1:0", "name the process's port")] {
        let (code, _, told) = health(address);
        assert!(code == Some(1) && told.contains("SVC_OPS_ADDR: ") && told.contains(hint), "{told}");
    }
}

#[tokio::test]
async fn every_process_tells_its_health_and_figures() {
    let service = crate::harness::embedded().await;
    service.is_ready().await;
    service.client(TEST_KEY).get("/v1/me").await.ok(200);
    let ops = service.processes[0].address("ops");
    let get = async |path: &str| fetch(format!("{ops}{path}")).await.unwrap();
    let healthy = get("/healthz").await;
    assert_eq!(healthy.status().as_u16(), 200);
    // The same version and commit everywhere.
    let (_, told, _) = Setup::new(service.dir.path()).arguments(&["--version"]).run();
    let both = told.strip_prefix("trade-thesis ").and_then(|both| both.trim_end().strip_suffix(')'));
    let (version, commit) = both.and_then(|both| both.split_once(" (commit ")).unwrap_or_else(|| panic!("{told}"));
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    assert_eq!(commit, env!("SVC_BUILD_COMMIT"));
    assert_eq!(healthy.text().await.unwrap(), format!("ok {version} ({commit})\n"));
    let metrics = get("/metrics").await.text().await.unwrap();
    assert!(metrics.lines().any(|line| line.starts_with("log_entries_appended_total ")), "{metrics}");
    let is_build = |line: &str| {
        let labels = line.strip_prefix("build_info{").and_then(|line| line.strip_suffix("} 1")).unwrap_or_default();
        [("version", version), ("commit", commit)]
            .iter()
            .all(|(name, value)| labels.contains(&format!("{name}=\"{value}\"")))
    };
    assert!(metrics.lines().any(is_build), "{metrics}");
    let log = service.processes[0].log();
    let mut lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let start = lines.find(|line| line["message"] == "starting").expect("a line about the start");
    assert_eq!((&start["version"], &start["commit"]), (&json!(version), &json!(commit)), "{start}");
    // Nothing secret is ever logged.
    assert!(!log.contains("svc_test_") && !log.contains("svc_live_") && !log.contains(SERVICE_TOKEN));
    assert!(!log.contains("whsec_"));
}
