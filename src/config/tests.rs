use std::{fs, sync::Arc};

use clap::{FromArgMatches as _, error::ErrorKind};
use secrecy::ExposeSecret as _;
use thesis_net::clock::{SharedClock, SystemClock};

use super::*;
use crate::command::{Command, Invocation, command, explain};

fn parse(arguments: &[&str]) -> Result<Invocation, String> {
    let mut command = command();
    let arguments = std::iter::once(&"trade-thesis").chain(arguments);
    let parsed = command.try_get_matches_from_mut(arguments).and_then(|matches| Invocation::from_arg_matches(&matches));
    parsed.map_err(|error| explain(&error, &command))
}

fn settings(arguments: &[&str]) -> Settings {
    parse(arguments).unwrap().settings
}

#[test]
fn defaults_need_nothing() {
    let settings = settings(&[]);
    assert_eq!(settings.addresses.http_addr.to_string(), "127.0.0.1:8080");
    assert_eq!(settings.addresses.core_url, ["http://127.0.0.1:50051"]);
    assert_eq!(settings.store.kind, StoreKind::Embedded);
    assert_eq!(settings.features.sandbox_tick_seconds, 45);
    let features = settings.features.features().unwrap();
    assert!(features.profiles && features.theses && features.streams && !features.wallets);
    let plans = settings.keys.plans().unwrap();
    assert_eq!(plans["free"].history_days, 7);
    assert_eq!(plans["pro"].requests_per_month, 10_000_000);
    assert_eq!(plans["business"].heavy_per_minute, 240);
    let bootstrap = settings.keys.bootstrap(&plans).unwrap();
    assert!(bootstrap.test_key.is_none() && bootstrap.live_key.is_none() && bootstrap.plan.is_none());
    assert!(settings.upstream.settings().unwrap().is_none());
    let accounts = settings.accounts.settings(true).unwrap();
    assert!(!accounts.invited_only && accounts.mail.is_none() && accounts.set_up);
}

#[test]
fn mail_needs_a_server_and_a_sender() {
    let given = ["--sign-up=invited", "--smtp-url=smtps://me:secret@mail.example", "--mail-from=T <t@mail.example>"];
    let accounts = settings(&given).accounts.settings(false).unwrap();
    let mail = accounts.mail.unwrap();
    assert!(accounts.invited_only && !accounts.set_up);
    assert_eq!(mail.url.expose_secret(), "smtps://me:secret@mail.example");
    assert_eq!(mail.from, "T <t@mail.example>");
}

#[test]
fn an_upstream_has_an_address_a_token_and_limits() {
    let read = |arguments: &[&str]| {
        let given = ["--upstream-url", "https://up.example.com:8443/v2/base/", "--upstream-token", "a-token!"];
        settings(&[&given[..], arguments].concat()).upstream.settings().unwrap().unwrap()
    };
    for wrong in
        ["up.example.com", "https://up.example.com/?a=b", "ftp://up.example.com", "https://me:secret@up.example.com"]
    {
        let said =
            settings(&["--upstream-url", wrong, "--upstream-token", "a-token!"]).upstream.settings().unwrap_err();
        let said = said.to_string();
        assert!(said.starts_with("SVC_UPSTREAM_URL: ") && !said.contains(wrong), "{said}");
    }
    let upstream = read(&[]);
    assert_eq!(upstream.url.as_str(), "https://up.example.com:8443/v2/base/");
    assert_eq!(upstream.token.expose_secret(), "a-token!");
    assert_eq!((upstream.timeout.as_millis(), upstream.rps), (2_000, 20));
    assert_eq!((upstream.backfill.as_secs(), upstream.refresh.as_secs()), (86_400, 600));
    let limits = ["--upstream-timeout-ms=100", "--upstream-rps=10000", "--upstream-refresh-seconds=1"];
    let upstream = read(&limits);
    assert_eq!((upstream.timeout.as_millis(), upstream.rps, upstream.refresh.as_secs()), (100, 10_000, 1));
    for (span, seconds) in [("0s", 0), ("30m", 1_800), ("7d", 604_800), ("365d", 31_536_000)] {
        assert_eq!(read(&["--upstream-backfill", span]).backfill.as_secs(), seconds, "{span}");
    }
}

#[test]
fn other_cores_find_this_one_where_it_listens() {
    let at = |text: &str, nodes: &[&str]| {
        let nodes: Vec<String> = nodes.iter().map(|node| (*node).to_owned()).collect();
        settings(&[]).addresses.advertise_url("http", text.parse().unwrap(), &nodes)
    };
    assert_eq!(at("192.0.2.1:50051", &["127.0.0.1:9042"]), "http://192.0.2.1:50051");
    assert_eq!(at("0.0.0.0:50051", &["127.0.0.1:9042"]), "http://127.0.0.1:50051");
    assert_eq!(at("0.0.0.0:50051", &["127.0.0.1"]), "http://127.0.0.1:50051");
    assert_eq!(at("0.0.0.0:50051", &["nowhere.invalid", "127.0.0.1"]), "http://127.0.0.1:50051");
    assert_eq!(at("[::]:7", &[]), "http://[::1]:7");
    // Where the cluster is elsewhere, other cores may be too.
    assert_eq!(at("127.0.0.1:50051", &["127.0.0.1:9042"]), "http://127.0.0.1:50051");
    assert_eq!(at("127.0.0.1:50051", &["192.0.2.7:9042"]), "");
    let secure = settings(&["--tls-cert=cert.pem"]);
    assert_eq!(secure.addresses.public_url(secure.tls.scheme(), ([127, 0, 0, 1], 80).into()), "https://127.0.0.1:80");
    let at = secure.addresses.advertise_url(secure.tls.scheme(), ([192, 0, 2, 1], 50051).into(), &[]);
    assert_eq!(at, "https://192.0.2.1:50051");
    let given = settings(&["--advertise-url=http://core-1:50051"]).addresses;
    assert_eq!(given.advertise_url("http", "0.0.0.0:1".parse().unwrap(), &[]), "http://core-1:50051");
    let refused = given.judge_advertised("https").unwrap_err().to_string();
    assert!(refused.starts_with("SVC_ADVERTISE_URL: `http://core-1:50051` is plain"), "{refused}");
    assert!(given.judge_advertised("http").is_ok());
    // Something before this core may speak TLS in its place.
    let secure = settings(&["--advertise-url=https://core-1:50051"]).addresses;
    assert!(secure.judge_advertised("https").is_ok() && secure.judge_advertised("http").is_ok());
}

#[test]
fn settings_may_stand_before_and_behind_the_command() {
    for arguments in [["--http-addr", "[::1]:0", "edge"], ["edge", "--http-addr", "[::1]:0"]] {
        let invocation = parse(&arguments).unwrap();
        assert!(matches!(invocation.command, Some(Command::Edge)));
        assert_eq!(invocation.settings.addresses.http_addr.to_string(), "[::1]:0");
    }
}

#[test]
fn lists_and_addresses_are_read() {
    let settings = settings(&[
        "--core-url=http://a:1/,https://b:2",
        "--trusted-proxies=10.0.0.0/8,::1",
        "--dns-servers=9.9.9.9,[::1]:5353",
        "--http-addr=0.0.0.0:80",
    ]);
    let public = |url: &str| self::settings(&["--public-url", url]).addresses.public_url.unwrap();
    assert_eq!(public("https://example.com/"), "https://example.com");
    assert_eq!(public("http://example.com:8080"), "http://example.com:8080");
    assert_eq!(public("http://[::1]:8080"), "http://[::1]:8080");
    assert_eq!(settings.addresses.core_url, ["http://a:1", "https://b:2"]);
    let proxies: Vec<_> = settings.addresses.trusted_proxies.iter().map(ToString::to_string).collect();
    assert_eq!(proxies, ["10.0.0.0/8", "::1/128"]);
    let servers: Vec<_> = settings.webhooks.dns_servers.iter().map(ToString::to_string).collect();
    assert_eq!(servers, ["9.9.9.9:53", "[::1]:5353"]);
    assert_eq!(settings.addresses.public_url("http", settings.addresses.http_addr), "http://127.0.0.1:80");
}

#[test]
fn what_cannot_be_read_is_named_by_its_variable_in_one_line() {
    for (arguments, variable) in [
        (&["--http-addr", "localhost"][..], "SVC_HTTP_ADDR"),
        (&["--store", "sqlite"], "SVC_STORE"),
        (&["--core-url", "core:50051"], "SVC_CORE_URL"),
        (&["edge", "--core-url", "http://a:1,ftp://b"], "SVC_CORE_URL"),
        (&["--public-url", "example.com"], "SVC_PUBLIC_URL"),
        (&["--public-url", "https://example.com/theses"], "SVC_PUBLIC_URL"),
        (&["--public-url", "https://example.com/?a=b"], "SVC_PUBLIC_URL"),
        (&["--public-url", "http://a;b"], "SVC_PUBLIC_URL"),
        (&["--public-url", "http://a\"b"], "SVC_PUBLIC_URL"),
        (&["--trusted-proxies", "10.0.0.0/33"], "SVC_TRUSTED_PROXIES"),
        (&["--webhook-allow-networks", "x"], "SVC_WEBHOOK_ALLOW_NETWORKS"),
        (&["--dns-servers", "dns.example"], "SVC_DNS_SERVERS"),
        (&["--sandbox-tick-seconds=-1"], "SVC_SANDBOX_TICK_SECONDS"),
        (&["--drain-seconds=301"], "SVC_DRAIN_SECONDS"),
        (&["--drain-seconds=1.5"], "SVC_DRAIN_SECONDS"),
        (&["--upstream-timeout-ms=99"], "SVC_UPSTREAM_TIMEOUT_MS"),
        (&["--upstream-timeout-ms=60001"], "SVC_UPSTREAM_TIMEOUT_MS"),
        (&["--upstream-rps=0"], "SVC_UPSTREAM_RPS"),
        (&["--upstream-rps=10001"], "SVC_UPSTREAM_RPS"),
        (&["--upstream-backfill=24"], "SVC_UPSTREAM_BACKFILL"),
        (&["--upstream-backfill=366d"], "SVC_UPSTREAM_BACKFILL"),
        (&["--upstream-refresh-seconds=0"], "SVC_UPSTREAM_REFRESH_SECONDS"),
        (&["--upstream-refresh-seconds=86401"], "SVC_UPSTREAM_REFRESH_SECONDS"),
        (&["--scylla-replication-factor", "0"], "SVC_SCYLLA_REPLICATION_FACTOR"),
        (&["--theses-api-enabled", "yes"], "THESES_API_ENABLED"),
        (&["--sign-up", "closed"], "SVC_SIGN_UP"),
    ] {
        let said = parse(arguments).unwrap_err();
        assert!(said.starts_with(&format!("{variable}: ")) && !said.contains('\n'), "{arguments:?}: {said}");
    }
}

#[test]
fn a_wrong_url_is_told_without_its_password() {
    for flag in ["--otlp-url", "--core-url", "--advertise-url", "--public-url"] {
        for wrong in
            ["http://user:hunter2@c:4318", "http://hunter2@c", "user:hunter2@c", "http://c:1,http://u:hunter2,3@c"]
        {
            let said = parse(&[flag, wrong]).unwrap_err();
            assert!(!said.contains("hunter2") && said.contains(&format!(": invalid value for '{flag} <URL")), "{said}");
        }
        assert!(parse(&[flag, "http://user:hunter2@c"]).unwrap_err().contains(": it may hold no credentials"));
        let said = parse(&[flag, "c:4318/path"]).unwrap_err();
        assert!(said.contains("'c:4318/path'") && said.contains("it must begin with http:// or https://"), "{said}");
        assert!(parse(&[flag, "c"]).unwrap_err().contains("it must begin with http:// or https://"));
    }
    let said = parse(&["--ops-addr", "localhost:80"]).unwrap_err();
    assert!(said.ends_with("it must be an IP address and a port, such as 0.0.0.0:8080"), "{said}");
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
fn what_cannot_be_used_is_named_without_telling_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        fs::write(dir.path().join(name), text).unwrap();
        dir.path().join(name).display().to_string()
    };
    let no_plan = file("none.toml", "[plans]");
    let half_plan = file("half.toml", "[plans.free]\nhistory_days = 7");
    let secret = "0123456789abcdefghijklmnopqrstuvwxyzABCD";
    let (live, spaced) = (format!("svc_live_{secret}"), format!("{secret} {secret}"));
    let [ftp, half] = [format!("ftp://me:{secret}@a"), format!("smtp://{secret}@a")];
    for (arguments, variable) in [
        (&["--semantic-search-enabled", "true"][..], "SEMANTIC_SEARCH_ENABLED"),
        (&["--secret-key", secret], "SVC_SECRET_KEY"),
        (&["--service-token", &secret[..31]], "SVC_SERVICE_TOKEN"),
        (&["--bootstrap-test-key", &live], "SVC_BOOTSTRAP_TEST_KEY"),
        (&["--bootstrap-live-key", secret], "SVC_BOOTSTRAP_LIVE_KEY"),
        (&["--bootstrap-plan", "gold"], "SVC_BOOTSTRAP_PLAN"),
        (&["--plans-file", "/nowhere"], "SVC_PLANS_FILE"),
        (&["--plans-file", &no_plan], "SVC_PLANS_FILE"),
        (&["--plans-file", &half_plan], "SVC_PLANS_FILE"),
        (&["--webhook-ca-file", "/nowhere"], "SVC_WEBHOOK_CA_FILE"),
        (&["--tls-cert", "/nowhere"], "SVC_TLS_KEY"),
        (&["--tls-key", "/nowhere"], "SVC_TLS_CERT"),
        (&["--tls-cert", "/nowhere", "--tls-key", "/nowhere"], "SVC_TLS_CERT"),
        (&["--core-ca-file", "/nowhere"], "SVC_CORE_CA_FILE"),
        (&["--core-ca-file", &no_plan], "SVC_CORE_CA_FILE"),
        (&["--scylla-nodes", "a,"], "SVC_SCYLLA_NODES"),
        (&["--scylla-nodes", "a", "--scylla-user", "u"], "SVC_SCYLLA_PASSWORD"),
        (&["--upstream-url", "http://a"], "SVC_UPSTREAM_TOKEN"),
        (&["--upstream-url", "http://a", "--upstream-token", &spaced], "SVC_UPSTREAM_TOKEN"),
        (&["--upstream-token", secret], "SVC_UPSTREAM_URL"),
        (&["--smtp-url", "smtp://a"], "SVC_MAIL_FROM"),
        (&["--smtp-url", "smtp://a", "--mail-from", secret], "SVC_MAIL_FROM"),
        (&["--mail-from", "a@example.com"], "SVC_SMTP_URL"),
        (&["--smtp-url", &ftp, "--mail-from", "a@example.com"], "SVC_SMTP_URL"),
        (&["--smtp-url", &half, "--mail-from", "a@example.com"], "SVC_SMTP_URL"),
    ] {
        let settings = settings(arguments);
        let judged = || {
            settings.features.features()?;
            settings.upstream.settings()?;
            settings.accounts.settings(true)?;
            settings.keys.secret_key()?;
            settings.keys.service_token()?;
            settings.keys.bootstrap(&settings.keys.plans()?)?;
            settings.webhooks.root_certificate()?;
            settings.tls.identity(&(Arc::new(SystemClock) as SharedClock))?;
            settings.tls.authorities()?;
            settings.store.scylla().map(drop)
        };
        let said = judged().unwrap_err().to_string();
        assert!(said.starts_with(&format!("{variable}: ")) && !said.contains(&secret[..31]), "{arguments:?}: {said}");
    }
}

#[test]
fn settings_show_no_secret() {
    let key = |prefix: &str| format!("{prefix}0123456789abcdefghijklmnopqrstuvwxyzABCD");
    let (test_key, live_key) = (key("svc_test_"), key("svc_live_"));
    let (secret_key, token) = (encode_secret([7; 32]), key("service-token-"));
    let secrets = [
        ("--secret-key", secret_key.as_str()),
        ("--service-token", &token),
        ("--bootstrap-test-key", &test_key),
        ("--bootstrap-live-key", &live_key),
        ("--scylla-password", "a password of the cluster"),
        ("--upstream-token", "a token of the upstream"),
        ("--smtp-url", "smtp://me:password@mail.example"),
    ];
    let arguments: Vec<&str> = secrets.iter().flat_map(|(flag, secret)| [*flag, *secret]).collect();
    let invocation = parse(&arguments).unwrap();
    let keys = &invocation.settings.keys;
    let bootstrap = keys.bootstrap(&keys.plans().unwrap()).unwrap();
    let shown = format!("{invocation:?} {invocation:#?} {bootstrap:?}");
    for (flag, secret) in secrets {
        assert!(!shown.contains(secret), "{flag} shows: {shown}");
    }
    assert_eq!(keys.service_token().unwrap().unwrap().expose_secret(), token);
}

#[test]
fn secrets_are_32_bytes_in_base64() {
    let text = encode_secret([7; 32]);
    assert_eq!(decode_secret("X", &text).unwrap(), [7; 32]);
    assert_eq!(decode_secret("X", text.trim_end_matches('=')).unwrap(), [7; 32]);
    assert!(decode_secret("X", "c2hvcnQ=").is_err());
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
        let told = arg.get_help().unwrap().to_string().contains("[default: ");
        assert!(told || !arg.get_default_values().is_empty(), "{variable} has no default in its help");
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
        "user reset-link a@example.com --json",
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
    assert!(said.contains("--key") && said.contains("--forward-to") && !said.contains('\n'), "{said}");
    let help = command().try_get_matches_from_mut(["trade-thesis", "listen", "--help"]).unwrap_err().to_string();
    assert!(help.contains("[env: SVC_KEY]") && help.contains("[env: SVC_API_URL]"), "{help}");
    assert!(help.contains("SVC_WEBHOOK_CA_FILE") && !help.contains("SVC_HTTP_ADDR"), "{help}");
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
