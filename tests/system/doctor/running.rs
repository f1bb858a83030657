//! The doctor beside a service that runs.

use super::{Said, doctor, name_server, place};
use crate::harness::{Service, Setup, cluster};

/// 32 bytes that the service's store was not made with.
const OTHER_KEY: &str = "b3RoZXItc2VjcmV0LWtleS1vdGhlci1zZWNyZXQta2U=";
const OTHER_TOKEN: &str = "another-service-token-0123456789-0123456789";

/// The settings under which a running process's addresses are the ones to be taken.
fn where_it_runs(service: &Service) -> Setup {
    let at = |name: &str| service.processes[0].address(name).trim_start_matches("http://").to_owned();
    let setup = service.setup.clone().set("SVC_DNS_SERVERS", name_server());
    setup.set("SVC_HTTP_ADDR", &at("http")).set("SVC_GRPC_ADDR", &at("grpc")).set("SVC_OPS_ADDR", &at("ops"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_service_itself_holds_is_no_problem() {
    let mut service = Service::embedded(|setup| setup);
    let (dir, _) = place();
    // The machine has no certificates of authorities.
    let here = where_it_runs(&service).set("SSL_CERT_FILE", "/dev/null");
    let said = doctor(&dir, &here, "all");
    assert_eq!(said.code, Some(0), "{:?}", said.findings);
    let held = said.findings.iter().filter(|(status, name, ..)| status == "warning" && name == "ports").count();
    assert_eq!(held, 3, "{:?}", said.findings);
    assert!(said.of("store").0 == "warning" && said.of("store").1.contains("in use"), "{:?}", said.of("store"));
    let (code, _, stderr) = service.setup.run();
    assert!(code == Some(1) && stderr.contains("SVC_DATA_DIR: ") && stderr.contains("stop the process"), "{stderr}");

    // A kill leaves files that the next start repairs; until then they stay as they are.
    service.processes[0].signal("KILL");
    service.processes[0].exit(std::time::Duration::from_secs(10)).await;
    let said = doctor(&service.dir, &here, "all");
    assert!(said.code == Some(0) && said.of("store").0 == "ok", "{:?}", said.findings);

    let other = here.clone().set("SVC_SECRET_KEY", OTHER_KEY);
    super::as_a_start_says(&service.dir, &other, "all", "SVC_SECRET_KEY");
    let said = doctor(&service.dir, &other.set("SVC_REPLACE_SECRET_KEY", "true"), "all");
    assert_eq!(said.code, Some(0), "{:?}", said.findings);

    let file = service.dir.path().join("data/store/rows.redb");
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes.truncate(middle);
    std::fs::write(&file, bytes).unwrap();
    super::as_a_start_says(&service.dir, &here, "all", "SVC_DATA_DIR");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edge_and_a_worker_need_a_core_and_its_token() {
    let service = Service::embedded(|setup| setup);
    let (dir, setup) = place();
    let setup = setup.set("SVC_SERVICE_TOKEN", crate::harness::SERVICE_TOKEN).set("SVC_CORE_URL", &service.grpc);
    for role in ["edge", "worker"] {
        let said = doctor(&dir, &setup, role);
        assert_eq!(said.code, Some(0), "{:?}", said.findings);
        assert_eq!((said.of("core").0, said.of("token").0), ("ok", "ok"));
        let clocks = said.findings.iter().filter(|(_, name, seen, _)| name == "clock" && seen.contains(&service.grpc));
        assert_eq!(clocks.count(), 1, "{:?}", said.findings);
    }
    let told = |said: &Said, name: &str| assert!(said.problems().concat().contains(name), "{:?}", said.findings);
    told(&doctor(&dir, &setup.clone().set("SVC_SERVICE_TOKEN", OTHER_TOKEN), "edge"), "SVC_SERVICE_TOKEN: the core at");
    told(&doctor(&dir, &setup.clone().set("SVC_SERVICE_TOKEN", ""), "edge"), "SVC_SERVICE_TOKEN: is not set");
    told(&doctor(&dir, &setup.clone().set("SVC_CORE_URL", "http://127.0.0.1:1"), "worker"), "SVC_CORE_URL: no core");
    // One of two cores may be away.
    let half = setup.set("SVC_CORE_URL", &format!("http://127.0.0.1:1,{}", service.grpc));
    let said = doctor(&dir, &half, "edge");
    assert!(said.code == Some(0) && said.of("core").0 == "warning", "{:?}", said.findings);
}

#[tokio::test]
async fn a_keyspace_in_use_has_the_tables_of_this_version() {
    let Some(service) = cluster().await else { return };
    let (dir, _) = place();
    let said = doctor(&dir, &service.setup.clone().set("SVC_DNS_SERVERS", name_server()), "core");
    assert!(said.of("keyspace").1.contains("has the tables of this version"), "{:?}", said.findings);
    let other = service.setup.clone().set("SVC_DNS_SERVERS", name_server()).set("SVC_SECRET_KEY", OTHER_KEY);
    let told = |said: &Said| said.problems().concat().contains("SVC_SECRET_KEY: the store was made with another");
    assert!(!told(&said) && told(&doctor(&dir, &other, "core")));
    assert!(!told(&doctor(&dir, &other.set("SVC_REPLACE_SECRET_KEY", "true"), "core")));
}
