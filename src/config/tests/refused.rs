//! Settings that cannot be used: each is named, and no secret is shown.

use std::{fs, sync::Arc};

use core_service::store::scylla::ConnectError;
use scylla::errors::NewSessionError;
use secrecy::ExposeSecret as _;
use thesis_net::clock::{SharedClock, SystemClock};
use thesis_receipts::{KeyKind, SigningKey};

use super::{parse, settings};
use crate::config::{decode_secret, encode_secret};

#[test]
fn what_cannot_be_read_is_named_by_its_variable_in_one_line() {
    for (arguments, variable) in [
        (&["--http-addr", "localhost"][..], "SVC_HTTP_ADDR"),
        (&["--internal-addr", "10.0.0.5"], "SVC_INTERNAL_ADDR"),
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
        (&["--invite-strangers", "maybe"], "SVC_INVITE_STRANGERS"),
        (&["--witnesses", "https://witness.example"], "SVC_WITNESSES"),
    ] {
        let said = parse(arguments).unwrap_err();
        assert!(said.starts_with(&format!("{variable}: ")) && !said.contains('\n'), "{arguments:?}: {said}");
    }
}

#[test]
fn internal_services_stay_on_this_machine_or_have_an_address_of_their_own() {
    let judged = |arguments: &[&str]| settings(arguments).addresses.judge_internal();
    for here in ["127.0.0.1:50051", "127.9.9.9:1", "[::1]:50051", "[::ffff:127.0.0.1]:50051"] {
        assert!(judged(&["--grpc-addr", here]).is_ok(), "{here}");
    }
    for elsewhere in ["0.0.0.0:50051", "[::]:50051", "10.0.0.5:50051"] {
        let said = judged(&["--grpc-addr", elsewhere]).unwrap_err().to_string();
        assert!(said.starts_with(&format!("SVC_GRPC_ADDR: {elsewhere} is no loopback address")), "{said}");
        assert!(said.contains("; set SVC_INTERNAL_ADDR to an address of the private network"), "{said}");
        assert!(judged(&["--grpc-addr", elsewhere, "--internal-addr", "127.0.0.1:50052"]).is_ok(), "{elsewhere}");
    }
    assert!(judged(&[]).is_ok());
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
    let in_bucket = format!("s3://me:{secret}@bucket/a");
    // A comma in a password cuts the list.
    let at_a_node = format!("b,me:{secret},3@a:9042");
    for (arguments, variable) in [
        (&["--semantic-search-enabled", "true"][..], "SEMANTIC_SEARCH_ENABLED"),
        (&["--secret-key", secret], "SVC_SECRET_KEY"),
        (&["--service-token", &secret[..31]], "SVC_SERVICE_TOKEN"),
        (&["--log-key", secret], "SVC_LOG_KEY"),
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
        (&["--scylla-nodes", &at_a_node], "SVC_SCYLLA_NODES"),
        (&["--scylla-nodes", "a", "--scylla-user", "u"], "SVC_SCYLLA_PASSWORD"),
        (&["--archive-url", "https://a/b"], "SVC_ARCHIVE_URL"),
        (&["--archive-url", "archive"], "SVC_ARCHIVE_URL"),
        (&["--archive-url", &in_bucket], "SVC_ARCHIVE_URL"),
        (&["--upstream-url", "http://a"], "SVC_UPSTREAM_TOKEN"),
        (&["--upstream-url", "http://a", "--upstream-token", &spaced], "SVC_UPSTREAM_TOKEN"),
        (&["--upstream-token", secret], "SVC_UPSTREAM_URL"),
        (&["--smtp-url", "smtp://a"], "SVC_MAIL_FROM"),
        (&["--smtp-url", "smtp://a", "--mail-from", "nobody"], "SVC_MAIL_FROM"),
        (&["--smtp-url", "smtp://a", "--mail-from", &half], "SVC_MAIL_FROM"),
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
            settings.keys.log_key()?;
            settings.keys.bootstrap(&settings.keys.plans()?)?;
            settings.webhooks.root_certificate()?;
            settings.tls.identity(&(Arc::new(SystemClock) as SharedClock))?;
            settings.tls.authorities()?;
            settings.store.archive_url()?;
            settings.store.scylla().map(drop)
        };
        let said = judged().unwrap_err().to_string();
        assert!(said.starts_with(&format!("{variable}: ")) && !said.contains(&secret[..31]), "{arguments:?}: {said}");
    }
}

/// The key of a log, from the specification of signed notes.
const LOG_KEY: &str = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";

#[test]
fn a_wrong_value_is_told_with_what_it_must_be() {
    let log_key = format!("{LOG_KEY} https://witness.example");
    for (arguments, value, form) in [
        (["--drain-seconds", "abc"], "'abc'", "it must be a whole number from 0 to 300"),
        (["--drain-seconds", "301"], "'301'", "it must be a whole number from 0 to 300"),
        (["--scylla-keyspace", "system"], "'system'", "set another name"),
        (["--scylla-keyspace", "system_auth"], "'system_auth'", "set another name"),
        (["--witnesses", "https://a"], "'https://a'", "a witness is its key, a space and its URL"),
        (["--witnesses", &log_key], LOG_KEY, "is the key of a log, and not of a witness"),
        (["--witnesses", "a+b+c https://a"], "'a+b+c https://a'", "as in the log's list of keys"),
    ] {
        let said = parse(&arguments).unwrap_err();
        assert!(said.contains(value) && said.ends_with(form), "{said}");
    }
    assert!(parse(&["--scylla-keyspace", "system_of_mine"]).is_ok());
    let accounts = settings(&["--smtp-url", "smtp://a", "--mail-from", "nobody"]).accounts;
    let said = accounts.settings(true).map(drop).unwrap_err().to_string();
    assert!(said.starts_with("SVC_MAIL_FROM: `nobody` ") && said.ends_with("Theses <noreply@example.com>`"), "{said}");
}

/// A witness with its URL.
fn witness(name: &str, seed: u8) -> String {
    let key = SigningKey::from_seed(&[seed; 32]).verifier(name, KeyKind::Witness);
    format!("{key} https://witness.example/{name}")
}

#[test]
fn witnesses_of_a_cluster_need_the_key_of_its_log() {
    let (one, key) = (witness("a", 1), encode_secret([8; 32]));
    let found = |arguments: &[&str]| settings(arguments).keys.cluster_log_key().map_err(|error| error.to_string());
    let expected =
        "SVC_LOG_KEY: is not set, but SVC_WITNESSES needs it with SVC_STORE=scylla; set both, or neither".to_owned();
    assert_eq!(found(&["--witnesses", &one]), Err(expected));
    assert_eq!(found(&["--witnesses", &one, "--log-key", &key]), Ok(Some([8; 32])));
    assert_eq!(found(&[]), Ok(None));
}

#[test]
fn up_to_16_witnesses_with_distinct_names_and_keys_are_accepted() {
    let judged = |witnesses: &[String]| {
        let judged = settings(&["--witnesses", &witnesses.join(",")]).keys.witnesses();
        judged.map(|witnesses| witnesses.len()).map_err(|error| error.to_string())
    };
    let all: Vec<String> = (1..=17).map(|number| witness(&format!("w{number}"), number)).collect();
    assert_eq!((judged(&all[..16]), settings(&[]).keys.witnesses().map(|none| none.len()).ok()), (Ok(16), Some(0)));
    for (witnesses, reason) in [
        (all, "17 witnesses are named"),
        (vec![witness("a", 1), witness("b", 2), witness("a", 3)], "two witnesses have the name `a`"),
        (vec![witness("a", 1), witness("b", 1)], "`a` and `b` have the same key"),
    ] {
        let expected = format!("SVC_WITNESSES: {reason}; name 16 witnesses at most, each once");
        assert_eq!(judged(&witnesses), Err(expected));
    }
    // A list may have each witness on its own line.
    assert_eq!(judged(&[witness("a", 1), format!("\n  {}\n", witness("b", 2).replace(' ', "  "))]), Ok(2));
}

#[test]
fn nodes_that_are_not_reached_perhaps_speak_tls_or_do_not() {
    let error = ConnectError::Session(Box::new(NewSessionError::EmptyKnownNodesList));
    let text = |arguments: &[&str]| settings(arguments).store.refused(&error).to_string();
    assert!(text(&[]).contains("needs SVC_SCYLLA_CA_FILE"));
    assert!(text(&["--scylla-ca-file", "root.pem"]).contains("leave out SVC_SCYLLA_CA_FILE"));
}

#[test]
fn settings_show_no_secret() {
    let key = |prefix: &str| format!("{prefix}0123456789abcdefghijklmnopqrstuvwxyzABCD");
    let (test_key, live_key) = (key("svc_test_"), key("svc_live_"));
    let (secret_key, token) = (encode_secret([7; 32]), key("service-token-"));
    let log_key = encode_secret([8; 32]);
    let secrets = [
        ("--secret-key", secret_key.as_str()),
        ("--service-token", &token),
        ("--log-key", &log_key),
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
