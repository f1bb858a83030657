mod addresses;
mod urls;

use std::net::IpAddr;

use proptest::prelude::*;

use self::{
    addresses::ADDRESSES,
    urls::{REPAIRED, URLS},
};
use super::*;

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Where a URL leads, whatever its form.
fn destination(url: &str, livemode: bool) -> Result<(String, u16), Refusal> {
    judge_url(url, livemode, &[]).map(|target| (target.host.to_string(), target.port))
}

#[test]
fn every_url_has_its_verdict() {
    assert!(URLS.iter().filter(|(_, verdict)| verdict.is_err()).count() >= 150);
    for &(url, verdict) in URLS {
        let verdict = verdict.map(|(host, port)| (host.to_owned(), port));
        assert_eq!(destination(url, false), verdict, "{url:?}");
        assert_eq!(judge_form(url).and(destination(url, false)), verdict, "as given: {url:?}");
        assert_eq!(destination(url, true).ok(), verdict.ok(), "live: {url:?}");
    }
}

#[test]
fn a_url_is_not_repaired() {
    for &(url, refusal, repaired) in REPAIRED {
        assert_eq!(judge_form(url), Err(refusal), "{url:?}");
        assert_eq!(destination(url, false), repaired.map(|(host, port)| (host.to_owned(), port)), "{url:?}");
    }
}

#[test]
fn every_address_has_its_verdict() {
    for &(text, verdict) in ADDRESSES {
        let address: IpAddr = text.parse().unwrap();
        assert_eq!(judge_address(address, &[]), verdict, "{text}");
        let url = if address.is_ipv6() { format!("https://[{text}]/") } else { format!("https://{text}/") };
        assert_eq!(judge_form(&url), Ok(()), "{url}");
        assert_eq!(destination(&url, true).map(|_| ()), verdict, "{url}");
    }
}

#[test]
fn an_allowed_url_is_allowed_when_it_is_normalised() {
    for (url, _) in URLS.iter().filter(|(_, verdict)| verdict.is_ok()) {
        let target = judge_url(url, true, &[]).unwrap();
        assert_eq!(target.url.host_str(), Some(target.host.to_string().as_str()), "{url:?}");
        assert_eq!(judge_form(target.url.as_str()), Ok(()), "{url:?}");
        assert_eq!(judge_url(target.url.as_str(), true, &[]), Ok(target), "{url:?}");
    }
}

#[test]
fn live_needs_https() {
    assert_eq!(judge_url("http://hooks.example.com/", true, &[]), Err(Refusal::Scheme));
    assert_eq!(judge_url("http://hooks.example.com/", false, &[]).unwrap().port, 80);
    assert_eq!(judge_url("http://hooks.example.com:443/", false, &[]).unwrap().port, 443);
}

#[test]
fn operators_exceptions_lift_address_rules_only() {
    let allow = nets(&["127.0.0.0/8", "10.1.0.0/16", "fd00:1::/32"]);
    let judge = |url: &str| judge_url(url, false, &allow).map(|_| ());
    assert_eq!(judge("http://127.0.0.1:8081/"), Ok(()));
    assert_eq!(judge("http://2130706433:8081/"), Ok(()));
    assert_eq!(judge("http://10.1.2.3/"), Ok(()));
    assert_eq!(judge("http://[fd00:1::5]/"), Ok(()));
    assert_eq!(judge("http://[::ffff:127.0.0.1]/"), Ok(()));
    assert_eq!(judge("http://10.2.0.1/"), Err(Refusal::Private));
    assert_eq!(judge("http://[fd00:2::5]/"), Err(Refusal::Private));
    assert_eq!(judge("http://[::1]/"), Err(Refusal::Loopback));
    assert_eq!(judge("http://[::127.0.0.1]/"), Err(Refusal::Reserved), "only its IPv4 part is allowed");
    assert_eq!(judge("http://127.0.0.1:22/"), Err(Refusal::Port));
    assert_eq!(judge("http://127.0.0.1:6379/"), Err(Refusal::Port));
    assert_eq!(judge("http://localhost:8081/"), Err(Refusal::Loopback));
    assert_eq!(judge("http://a@127.0.0.1/"), Err(Refusal::Credentials));
    assert_eq!(judge_url("http://127.0.0.1:8081/", true, &allow), Err(Refusal::Scheme));
    let nat64: IpAddr = "64:ff9b::10.0.0.1".parse().unwrap();
    assert_eq!(judge_address(nat64, &nets(&["64:ff9b::/96"])), Err(Refusal::Private), "both are judged");
    assert_eq!(judge_address(nat64, &nets(&["10.0.0.0/8"])), Ok(()));
}

#[test]
fn ports_are_listed_once_in_order() {
    assert!(INFRASTRUCTURE_PORTS.is_sorted_by(|a, b| a < b));
    assert!(INFRASTRUCTURE_PORTS.iter().all(|port| *port >= 1024));
}

proptest! {
    /// A refused IPv4 address is refused in every form that reaches it.
    #[test]
    fn disguises_change_nothing(bits: u32) {
        let [a, b, c, d] = bits.to_be_bytes();
        let plain = judge_address(IpAddr::V4(bits.into()), &[]);
        for url in [
            format!("http://{bits}/"),
            format!("http://{bits:#x}/"),
            format!("http://0{bits:o}/"),
            format!("http://0{a:o}.{b:#x}.{c}.{d}./"),
            format!("http://[::ffff:{a}.{b}.{c}.{d}]/"),
            format!("http://[64:ff9b::{a}.{b}.{c}.{d}]/"),
        ] {
            prop_assert_eq!(judge_url(&url, false, &[]).map(|_| ()), plain, "{}", url);
        }
        if plain.is_err() {
            let inside = [
                format!("http://[2002:{a:02x}{b:02x}:{c:02x}{d:02x}::1]/"),
                format!("http://[64:ff9b:1::{a}.{b}.{c}.{d}]/"),
            ];
            for url in inside {
                prop_assert_eq!(judge_url(&url, false, &[]).map(|_| ()), plain, "{}", url);
            }
        }
    }

    #[test]
    fn never_panics(url in ".{0,60}|https?://[\\PC]{0,40}") {
        let _ = judge_url(&url, false, &[]);
    }
}
