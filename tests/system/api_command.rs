//! `trade-thesis api`: the API on the command line.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, ErrorKind, PipeWriter},
    os::unix::fs::PermissionsExt as _,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use thesis_proto::v1::Environment;
use tokio::{io::AsyncWriteExt as _, process, task::spawn_blocking, time::timeout};

use crate::harness::{ALL_SCOPES, Key, Receiver, SOON, Service, Setup, eventually, rows, text};

on_both_stores![
    what_is_read_is_what_the_api_answers,
    a_claim_is_judged_by_the_exit_code,
    events_are_followed_and_resumed,
    a_webhook_is_managed,
    a_profile_is_kept_and_used,
    a_refusal_prints_one_line,
];

/// The command with a key, in its own folder.
struct Shell {
    setup: Setup,
    dir: tempfile::TempDir,
}

impl Shell {
    fn new(service: &Service, key: Option<&Key>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let setup = Setup::new(dir.path()).set("XDG_CONFIG_HOME", dir.path().to_str().unwrap());
        let setup = setup.set("SVC_API_URL", &service.http);
        let setup = key.map_or_else(|| setup.clone(), |key| setup.clone().set("SVC_KEY", &key.raw));
        Self { setup, dir }
    }

    /// The exit code, stdout and stderr.
    async fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let setup = self.setup.clone().arguments(&[&["api"][..], arguments].concat());
        spawn_blocking(move || setup.run()).await.unwrap()
    }

    /// The output of a command that succeeds.
    async fn output_of(&self, arguments: &[&str]) -> String {
        let (code, stdout, stderr) = self.run(arguments).await;
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{arguments:?}: {stdout}");
        stdout
    }

    /// The JSON values of such an output, one per line.
    async fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self.output_of(arguments).await;
        output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// The program with these arguments, without settings.
fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trade-thesis"));
    command.args(arguments).env_clear();
    command
}

/// A pipe whose reader has closed it, as `head` does.
fn closed_pipe() -> PipeWriter {
    io::pipe().unwrap().1
}

async fn key(service: &Service) -> Key {
    service.project_on("week").await.key(Environment::Test, ALL_SCOPES).await
}

async fn what_is_read_is_what_the_api_answers(service: &Service) {
    let key = key(service).await;
    let shell = Shell::new(service, Some(&key));
    let mut made = Vec::new();
    for number in 0..3 {
        made.push(key.client.thesis("writer", "SHELL", &format!("number {number}\u{202e}")).await);
    }
    let (thesis, event) = made.last().unwrap();
    let all = rows(&key.client.get("/v1/theses?limit=100&token=RUN").await.ok(200)).clone();
    assert_eq!(shell.json(&["list", "--token", "RUN", "--limit", "7"]).await, all[..7]);
    // More rows than one page.
    let whole = key.client.all("/v1/theses?limit=100").await;
    assert!(whole.len() > 100, "{}", whole.len());
    assert_eq!(shell.json(&["list", "--all"]).await, whole);
    let own = ["list", "--author", "@writer", "--token", "SHELL", "--after", "1h"];
    assert_eq!(shell.json(&own).await.len(), 3);
    for (reference, path) in [
        (text(thesis, "id"), format!("/v1/theses/{}", text(thesis, "id"))),
        (text(event, "id"), format!("/v1/events/{}", text(event, "id"))),
        ("@writer", "/v1/profiles/@writer".to_owned()),
    ] {
        assert_eq!(shell.json(&["get", reference]).await, [key.client.get(&path).await.ok(200)], "{reference}");
    }
    assert_eq!(shell.json(&["get", "$RUN"]).await[0]["symbol"], "$RUN");
    assert_eq!(shell.json(&["get", "SHELL", "--activity"]).await[0]["object"], "token_activity");
    let found = eventually("the search finds it", SOON, async || {
        // A search fails while a core that has just started has no index yet.
        let (_, stdout, _) = shell.run(&["search", "number", "2", "--types", "theses"]).await;
        let found: Value = serde_json::from_str(&stdout).ok()?;
        (!rows_of(&found, "theses").is_empty()).then_some(found)
    });
    assert_eq!(rows_of(&found.await, "theses")[0]["id"], thesis["id"]);
    // A word to exclude needs quotes of the shell, and `--` where it is the first one.
    let others: BTreeSet<_> = made[..2].iter().map(|(thesis, _)| text(thesis, "id")).collect();
    for search in [&["number -2"][..], &["--", "-2 number"]] {
        let search = [&["search", "--types", "theses", "--token", "SHELL"][..], search].concat();
        let found = shell.json(&search).await.remove(0);
        let ids: BTreeSet<_> = rows_of(&found, "theses").iter().map(|thesis| text(thesis, "id")).collect();
        assert_eq!(ids, others, "{search:?}");
    }
    let events = ["events", "--events", "thesis.created", "--token", "SHELL"];
    assert_eq!(shell.json(&events).await[0], *event);
    assert_eq!(shell.json(&["usage"]).await[0]["object"], "usage");

    assert_eq!(shell.output_of(&["search", "unheardofword", "--output", "table"]).await, "none\n");
    let table = shell.output_of(&[&own[..], &["--output", "table"]].concat()).await;
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines.len() == 4 && lines[0].starts_with("CREATED") && lines[0].ends_with("TEXT"), "{table}");
    // A stranger's text must not change the text direction of the line.
    assert!(lines[1].contains("@writer") && lines[1].ends_with(r"number 2\u{202e}"), "{table}");
    let fields = shell.output_of(&["get", text(thesis, "id"), "--output", "table"]).await;
    let names: Vec<_> = fields.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(&names[..4], ["object", "id", "profile.id", "profile.handle"], "{fields}");
}

fn rows_of<'a>(found: &'a Value, kind: &str) -> &'a [Value] {
    found[kind].as_array().unwrap()
}

async fn a_claim_is_judged_by_the_exit_code(service: &Service) {
    let key = key(service).await;
    let shell = Shell::new(service, Some(&key));
    let (thesis, _) = key.client.thesis("writer", "CLAIM", "to the moon").await;
    let claim = ["verify", "--author", "@writer", "--token", "CLAIM", "--after", "1h", "--contains"];
    for (contains, code, reason) in [("MOON", 0, "VERIFIED"), ("sun", 1, "TEXT_NOT_FOUND")] {
        let (exit, stdout, stderr) = shell.run(&[&claim[..], &[contains]].concat()).await;
        let verdict: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!((exit, text(&verdict, "reason"), stderr.as_str()), (Some(code), reason, ""));
    }
    for author in ["writer", "WRITER", text(&thesis["profile"], "id")] {
        let verdict = shell.json(&["verify", "--author", author, "--token", "CLAIM", "--after", "1h"]).await;
        assert_eq!(verdict[0]["thesis_id"], thesis["id"], "{author}");
    }
    let (exit, stdout, stderr) = shell.run(&["verify", "--author", "fp_1", "--token", "RUN", "--after", "1h"]).await;
    assert_eq!((exit, stdout.as_str()), (Some(2), ""), "{stderr}");
    assert!(stderr.contains("not the id of a profile"), "{stderr}");
    let (exit, stdout, stderr) =
        shell.run(&["verify", "--author", "@a", "--token", "RUN", "--after", "2001-01-01"]).await;
    assert_eq!((exit, stdout.as_str()), (Some(2), ""), "{stderr}");
    assert!(stderr.contains("HISTORY_LIMIT"), "{stderr}");
    // A verdict that nobody read is none.
    let mut unread = program(&["api", "verify", "--author", "@writer", "--token", "CLAIM", "--after", "1h"]);
    unread.env("SVC_KEY", &key.raw).env("SVC_API_URL", &service.http).stdout(closed_pipe());
    let unread = unread.output().unwrap();
    assert_eq!((unread.status.code(), unread.stderr.as_slice()), (Some(2), &b""[..]));
}

async fn events_are_followed_and_resumed(service: &Service) {
    let key = key(service).await;
    let shell = Shell::new(service, Some(&key));
    let tail = ["api", "tail", "--events", "thesis.created", "--token", "TAIL"];
    let (mut process, mut lines) = shell.setup.clone().arguments(&tail).start_and_read_lines();
    eventually("the stream is open", SOON, async || process.log().contains("listening at").then_some(())).await;
    let first = key.client.thesis("writer", "TAIL", "first").await.1;
    let line = timeout(SOON, lines.recv()).await.unwrap().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), first);
    process.signal("INT");
    assert_eq!(process.exit(SOON).await.code(), Some(0));
    let log = process.log();
    let cursor = log.lines().find_map(|line| line.split_once("--cursor ")).unwrap().1.trim().to_owned();
    let second = key.client.thesis("writer", "TAIL", "second").await.1;
    let resumed = [&tail[..], &["--cursor", &cursor]].concat();
    let (_process, mut lines) = shell.setup.clone().arguments(&resumed).start_and_read_lines();
    let line = timeout(SOON, lines.recv()).await.unwrap().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), second);
    // A replay up to a time ends by itself.
    let to = text(&second, "created_at");
    for from in [text(&first, "created_at"), "1h"] {
        let replay = [&tail[1..], &["--from", from, "--to", to]].concat();
        let (code, stdout, _) = shell.run(&replay).await;
        let ids: Vec<Value> =
            stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone()).collect();
        assert_eq!((code, ids), (Some(0), vec![first["id"].clone(), second["id"].clone()]), "{from}");
    }
}

async fn a_webhook_is_managed(service: &Service) {
    let (key, receiver) = (key(service).await, Receiver::start().await);
    let shell = Shell::new(service, Some(&key));
    let create =
        ["webhooks", "create", "--url", receiver.url.as_str(), "--events", "thesis.created", "--token", "HOOK"];
    let more = ["--header", "X-Team: desk", "--payload", "thin", "--description", "for people"];
    let webhook = shell.json(&[&create[..], &more].concat()).await.remove(0);
    assert!(text(&webhook, "secret").starts_with("whsec_") && text(&webhook, "payload") == "thin", "{webhook}");
    let id = text(&webhook, "id");
    assert_eq!(shell.json(&["webhooks", "list"]).await[0]["id"], *id);
    let event = key.client.thesis("writer", "HOOK", "x").await.1;
    assert_eq!(receiver.delivery_of(&event).await.header("x-team"), "desk");
    let delivered = eventually("the delivery is listed", SOON, async || {
        let rows = shell.json(&["webhooks", "deliveries", id, "--status", "delivered"]).await;
        rows.into_iter().find(|row| row["event_id"] == event["id"])
    });
    let delivery = delivered.await;
    let replayed = shell.json(&["webhooks", "replay", text(&delivery, "id")]).await.remove(0);
    assert_eq!((&replayed["is_replay"], &replayed["event_id"]), (&Value::Bool(true), &event["id"]));
    assert_eq!(shell.json(&["webhooks", "test", id]).await[0]["is_test"], true);
    let rotated = shell.json(&["webhooks", "rotate-secret", id]).await.remove(0);
    assert_ne!(rotated["secret"], webhook["secret"]);
    // A secret that nobody read is lost.
    for arguments in [&["webhooks", "rotate-secret", id][..], &create] {
        let mut unread = program(&[&["api"][..], arguments].concat());
        unread.env("SVC_KEY", &key.raw).env("SVC_API_URL", &service.http).stdout(closed_pipe());
        let unread = unread.output().unwrap();
        let stderr = String::from_utf8(unread.stderr).unwrap();
        assert!(unread.status.code() == Some(1) && stderr.contains("Broken pipe"), "{arguments:?}: {stderr}");
    }
    let updated = shell.json(&["webhooks", "update", id, "--status", "disabled", "--payload", "full"]).await.remove(0);
    assert_eq!((text(&updated, "status"), text(&updated, "payload")), ("disabled", "full"));
    assert_eq!(shell.json(&["webhooks", "delete", id]).await[0]["deleted"], true);
    let (code, _, stderr) = shell.run(&["get", id]).await;
    assert!(code == Some(1) && stderr.contains("WEBHOOK_NOT_FOUND"), "{stderr}");
}

async fn a_profile_is_kept_and_used(service: &Service) {
    let key = key(service).await;
    let shell = Shell::new(service, None);
    let (code, _, stderr) = shell.run(&["usage"]).await;
    assert!(code == Some(1) && stderr.contains("SVC_KEY") && stderr.contains("api login"), "{stderr}");
    // The key comes through a pipe.
    let login = |key: &str| {
        let (file, runner) = (shell.dir.path().join("key"), shell.dir.path().join("login"));
        fs::write(&file, format!("{key}\n")).unwrap();
        let program = env!("CARGO_BIN_EXE_trade-thesis");
        let command = format!("#!/bin/sh\nexec {program} api login --profile mine <{}\n", file.display());
        fs::write(&runner, command).unwrap();
        let mut command = Command::new("/bin/sh");
        command.arg(runner).env_clear().env("XDG_CONFIG_HOME", shell.dir.path()).env("SVC_API_URL", &service.http);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let wrong = "svc_test_0000000000000000000000000000000000000000";
    let (code, stdout, stderr) = login(wrong);
    assert!(code == Some(1) && stdout.is_empty() && stderr.contains("INVALID_API_KEY"), "{stderr}");
    let (code, stdout, _) = login(&key.raw);
    assert!(code == Some(0) && stdout.starts_with("profile mine: the test key"), "{stdout}");
    let file = shell.dir.path().join("trade-thesis/profiles.toml");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(shell.json(&["usage", "--profile", "mine"]).await[0]["object"], "usage");
    // A given key replaces that of the profile, which keeps its address.
    let other = self::key(service).await;
    let setup = Setup::new(shell.dir.path()).set("XDG_CONFIG_HOME", shell.dir.path().to_str().unwrap());
    let setup = setup.arguments(&["api", "login", "--profile", "mine", "--key", &other.raw]);
    let (code, stdout, stderr) = spawn_blocking(move || setup.run()).await.unwrap();
    assert!(code == Some(0) && stdout.starts_with("profile mine: the test key"), "{stderr}");
    let profiles = fs::read_to_string(&file).unwrap();
    assert!(profiles.contains(&other.raw) && profiles.contains(&service.http), "another key or address is stored");
    assert!(!profiles.contains(&key.raw), "the old key is stored");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let (code, _, stderr) = shell.run(&["usage", "--profile", "mine"]).await;
    assert!(code == Some(1) && stderr.contains("chmod 600") && !stderr.contains(&key.raw), "{stderr}");
}

async fn a_refusal_prints_one_line(service: &Service) {
    let key = key(service).await;
    let shell = Shell::new(service, Some(&key));
    for (arguments, message) in [
        (&["get", "th_unknown"][..], "THESIS_NOT_FOUND: "),
        (&["list", "--sort", "best"], "VALIDATION_FAILED: "),
        (&["tail", "--events", "thesis.eaten"], "VALIDATION_FAILED: "),
        (&["tail", "--cursor", "zz"], "INVALID_CURSOR: "),
        (&["get", "@a", "--receipt"], "has no such part"),
        // Another command's request would follow from these.
        (&["get", ".."], "`..` is not an id"),
        (&["webhooks", "delete", "."], "`.` is not an id"),
        (&["webhooks", "deliveries", ".."], "`..` is not an id"),
        (&["webhooks", "get", ""], "`` is not an id"),
        (&["webhooks", "get", "..\n"], "`..\\n` is not an id"),
        (&["webhooks", "get", "%2e%2e"], "WEBHOOK_NOT_FOUND: "),
        (&["webhooks", "get", "../me"], "WEBHOOK_NOT_FOUND: "),
        (&["usage", "--api", "http://127.0.0.1:9"], "http://127.0.0.1:9: "),
        (&["usage", "--profile", "live"], "two keys"),
    ] {
        let (code, stdout, stderr) = shell.run(arguments).await;
        assert_eq!((code, stdout.as_str(), stderr.lines().count()), (Some(1), "", 1), "{arguments:?}: {stderr}");
        assert!(stderr.contains(message) && !stderr.contains(&key.raw), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_command_ends_quietly_when_nobody_reads_its_output() {
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("man1");
    for arguments in [["completion", "bash"], ["completion", "fish"], ["man", pages.to_str().unwrap()]] {
        let output = program(&arguments).stdout(closed_pipe()).output().unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{arguments:?}");
    }
    // `listen` fails, because its secret is lost.
    let mut listen = program(&["listen", "--forward-to=http://127.0.0.1:9", "--key=k", "--api=http://127.0.0.1:9"]);
    let output = listen.stdout(closed_pipe()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("Broken pipe"));
    // Nobody reads the error either, and the exit code stays.
    for (arguments, code) in [(["api", "usage"], 1), (["api", "lst"], 2), (["restore", "--from=x"], 1)] {
        let mut command = program(&arguments);
        command.current_dir(dir.path()).env("XDG_CONFIG_HOME", dir.path()).stderr(closed_pipe());
        let output = command.output().unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(code), &b""[..]), "{arguments:?}");
    }
}

#[tokio::test]
async fn mcp_ends_quietly_when_nobody_reads_its_first_response() {
    let handshake = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}},
    });
    let mut command = process::Command::from(program(&["mcp", "--key=k", "--api=http://127.0.0.1:9"]));
    command.stdin(Stdio::piped()).stdout(closed_pipe()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut mcp = command.spawn().unwrap();
    // It stays open, so the command does not end by the end of its input.
    let mut stdin = mcp.stdin.take().unwrap();
    stdin.write_all(format!("{handshake}\n").as_bytes()).await.unwrap();
    let output = timeout(SOON, mcp.wait_with_output()).await.expect("the command ends").unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

/// The completion works in fish as it is. Where there is no fish, the text of the script is checked alone.
#[test]
fn fish_completes_commands_and_flags() {
    let dir = tempfile::tempdir().unwrap();
    let (code, script, _) = Setup::new(dir.path()).arguments(&["completion", "fish"]).run();
    assert_eq!(code, Some(0));
    let at = |path: &str| format!("complete -c trade-thesis -n '__fish_trade_thesis_at {path}'");
    for line in [
        format!("{} -a list -d 'List webhooks, newest first'", at("api webhooks")),
        format!("{} -l output -x -a 'table json' -d ", at("api webhooks list")),
        format!("{} -a 'bash zsh fish'", at("completion")),
        format!("{} -f", at("api webhooks list")),
    ] {
        assert!(script.lines().any(|own| own.starts_with(&line)), "{line}");
    }
    assert!(!script.contains(&format!("{} -f", at("receipt verify"))), "files are completed there");
    let file = dir.path().join("completion.fish");
    fs::write(&file, script).unwrap();
    for (words, expected) in [
        ("trade-thesis api we", vec!["webhooks"]),
        ("trade-thesis api webhooks rot", vec!["rotate-secret"]),
        ("trade-thesis api --profile list webhooks rot", vec!["rotate-secret"]),
        ("trade-thesis api webhooks create --ur", vec!["--url"]),
        ("trade-thesis api webhooks list --auth", vec![]),
        ("trade-thesis api list --auth", vec!["--author"]),
        ("trade-thesis api list --output ", vec!["json", "table"]),
        ("trade-thesis api list --http", vec![]),
        ("trade-thesis help api webhooks rot", vec!["rotate-secret"]),
    ] {
        let command = format!("source {}; complete -C '{words}'", file.display());
        let output = match Command::new("fish").args(["--no-config", "-c", &command]).output() {
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            output => output.unwrap(),
        };
        let offered = String::from_utf8(output.stdout).unwrap();
        let mut offered: Vec<_> = offered.lines().filter_map(|line| line.split('\t').next()).collect();
        offered.sort_unstable();
        assert_eq!(offered, expected, "{words}");
    }
}

/// The completion works in a shell as it is.
#[test]
fn bash_completes_commands_and_flags() {
    let dir = tempfile::tempdir().unwrap();
    let (code, script, _) = Setup::new(dir.path()).arguments(&["completion", "bash"]).run();
    assert_eq!(code, Some(0));
    let file = dir.path().join("completion.bash");
    fs::write(&file, script).unwrap();
    let offered = |words: &str| {
        let script = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             last=${{COMP_WORDS[COMP_CWORD]}}; name=$(complete -p trade-thesis | sed 's/.*-F \\([^ ]*\\).*/\\1/'); \
             $name trade-thesis \"$last\" x; echo \"${{COMPREPLY[@]}}\"",
            file.display()
        );
        let output = Command::new("bash").args(["-c", &script]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(offered("trade-thesis api li"), "list");
    assert_eq!(offered("trade-thesis api webhooks rot"), "rotate-secret");
    assert_eq!(offered("trade-thesis api list --auth"), "--author");
    // The completion offers no settings of the service there.
    assert_eq!(offered("trade-thesis api list --http"), "");
}
