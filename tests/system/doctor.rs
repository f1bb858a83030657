//! `trade-thesis doctor`: what it says of good and broken set-ups, beside what a start says of the same.

mod running;

use std::{
    collections::BTreeMap,
    fs,
    net::{TcpListener, UdpSocket},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::LazyLock,
    thread,
};

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{SERVICE_TOKEN, Setup, nodes, rows, text};

/// 32 bytes.
const SECRET_KEY: &str = "c3lzdGVtLXRlc3RzLXNlY3JldC1rZXktMDEyMzQ1Njc=";

/// A finding: status, name, what was seen, what to do.
type Finding = (String, String, String, String);

/// What the doctor says: its exit code and its findings.
struct Said {
    code: Option<i32>,
    findings: Vec<Finding>,
}

impl Said {
    /// The problems, as a start tells one of them.
    fn problems(&self) -> Vec<String> {
        let problems = self.findings.iter().filter(|(status, ..)| status == "problem");
        problems.map(|(_, _, seen, todo)| format!("trade-thesis: {seen}; {todo}\n")).collect()
    }

    /// The finding of a name.
    #[track_caller]
    fn of(&self, name: &str) -> (&str, &str) {
        let found = self.findings.iter().find(|(_, known, ..)| known == name);
        let (status, _, seen, _) = found.unwrap_or_else(|| panic!("no {name} in {:?}", self.findings));
        (status, seen)
    }
}

/// Every file below a folder with its contents; folders have none.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        }
        found.insert(path.clone(), fs::read(&path).unwrap_or_default());
    }
    found
}

/// Runs the doctor for a role, as JSON and as text; demands that both say the same and that no file changes in `dir`.
fn doctor(dir: &TempDir, setup: &Setup, role: &str) -> Said {
    let before = contents(dir.path());
    let (code, stdout, stderr) = setup.clone().arguments(&["doctor", "--role", role, "--json"]).run();
    let (same_code, lines, _) = setup.clone().arguments(&["doctor", "--role", role]).run();
    assert_eq!(contents(dir.path()), before, "the doctor changed something");
    assert_eq!(stderr, "");
    let list: Value = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"));
    let findings: Vec<Finding> = rows(&list).iter().map(finding).collect();
    let is_sound = findings.iter().all(|(status, ..)| status != "problem");
    assert_eq!((code, same_code), (Some(i32::from(!is_sound)), code), "{findings:?}");
    for (status, name, ..) in &findings {
        assert!(lines.lines().any(|line| line.starts_with(status) && line.contains(name.as_str())), "{lines}");
    }
    let todos = lines.lines().filter(|line| line.trim_start().starts_with("do: ")).count();
    assert_eq!(todos, findings.iter().filter(|(_, _, _, todo)| !todo.is_empty()).count(), "{lines}");
    Said { code, findings }
}

fn finding(row: &Value) -> Finding {
    assert_eq!(row["object"], "check");
    let todo = row["do"].as_str().unwrap_or_default().to_owned();
    let finding = (text(row, "status").to_owned(), text(row, "name").to_owned(), text(row, "seen").to_owned(), todo);
    assert!(["ok", "warning", "problem"].contains(&finding.0.as_str()), "{finding:?}");
    assert_eq!(finding.0 == "ok", finding.3.is_empty(), "each that is not ok says what to do: {finding:?}");
    finding
}

/// Demands that the doctor tells exactly the problem that ends a start with these settings.
#[track_caller]
fn as_a_start_says(dir: &TempDir, setup: &Setup, role: &str, named: &str) {
    let said = doctor(dir, setup, role);
    let start = if role == "all" { setup.clone() } else { setup.clone().role(role) };
    let (code, stdout, stderr) = start.run();
    assert!(code.is_some_and(|code| code != 0) && stdout.is_empty(), "{named}: {code:?} {stdout}");
    // The parser's own errors say what to do in words of their own.
    let same = |problem: &String| *problem == stderr || problem.starts_with(stderr.trim_end());
    let problems = said.problems();
    assert!(problems.len() == 1 && same(&problems[0]), "{named}: {problems:?}, a start: {stderr}");
    assert!(stderr.starts_with(&format!("trade-thesis: {named}: ")), "{stderr}");
}

fn place() -> (TempDir, Setup) {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new(dir.path()).set("SVC_DNS_SERVERS", name_server());
    (dir, setup)
}

/// A name server that knows no name.
fn name_server() -> &'static str {
    static ADDRESS: LazyLock<String> = LazyLock::new(|| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap().to_string();
        thread::spawn(move || {
            let mut packet = [0; 1_500];
            while let Ok((length, from)) = socket.recv_from(&mut packet) {
                // The question comes back as an answer (QR, RA) of the kind NXDOMAIN.
                (packet[2], packet[3]) = (packet[2] | 0x80, 0x83);
                socket.send_to(&packet[..length], from).unwrap();
            }
        });
        address
    });
    &ADDRESS
}

fn scylla(setup: Setup, nodes: &str) -> Setup {
    setup
        .set("SVC_STORE", "scylla")
        .set("SVC_SCYLLA_NODES", nodes)
        .set("SVC_SCYLLA_KEYSPACE", "never_made")
        .set("SVC_SCYLLA_REPLICATION_FACTOR", "1")
        .set("SVC_SECRET_KEY", SECRET_KEY)
        .set("SVC_SERVICE_TOKEN", SERVICE_TOKEN)
}

#[test]
fn a_good_set_up_has_no_problem_and_stays_as_it_is() {
    let (dir, setup) = place();
    let said = doctor(&dir, &setup, "all");
    assert_eq!(said.code, Some(0), "{:?}", said.findings);
    for name in ["settings", "folder", "store", "clock", "ports", "files", "public_url"] {
        assert_ne!(said.of(name).0, "problem");
    }
    assert!(said.of("store").1.contains("none yet") && said.of("folder").1.contains("does not exist yet"));
    assert!(said.of("dns").0 == "ok" && said.of("dns").1.contains("they answer"), "{:?}", said.of("dns"));
    // A start passes over these.
    let strange = setup.clone().set("SVC_SCYLLA_NODES", "a").set("SVC_SECRETKEY", "b");
    let said = doctor(&dir, &strange.set("SVC_REPLACE_SECRET_KEY", "true"), "all");
    for name in ["SVC_SCYLLA_NODES: ", "SVC_SECRETKEY: ", "SVC_REPLACE_SECRET_KEY "] {
        let is_it =
            |(status, check, seen, _): &Finding| status == "warning" && check == "settings" && seen.starts_with(name);
        assert!(said.findings.iter().any(is_it), "{name}: {:?}", said.findings);
    }
    // A name server that does not answer concerns webhooks alone.
    let said = doctor(&dir, &setup.set("SVC_DNS_SERVERS", "127.0.0.1:1"), "all");
    assert_eq!(said.code, Some(0));
    assert!(said.of("dns").0 == "warning" && said.of("dns").1.contains("webhooks"), "{:?}", said.of("dns"));
    assert!(!dir.path().join("data").exists());
}

#[test]
fn a_start_and_the_doctor_say_the_same_of_settings() {
    let (dir, setup) = place();
    let plans = dir.path().join("plans.toml");
    fs::write(&plans, "[plans.free]\nhistory_days = 7\n").unwrap();
    let no_certificate = dir.path().join("ca.pem");
    fs::write(&no_certificate, "nothing").unwrap();
    for (role, name, value) in [
        ("all", "SVC_HTTP_ADDR", "localhost"),
        ("all", "SVC_OPS_ADDR", "192.0.2.1:9100"),
        ("core", "SVC_GRPC_ADDR", "0.0.0.0:0"),
        ("core", "SVC_INTERNAL_ADDR", "core:50052"),
        ("all", "SVC_PUBLIC_URL", "ftp://example.com"),
        ("all", "SVC_SECRET_KEY", "c2hvcnQ="),
        ("all", "SVC_SERVICE_TOKEN", "short"),
        ("all", "SVC_LOG_KEY", "c2hvcnQ="),
        ("all", "SVC_SERVICE_TOKEN", "a token with spaces in it, which is long"),
        ("all", "SVC_BOOTSTRAP_TEST_KEY", "svc_test_short"),
        ("all", "SVC_BOOTSTRAP_PLAN", "gold"),
        ("all", "SVC_PLANS_FILE", "/nothing/plans.toml"),
        ("core", "SVC_PLANS_FILE", plans.to_str().unwrap()),
        ("all", "SVC_WEBHOOK_CA_FILE", "/nothing/ca.pem"),
        ("all", "SVC_LOG", "a=b=c"),
        ("all", "SEMANTIC_SEARCH_ENABLED", "true"),
        ("all", "SVC_SCYLLA_KEYSPACE", "system_auth"),
        ("all", "SVC_DATA_DIR", "/proc/nothing"),
    ] {
        if value == "/proc/nothing" {
            // The reasons differ: a start tries, and the doctor sees that nothing can be kept there.
            assert_eq!(doctor(&dir, &setup.clone().set(name, value), role).code, Some(1));
            continue;
        }
        as_a_start_says(&dir, &setup.clone().set(name, value), role, name);
        assert!(!dir.path().join("data/store").exists());
        let _ = fs::remove_dir_all(dir.path().join("data"));
    }
    let no_certificate = no_certificate.to_str().unwrap();
    as_a_start_says(&dir, &setup.clone().set("SVC_WEBHOOK_CA_FILE", no_certificate), "all", "SVC_WEBHOOK_CA_FILE");
    let secured = setup.set("SVC_TLS_CERT", no_certificate).set("SVC_TLS_KEY", no_certificate);
    as_a_start_says(&dir, &secured, "all", "SVC_TLS_CERT");
    as_a_start_says(&dir, &secured.set("SVC_TLS_CERT", "/nothing/cert.pem"), "all", "SVC_TLS_CERT");
    assert!(!dir.path().join("data").exists(), "a start that is refused made something");
}

#[test]
fn a_start_and_the_doctor_say_the_same_of_ports() {
    let (dir, setup) = place();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    // It answers nobody, so the doctor takes it for a stranger's after a moment.
    as_a_start_says(&dir, &setup.clone().set("SVC_GRPC_ADDR", &address), "core", "SVC_GRPC_ADDR");
    drop(taken);
    let internal = setup.clone().set("SVC_GRPC_ADDR", &address).set("SVC_INTERNAL_ADDR", &address);
    as_a_start_says(&dir, &internal, "core", "SVC_INTERNAL_ADDR");
    let twice = setup.set("SVC_HTTP_ADDR", &address).set("SVC_GRPC_ADDR", &address);
    as_a_start_says(&dir, &twice, "all", "SVC_GRPC_ADDR");
    let said = doctor(&dir, &twice, "all");
    assert!(said.problems()[0].contains("is the address of SVC_HTTP_ADDR too"), "{:?}", said.findings);
}

#[test]
fn a_start_and_the_doctor_say_the_same_of_folders_and_files() {
    let (dir, setup) = place();
    let data = dir.path().join("data");
    fs::write(&data, "").unwrap();
    as_a_start_says(&dir, &setup, "all", "SVC_DATA_DIR");
    as_a_start_says(&dir, &setup.clone().set("SVC_DATA_DIR", data.join("b").to_str().unwrap()), "all", "SVC_DATA_DIR");
    fs::remove_file(&data).unwrap();

    fs::create_dir(&data).unwrap();
    fs::create_dir(data.join("store.restoring")).unwrap();
    as_a_start_says(&dir, &setup, "all", "SVC_DATA_DIR");
    fs::remove_dir(data.join("store.restoring")).unwrap();

    fs::write(data.join("test-key"), "no key").unwrap();
    fs::write(data.join("secret_key"), SECRET_KEY).unwrap();
    as_a_start_says(&dir, &setup, "all", "SVC_DATA_DIR");
    let said = doctor(&dir, &setup, "all");
    let secrets = said.findings.iter().filter(|(status, name, ..)| status == "warning" && name == "secrets").count();
    assert_eq!(secrets, 2, "files that others can read: {:?}", said.findings);
    fs::remove_file(data.join("test-key")).unwrap();

    fs::write(data.join("store.redb"), "of an earlier version").unwrap();
    as_a_start_says(&dir, &setup, "all", "SVC_DATA_DIR");
    // A store without its key gets no other one.
    fs::remove_file(data.join("secret_key")).unwrap();
    as_a_start_says(&dir, &setup, "all", "SVC_DATA_DIR");
    assert!(!data.join("secret_key").exists());
    fs::write(data.join("secret_key"), SECRET_KEY).unwrap();
    fs::remove_file(data.join("store.redb")).unwrap();
    // A folder without files, then with files that are none of a store.
    fs::create_dir(data.join("store")).unwrap();
    as_a_start_says(&dir, &setup, "all", "SVC_DATA_DIR");
    for bad in ["", "no store at all"] {
        for file in ["log", "rows"] {
            fs::write(data.join(format!("store/{file}.redb")), bad).unwrap();
        }
        as_a_start_says(&dir, &setup, "all", "SVC_DATA_DIR");
    }
    // Others may read the store only where they may enter the data folder.
    for (mode, told) in [(0o755, true), (0o700, false)] {
        fs::set_permissions(&data, fs::Permissions::from_mode(mode)).unwrap();
        fs::set_permissions(data.join("store"), fs::Permissions::from_mode(0o755)).unwrap();
        let said = doctor(&dir, &setup, "all");
        let is_it = |(_, name, seen, _): &Finding| name == "secrets" && seen.contains("store has mode 0755");
        assert_eq!(said.findings.iter().any(is_it), told, "{mode:o}: {:?}", said.findings);
    }
    fs::remove_file(data.join("secret_key")).unwrap();
    let said = doctor(&dir, &setup, "all");
    assert!(said.problems()[0].contains("SVC_SECRET_KEY: is not set, and "), "{:?}", said.findings);
}

#[test]
fn a_folder_of_somebody_else_is_told() {
    let (dir, setup) = place();
    // Whoever runs the tests may write everywhere; nobody may not.
    let can = Path::new("/usr/bin/setpriv").exists()
        && Setup::new(Path::new("/")).by_nobody().arguments(&["--version"]).run().0 == Some(0);
    if !can {
        println!("left out: this user cannot run the program as nobody");
        return;
    }
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    as_a_start_says(&dir, &setup.by_nobody(), "all", "SVC_DATA_DIR");
}

#[test]
fn a_start_and_the_doctor_say_the_same_of_clusters() {
    let (dir, setup) = place();
    as_a_start_says(&dir, &scylla(setup.clone(), "me:secret@127.0.0.1:1"), "core", "SVC_SCYLLA_NODES");
    let away = scylla(setup.clone(), "127.0.0.1:1");
    as_a_start_says(&dir, &away, "core", "SVC_SCYLLA_NODES");
    as_a_start_says(&dir, &away.clone().set("SVC_SCYLLA_CA_FILE", "/nothing/ca.pem"), "core", "SVC_SCYLLA_CA_FILE");
    as_a_start_says(&dir, &away.clone().set("SVC_SCYLLA_KEYSPACE", "Upper"), "core", "SVC_SCYLLA_KEYSPACE");
    as_a_start_says(&dir, &away.set("SVC_SCYLLA_USER", "me"), "core", "SVC_SCYLLA_PASSWORD");
    let said = doctor(&dir, &setup.set("SVC_STORE", "scylla"), "core");
    let problems = said.problems().concat();
    for missing in ["SVC_SCYLLA_NODES", "SVC_SECRET_KEY", "SVC_SERVICE_TOKEN"] {
        assert!(problems.contains(missing), "all at once: {problems}");
    }
}

#[test]
fn several_problems_are_all_told() {
    let (dir, setup) = place();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let setup = setup
        .set("SVC_HTTP_ADDR", "localhost")
        .set("SVC_DRAIN_SECONDS", "301")
        .set("SVC_SERVICE_TOKEN", "short-secret")
        .set("SVC_BOOTSTRAP_LIVE_KEY", "short-secret")
        .set("SVC_OPS_ADDR", &taken.local_addr().unwrap().to_string());
    let problems = doctor(&dir, &setup, "all").problems();
    let names = ["SVC_HTTP_ADDR", "SVC_DRAIN_SECONDS", "SVC_SERVICE_TOKEN", "SVC_BOOTSTRAP_LIVE_KEY", "SVC_OPS_ADDR"];
    for name in names {
        assert_eq!(problems.iter().filter(|problem| problem.contains(name)).count(), 1, "{name}: {problems:?}");
    }
    assert!(problems.len() == names.len() && !problems.concat().contains("short-secret"), "{problems:?}");
    // A flag that cannot be read stands before the variable of the same setting.
    let flags = ["doctor", "--drain-seconds", "x", "--public-url=y", "--json"];
    let (code, stdout, _) = setup.arguments(&flags).run();
    for told in ["invalid value 'x'", "invalid value '301'", "invalid value 'y'"] {
        assert!(code == Some(1) && stdout.contains(told), "{told}: {stdout}");
    }
}

#[test]
fn a_cluster_is_looked_at_without_changing_it() {
    let Some(nodes) = nodes() else { return };
    let (dir, setup) = place();
    let setup = scylla(setup, &nodes);
    let said = doctor(&dir, &setup, "core");
    assert!(said.code == Some(0) && said.of("keyspace").1.contains("does not exist yet"), "{:?}", said.findings);
    assert!(doctor(&dir, &setup, "core").of("keyspace").1.contains("does not exist yet"));
    as_a_start_says(&dir, &setup.clone().set("SVC_SCYLLA_DATACENTER", "mars"), "core", "SVC_SCYLLA_DATACENTER");
    let copies = setup.set("SVC_SCYLLA_REPLICATION_FACTOR", "9");
    as_a_start_says(&dir, &copies, "core", "SVC_SCYLLA_REPLICATION_FACTOR");
}

#[test]
fn its_help_names_the_settings_that_lead_it() {
    let (_dir, setup) = place();
    let (code, help, _) = setup.clone().arguments(&["doctor", "--help"]).run();
    assert!(code == Some(0) && help.contains("SVC_SCYLLA_NODES") && help.contains("--role"), "{help}");
    assert!(!help.contains("SVC_SANDBOX_TICK_SECONDS") && !help.contains("--demo-live"), "{help}");
    let (code, stdout, _) = setup.arguments(&["doctor", "--role", "king", "--json"]).run();
    assert!(code == Some(2) && serde_json::from_str::<Value>(&stdout).is_ok(), "{stdout}");
}
