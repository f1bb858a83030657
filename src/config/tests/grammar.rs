//! The command line: where settings may stand, help, and the grammar of each command.

use clap::{Args as _, error::ErrorKind};
use clap_complete::Shell;

use super::parse;
use crate::{
    command::{Command, command, for_completion, for_manual, unknown},
    config::Settings,
};

#[test]
fn settings_may_stand_before_and_behind_the_command() {
    for arguments in [["--http-addr", "[::1]:0", "edge"], ["edge", "--http-addr", "[::1]:0"]] {
        let invocation = parse(&arguments).unwrap();
        assert!(matches!(invocation.command, Some(Command::Edge)));
        assert_eq!(invocation.settings.addresses.http_addr.to_string(), "[::1]:0");
    }
}

#[test]
fn an_almost_right_command_line_is_told() {
    let create = ["admin", "key", "create", "--project=p", "--name=n", "--environment"];
    for (arguments, advice) in [
        (&["amdin"][..], "unrecognized subcommand 'amdin'; did you mean `admin`?"),
        (&["admin", "organizaton", "list"], "; did you mean `organization`?"),
        (&["admin", "key", "lst"], "; did you mean `list`?"),
        (&["--htp-addr", "x"], "unexpected argument '--htp-addr' found; did you mean `--http-addr`?"),
        (&[&create[..], &["tset"]].concat(), "; did you mean `test`?"),
        (&["--store", "scyla"], "; did you mean `scylla`?"),
        (&["zzz"], "unrecognized subcommand 'zzz'; see --help"),
        (&["admin", "zzz"], "; see --help"),
        (&["--zzz"], "unexpected argument '--zzz' found; see --help"),
        (&["--store", "zzz"], "[possible values: embedded, scylla]"),
        (&["admin", "organization", "create"], " --name <NAME>"),
    ] {
        let said = parse(arguments).unwrap_err();
        assert!(said.ends_with(advice) && !said.contains('\n'), "{arguments:?}: {said}");
    }
}

#[test]
fn variables_that_look_like_settings_are_known() {
    let names = ["SVC_SECRETKEY", "SVC_SECRET_KEY", "SVC_KEY", "SVC_BUILD_COMMIT", "SVC_NOTHING", "PATH"];
    let found = unknown(names.into_iter().map(str::to_owned));
    let meant = Some("SVC_SECRET_KEY".to_owned());
    assert_eq!(found, [(None, "SVC_NOTHING".to_owned()), (meant, "SVC_SECRETKEY".to_owned())]);
}

#[test]
fn help_lists_every_setting_with_its_variable_and_default() {
    let said = |arguments: &[&str]| {
        let error = command().try_get_matches_from_mut(arguments).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DisplayHelp);
        error.to_string()
    };
    let help = said(&["trade-thesis", "--help"]);
    for arg in Settings::augment_args(clap::Command::new("settings")).get_arguments() {
        let Some(variable) = arg.get_env() else {
            // It is a way to try the service, not a setting of one that lasts.
            assert!(arg.get_id() == "demo_live" && help.contains("--demo-live"), "{}", arg.get_id());
            continue;
        };
        let variable = variable.to_str().unwrap();
        assert!(help.contains(&format!("[env: {variable}]")), "{variable}");
        let has_default = arg.get_help().unwrap().to_string().contains("[default: ");
        assert!(has_default || !arg.get_default_values().is_empty(), "{variable} has no default in its help");
    }
    let admin = said(&["trade-thesis", "admin", "key", "create", "--help"]);
    assert!(admin.contains("SVC_CORE_URL") && !admin.contains("SVC_HTTP_ADDR"), "{admin}");
    assert!(!admin.contains("--demo-live"), "{admin}");
}

#[test]
fn admin_commands_have_their_grammar() {
    for good in [
        "organization create --name N",
        "organization create --name N --plan pro --json",
        "organization list",
        "organization set-plan org_1 pro",
        "project create --organization org_1 --name N",
        "project list",
        "project list --organization org_1",
        "project approve prj_1",
        "project withdraw prj_1",
        "project archive prj_1",
        "project refuse prj_1 --reason no",
        "user create --email a@example.com",
        "user create --email a@example.com --administrator --json",
        "user list",
        "user make-administrator a@example.com",
        "user confirm a@example.com",
        "user reset-link a@example.com --json",
        "user reset-link a@example.com --keep-memberships",
        "audit list",
        "audit list --organization org_1 --limit 250 --json",
        "key create --project prj_1 --environment test --name N",
        "key create --project p --environment live --name N --scope a:b --scope c:d --expires-at 2031-01-01T00:00:00Z",
        "key list --project prj_1",
        "--json key revoke key_1",
        "key revoke key_1 --core-url http://a:1 --data-dir d",
        "abuse list",
        "abuse list --json",
        "webhook list --project prj_1",
        "webhook replay --webhook wh_1 --since 2031-01-01 --json",
        "webhook replay --webhook wh_1 --since 2031-01-01T00:00:00Z --status failed",
        "webhook replay --webhook wh_1 --since 24h",
        "thesis erase th_1 --reason asked",
        "thesis erase th_1 --reason asked --dataset sandbox --json",
        "ingest status",
        "ingest status --json",
        "ingest backfill --token sui:0x2::sui::SUI --since 2031-01-01",
        "ingest backfill --profile u-1 --since 24h",
        "ingest backfill --all --since 30m --json",
    ] {
        let arguments: Vec<_> = std::iter::once("admin").chain(good.split(' ')).collect();
        parse(&arguments).unwrap_or_else(|error| panic!("{good}: {error}"));
    }
    for bad in [
        "organization",
        "organization create",
        "key create --project p --environment prod --name N",
        "key create --project p --environment test --name N --expires-at soon",
        "project approve",
        "project refuse prj_1",
        "user create",
        "user create a@example.com",
        "user reset-link",
        "audit",
        "audit list --limit 0",
        "webhook list",
        "webhook replay --webhook wh_1",
        "webhook replay --webhook wh_1 --since soon",
        "webhook replay --webhook wh_1 --since 2031-01-01 --status pending",
        "thesis erase th_1",
        "ingest",
        "ingest backfill --all",
        "ingest backfill --since 24h",
        "ingest backfill --all --since soon",
        "ingest backfill --all --profile u-1 --since 24h",
        "ingest backfill --token base:0x1 --profile u-1 --since 24h",
        "ingest backfill --token base --since 24h",
    ] {
        let arguments: Vec<_> = std::iter::once("admin").chain(bad.split(' ')).collect();
        assert!(parse(&arguments).is_err(), "{bad}");
    }
}

#[test]
fn listen_has_its_grammar() {
    let given = ["listen", "--key", "svc_test_x", "--forward-to"];
    for good in [
        &["http://localhost:3000/hook"][..],
        &["https://127.0.0.1/a?b=c", "--events", "thesis.created,token.activity", "--events", "profile.updated"],
        &["http://[::1]", "--token", "$RUN,solana:x", "--handle", "a", "--chain", "b", "--secret", "whsec_x"],
        &["http://a", "--api", "https://api.example.com/base/", "--webhook-ca-file", "f"],
    ] {
        let invocation = parse(&[&given[..], good].concat()).unwrap_or_else(|error| panic!("{good:?}: {error}"));
        assert!(!format!("{invocation:?}").contains("svc_test_x"), "{good:?}");
    }
    let wrong_api = ["http://a", "--api", "a"];
    for bad in [&["localhost:3000"][..], &["ftp://a"], &wrong_api, &["http://u:p@a"], &["http://a", "b"]] {
        assert!(parse(&[&given[..], bad].concat()).is_err(), "{bad:?}");
    }
    let said = parse(&["listen"]).unwrap_err();
    assert!(said.contains("--forward-to") && !said.contains('\n'), "{said}");
    let help = command().try_get_matches_from_mut(["trade-thesis", "listen", "--help"]).unwrap_err().to_string();
    assert!(help.contains("[env: SVC_KEY]") && help.contains("[env: SVC_API_URL]"), "{help}");
    assert!(help.contains("SVC_WEBHOOK_CA_FILE") && !help.contains("SVC_HTTP_ADDR"), "{help}");
}

#[test]
fn mcp_has_its_grammar() {
    let invocation = parse(&["mcp", "--key", "svc_test_x", "--api", "https://api.example.com/"]).unwrap();
    assert!(!format!("{invocation:?}").contains("svc_test_x"));
    assert!(parse(&["mcp", "--profile", "live"]).is_ok() && parse(&["mcp", "--api", "a"]).is_err());
    let help = command().try_get_matches_from_mut(["trade-thesis", "mcp", "--help"]).unwrap_err().to_string();
    for variable in ["SVC_KEY", "SVC_PROFILE", "SVC_API_URL"] {
        assert!(help.contains(&format!("[env: {variable}]")), "{help}");
    }
    assert!(!help.contains("SVC_HTTP_ADDR"), "{help}");
}

#[test]
fn api_has_its_grammar() {
    for good in [
        &["list", "--author", "@a", "--after", "24h", "--before", "2026-01-31", "--sort", "likes_desc", "--all"][..],
        &["get", "$RUN", "--activity", "--as-of", "2h", "--profile", "live"],
        &["get", "th_1", "--receipt", "--output", "json"],
        &["search", "to", "the", "moon", "--types", "theses,tokens", "--limit", "50"],
        &["verify", "--author", "@a", "--token", "RUN", "--after", "7d", "--receipt"],
        &["events", "--events", "thesis.created", "--text", "a b", "--limit", "1000"],
        &["tail", "--from", "2026-01-31", "--to", "2026-02-01", "--speed", "60", "--cursor", "AV_x"],
        &["webhooks", "create", "--url", "https://a", "--events", "thesis.created", "--header", "X-A: b"],
        &["webhooks", "deliveries", "wh_1", "--status", "failed", "--key", "svc_test_x", "--api", "http://a"],
        &["usage"],
        &["login", "--profile", "live"],
    ] {
        let invocation = parse(&[&["api"][..], good].concat()).unwrap_or_else(|error| panic!("{good:?}: {error}"));
        assert!(!format!("{invocation:?}").contains("svc_test_x"), "{good:?}");
    }
    for bad in [
        &[][..],
        &["list", "--limit", "0"],
        &["list", "--limit", "5", "--all"],
        &["list", "--after", "soon"],
        &["get"],
        &["get", "RUN", "--activity", "--velocity"],
        &["search"],
        &["verify", "--author", "@a", "--token", "RUN"],
        &["tail", "--to", "2026-02-01"],
        &["webhooks", "create"],
        &["webhooks", "create", "--url", "https://a", "--header", "X"],
        &["usage", "--output", "xml"],
        &["usage", "--api", "a"],
    ] {
        assert!(parse(&[&["api"][..], bad].concat()).is_err(), "{bad:?}");
    }
    let said = |words: &[&str]| {
        let arguments = [&["trade-thesis"][..], words, &["--help"]].concat();
        command().try_get_matches_from_mut(arguments).unwrap_err().to_string()
    };
    for help in [said(&["api", "list"]), said(&["api", "webhooks", "create"]), said(&["listen"])] {
        assert!(help.contains("[env: SVC_KEY]") && help.contains("[env: SVC_PROFILE]"), "{help}");
        assert!(!help.contains("SVC_HTTP_ADDR"), "{help}");
    }
}

#[test]
fn shells_and_man_know_every_command() {
    let folder = tempfile::tempdir().unwrap();
    clap_mangen::generate_to(for_manual(), folder.path()).unwrap();
    let page = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(page("trade-thesis.1").contains("SVC_HTTP_ADDR"));
    let list = page("trade-thesis-api-list.1");
    assert!(list.contains("SVC_KEY") && list.contains("author") && !list.contains("SVC_HTTP_ADDR"), "{list}");
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().contains("help")), "{names:?}");
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut for_completion(), "trade-thesis", &mut script);
        let script = String::from_utf8(script).unwrap();
        assert!(script.contains("webhooks") && script.contains("rotate-secret"), "{shell}");
    }
}

#[test]
fn receipts_and_witnesses_have_their_grammar() {
    let log_key = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";
    let witness_key = "witness.example/one+ffad3eff+BNsZBfWC7iDlFPADgVzlX4F4rpa/x5Mzb41ejz+ZuXHJ";
    for good in [
        &["receipt", "verify", "receipt.json"][..],
        &["receipt", "verify", "--json", "receipt.json", "--key", log_key, "--witness", witness_key],
        &["witness", "--name", "w.example/ann", "--key", log_key, "--listen", "[::1]:0", "--data-dir=d"],
    ] {
        parse(good).unwrap_or_else(|error| panic!("{good:?}: {error}"));
    }
    for bad in [
        &["receipt"][..],
        &["receipt", "verify"],
        &["receipt", "verify", "a", "b"],
        &["receipt", "verify", "a", "--key", "b"],
        &["receipt", "verify", "a", "--witness", log_key],
        &["witness", "--name", "w.example/ann"],
        &["witness", "--key", log_key],
        &["witness", "--name", "two words", "--key", log_key],
    ] {
        assert!(parse(bad).is_err(), "{bad:?}");
    }
    let help = |command_name: &str| {
        command().try_get_matches_from_mut(["trade-thesis", command_name, "--help"]).unwrap_err().to_string()
    };
    assert!(!help("receipt").contains("SVC_") && help("witness").contains("SVC_DATA_DIR"), "{}", help("witness"));
    assert!(!help("witness").contains("SVC_HTTP_ADDR"), "{}", help("witness"));
}

#[test]
fn upstream_sim_has_its_grammar() {
    let token = "a token of the upstream";
    let given = ["upstream-sim", "--token", token];
    for good in [
        &["--listen", "[::1]:0", "--seed", "7", "--profiles", "5", "--tokens", "5", "--rate", "0.5"][..],
        &["--history", "30m", "--history-theses", "0", "--fault-silent", "--fault-refuse-feed"],
        &["--fault-error-share", "0.5", "--fault-error-status", "429", "--fault-retry-after-s", "3"],
    ] {
        let invocation = parse(&[&given[..], good].concat()).unwrap_or_else(|error| panic!("{good:?}: {error}"));
        assert!(!format!("{invocation:?}").contains(token), "{good:?}");
    }
    for bad in [
        &["--rate=-1"][..],
        &["--history", "24"],
        &["--fault-cut-share", "1.5"],
        &["--fault-error-status", "200"],
        &["--listen", "localhost"],
    ] {
        assert!(parse(&[&given[..], bad].concat()).is_err(), "{bad:?}");
    }
    let help = command().try_get_matches_from_mut(["trade-thesis", "upstream-sim", "--help"]).unwrap_err().to_string();
    assert!(help.contains("[env: SVC_UPSTREAM_TOKEN]") && help.contains("--fault-garbage-share"), "{help}");
    assert!(!help.contains("SVC_HTTP_ADDR"), "{help}");
}
