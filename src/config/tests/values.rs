//! Settings that can be used: their defaults, and what is made of them.

use secrecy::ExposeSecret as _;

use super::settings;
use crate::config::StoreKind;

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
    assert!(!accounts.invited_only && !accounts.invites_strangers && accounts.mail.is_none() && accounts.set_up);
}

#[test]
fn mail_needs_a_server_and_a_sender() {
    let given = ["--sign-up=invited", "--smtp-url=smtps://me:secret@mail.example", "--mail-from=T <t@mail.example>"];
    let given = [&given[..], &["--invite-strangers=true"][..]].concat();
    let accounts = settings(&given).accounts.settings(false).unwrap();
    let mail = accounts.mail.unwrap();
    assert!(accounts.invited_only && accounts.invites_strangers && !accounts.set_up);
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
