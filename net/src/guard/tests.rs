use std::net::IpAddr;

use proptest::prelude::*;

use super::*;

/// URLs refused on test webhooks, which may use `http`; live ones differ in nothing else.
const REFUSED: &[(&str, Refusal)] = &[
    // Schemes and things that are no URL.
    ("ftp://hooks.example.com/", Refusal::Scheme),
    ("file:///etc/passwd", Refusal::Scheme),
    ("gopher://hooks.example.com/", Refusal::Scheme),
    ("javascript:alert(1)", Refusal::Scheme),
    ("data:text/plain,hello", Refusal::Scheme),
    ("ws://hooks.example.com/", Refusal::Scheme),
    ("wss://hooks.example.com/", Refusal::Scheme),
    ("mailto:a@example.com", Refusal::Scheme),
    ("unix:///run/docker.sock", Refusal::Scheme),
    ("ldap://hooks.example.com/", Refusal::Scheme),
    ("dict://hooks.example.com:11211/", Refusal::Scheme),
    ("jar:https://hooks.example.com!/", Refusal::Scheme),
    ("httpss://hooks.example.com/", Refusal::Scheme),
    ("http+unix://hooks.example.com/", Refusal::Scheme),
    ("blob:https://hooks.example.com/1", Refusal::Scheme),
    ("view-source:https://hooks.example.com/", Refusal::Scheme),
    ("//hooks.example.com/", Refusal::Scheme),
    ("/hook", Refusal::Scheme),
    ("hooks.example.com", Refusal::Scheme),
    ("", Refusal::Scheme),
    ("   ", Refusal::Scheme),
    ("hooks.example.com:443/", Refusal::Scheme),
    // Credentials.
    ("https://user@hooks.example.com/", Refusal::Credentials),
    ("https://user:secret@hooks.example.com/", Refusal::Credentials),
    ("https://:secret@hooks.example.com/", Refusal::Credentials),
    ("https://hooks.example.com@127.0.0.1/", Refusal::Credentials),
    ("https://hooks.example.com%2f@10.0.0.1/", Refusal::Credentials),
    ("https://hooks.example.com:443@10.0.0.1/", Refusal::Credentials),
    ("https://a@b@hooks.example.com/", Refusal::Credentials),
    ("https://127.0.0.1\\@hooks.example.com/", Refusal::Loopback),
    ("https://%75ser@hooks.example.com/", Refusal::Credentials),
    // Ports.
    ("https://hooks.example.com:0/", Refusal::Port),
    ("https://hooks.example.com:1/", Refusal::Port),
    ("https://hooks.example.com:21/", Refusal::Port),
    ("https://hooks.example.com:22/", Refusal::Port),
    ("https://hooks.example.com:25/", Refusal::Port),
    ("https://hooks.example.com:53/", Refusal::Port),
    ("https://hooks.example.com:81/", Refusal::Port),
    ("https://hooks.example.com:442/", Refusal::Port),
    ("https://hooks.example.com:445/", Refusal::Port),
    ("https://hooks.example.com:1023/", Refusal::Port),
    ("https://hooks.example.com:65536/", Refusal::Port),
    ("https://hooks.example.com:99999999999/", Refusal::Port),
    ("https://hooks.example.com:-1/", Refusal::Port),
    ("https://hooks.example.com:4x3/", Refusal::Port),
    ("https://hooks.example.com:5432/", Refusal::Port),
    ("https://hooks.example.com:05432/", Refusal::Port),
    ("https://hooks.example.com:3306/", Refusal::Port),
    ("https://hooks.example.com:6379/", Refusal::Port),
    ("https://hooks.example.com:9200/", Refusal::Port),
    ("https://hooks.example.com:9300/", Refusal::Port),
    ("https://hooks.example.com:27017/", Refusal::Port),
    ("https://hooks.example.com:27018/", Refusal::Port),
    ("https://hooks.example.com:27019/", Refusal::Port),
    ("https://hooks.example.com:11211/", Refusal::Port),
    ("https://hooks.example.com:1433/", Refusal::Port),
    ("https://hooks.example.com:1521/", Refusal::Port),
    ("https://hooks.example.com:2375/", Refusal::Port),
    ("https://hooks.example.com:2379/", Refusal::Port),
    ("https://hooks.example.com:2380/", Refusal::Port),
    ("https://hooks.example.com:2181/", Refusal::Port),
    ("https://hooks.example.com:5984/", Refusal::Port),
    ("https://hooks.example.com:8086/", Refusal::Port),
    ("https://hooks.example.com:9042/", Refusal::Port),
    ("https://hooks.example.com:9092/", Refusal::Port),
    ("https://hooks.example.com:5672/", Refusal::Port),
    ("https://hooks.example.com:15672/", Refusal::Port),
    ("https://hooks.example.com:6443/", Refusal::Port),
    ("https://hooks.example.com:10250/", Refusal::Port),
    ("https://hooks.example.com:50051/", Refusal::Port),
    ("https://hooks.example.com:3389/", Refusal::Port),
    ("https://hooks.example.com:5900/", Refusal::Port),
    ("https://hooks.example.com:2049/", Refusal::Port),
    ("https://hooks.example.com:1883/", Refusal::Port),
    ("https://8.8.8.8:6379/", Refusal::Port),
    // Names.
    ("http://", Refusal::Hostname),
    ("https:///", Refusal::Hostname),
    ("https://./", Refusal::Hostname),
    ("https://../", Refusal::Hostname),
    ("https://hooks.example.com../", Refusal::Hostname),
    ("https://hooks..example.com/", Refusal::Hostname),
    ("https://.example.com/", Refusal::Hostname),
    ("https://intranet/", Refusal::Hostname),
    ("https://hooks./", Refusal::Hostname),
    ("https://metadata/", Refusal::Hostname),
    ("https://kubernetes/", Refusal::Hostname),
    ("https://metadata.google.internal/", Refusal::Hostname),
    ("https://METADATA.Google.INTERNAL/", Refusal::Hostname),
    ("https://metadata.google.internal./", Refusal::Hostname),
    ("https://a.internal:8443/", Refusal::Hostname),
    ("https://printer.local/", Refusal::Hostname),
    ("https://printer.local./", Refusal::Hostname),
    ("https://api.default.svc.cluster.local/", Refusal::Hostname),
    ("https://api.default.svc/", Refusal::Hostname),
    ("https://nas.lan/", Refusal::Hostname),
    ("https://nas.home/", Refusal::Hostname),
    ("https://wiki.corp/", Refusal::Hostname),
    ("https://wiki.intranet/", Refusal::Hostname),
    ("https://wiki.private/", Refusal::Hostname),
    ("https://nas.home.arpa/", Refusal::Hostname),
    ("https://1.0.0.10.in-addr.arpa/", Refusal::Hostname),
    ("https://box.localdomain/", Refusal::Hostname),
    ("https://hooks.test/", Refusal::Hostname),
    ("https://hooks.example/", Refusal::Hostname),
    ("https://hooks.invalid/", Refusal::Hostname),
    ("https://abcdefghij234567.onion/", Refusal::Hostname),
    ("https://consul.service.consul/", Refusal::Hostname),
    ("https://hooks.loc%61l/", Refusal::Hostname),
    ("https://hooks.\u{ff4c}\u{ff4f}\u{ff43}\u{ff41}\u{ff4c}/", Refusal::Hostname),
    ("https://hooks\u{3002}internal/", Refusal::Hostname),
    ("https://hooks.intern\u{ad}al/", Refusal::Hostname),
    ("https://hooks example.com/", Refusal::Hostname),
    ("https://hooks%00.example.com/", Refusal::Hostname),
    ("https://hooks.example.com%2f.evil.com/", Refusal::Hostname),
    ("https://*.example.com/", Refusal::Hostname),
    ("https://a,b.example.com/", Refusal::Hostname),
    ("https://$host.example.com/", Refusal::Hostname),
    ("https://aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.example.com/", Refusal::Hostname),
    ("https://1.2.3.4.5/", Refusal::Hostname),
    ("https://256.256.256.256/", Refusal::Hostname),
    ("https://0x/x/../../", Refusal::Unspecified),
    ("https://10.2.3.0x/", Refusal::Private),
    ("https://hooks.example.1/", Refusal::Hostname),
    ("https://4294967296/", Refusal::Hostname),
    ("https://[::1/", Refusal::Hostname),
    ("https://[fe80::1%25eth0]/", Refusal::Hostname),
    ("https://[::g]/", Refusal::Hostname),
    ("https://::1/", Refusal::Hostname),
    // The machine itself.
    ("http://localhost/", Refusal::Loopback),
    ("https://localhost:8443/", Refusal::Loopback),
    ("https://LOCALHOST/", Refusal::Loopback),
    ("https://LocalHost./", Refusal::Loopback),
    ("https://a.localhost/", Refusal::Loopback),
    ("https://a.b.localhost./", Refusal::Loopback),
    ("https://localhost.localdomain/", Refusal::Loopback),
    ("https://loc%61lhost/", Refusal::Loopback),
    ("https://\u{24db}\u{24de}\u{24d2}\u{24d0}\u{24db}\u{24d7}\u{24de}\u{24e2}\u{24e3}/", Refusal::Loopback),
    ("https:localhost/", Refusal::Loopback),
    ("https:/\\localhost/", Refusal::Loopback),
    ("https://lo\tcal\nhost/", Refusal::Loopback),
    (" https://localhost/ ", Refusal::Loopback),
    ("HTTPS://127.0.0.1/", Refusal::Loopback),
    ("https://127.0.0.1./", Refusal::Loopback),
    ("https://127.1/", Refusal::Loopback),
    ("https://127.0.1/", Refusal::Loopback),
    ("https://127.255.255.254/", Refusal::Loopback),
    ("https://2130706433/", Refusal::Loopback),
    ("https://0x7f000001/", Refusal::Loopback),
    ("https://0X7F.1/", Refusal::Loopback),
    ("https://017700000001/", Refusal::Loopback),
    ("https://0177.0.0.1/", Refusal::Loopback),
    ("https://0177.0x0.0.01/", Refusal::Loopback),
    ("https://127.0.0.0x1/", Refusal::Loopback),
    ("https://%31%32%37.0.0.1/", Refusal::Loopback),
    ("https://\u{ff11}\u{ff12}\u{ff17}.0.0.1/", Refusal::Loopback),
    ("https://127\u{3002}0\u{3002}0\u{3002}1/", Refusal::Loopback),
    ("https://\u{2460}\u{2461}\u{2466}.0.0.1/", Refusal::Loopback),
    ("https://127.0.0.1#@hooks.example.com/", Refusal::Loopback),
    ("https://127.0.0.1?@hooks.example.com/", Refusal::Loopback),
    ("https://[::1]/", Refusal::Loopback),
    ("https://[0:0:0:0:0:0:0:1]/", Refusal::Loopback),
    ("https://[0000::0001]:8443/", Refusal::Loopback),
    ("https://[::ffff:127.0.0.1]/", Refusal::Loopback),
    ("https://[::ffff:7f00:1]/", Refusal::Loopback),
    ("https://[::127.0.0.1]/", Refusal::Loopback),
    ("https://[::ffff:0:127.0.0.1]/", Refusal::Loopback),
    ("https://[64:ff9b::127.0.0.1]/", Refusal::Loopback),
    ("https://[64:ff9b:1::127.0.0.1]/", Refusal::Loopback),
    ("https://[2002:7f00:1::]/", Refusal::Loopback),
    // IPv4 ranges.
    ("https://0.0.0.0/", Refusal::Unspecified),
    ("https://0/", Refusal::Unspecified),
    ("https://0x0/", Refusal::Unspecified),
    ("https://0.1.2.3/", Refusal::Unspecified),
    ("https://10.0.0.0/", Refusal::Private),
    ("https://10.255.255.255/", Refusal::Private),
    ("https://012.0.0.1/", Refusal::Private),
    ("https://167772161/", Refusal::Private),
    ("https://172.16.0.1/", Refusal::Private),
    ("https://172.31.255.255/", Refusal::Private),
    ("https://192.168.0.1/", Refusal::Private),
    ("https://192.168.257/", Refusal::Private),
    ("https://0xc0a80101/", Refusal::Private),
    ("https://100.64.0.0/", Refusal::Private),
    ("https://100.100.100.200/", Refusal::Private),
    ("https://100.127.255.255/", Refusal::Private),
    ("https://169.254.169.254/latest/meta-data/", Refusal::LinkLocal),
    ("https://2852039166/", Refusal::LinkLocal),
    ("https://0xa9fea9fe/", Refusal::LinkLocal),
    ("https://0251.0376.0251.0376/", Refusal::LinkLocal),
    ("https://169.254.43518/", Refusal::LinkLocal),
    ("https://192.0.0.192/", Refusal::Reserved),
    ("https://192.0.2.1/", Refusal::Reserved),
    ("https://192.88.99.1/", Refusal::Reserved),
    ("https://198.18.0.1/", Refusal::Reserved),
    ("https://198.19.255.255/", Refusal::Reserved),
    ("https://198.51.100.7/", Refusal::Reserved),
    ("https://203.0.113.9/", Refusal::Reserved),
    ("https://168.63.129.16/", Refusal::Reserved),
    ("https://224.0.0.1/", Refusal::Multicast),
    ("https://239.255.255.255/", Refusal::Multicast),
    ("https://240.0.0.1/", Refusal::Reserved),
    ("https://255.255.255.255/", Refusal::Reserved),
    ("https://4294967295/", Refusal::Reserved),
    // IPv6 ranges.
    ("https://[::]/", Refusal::Unspecified),
    ("https://[0:0::0]/", Refusal::Unspecified),
    ("https://[::ffff:0.0.0.0]/", Refusal::Unspecified),
    ("https://[::2]/", Refusal::Unspecified),
    ("https://[fc00::1]/", Refusal::Private),
    ("https://[fd00:ec2::254]/", Refusal::Private),
    ("https://[fdff:ffff::1]/", Refusal::Private),
    ("https://[fec0::1]/", Refusal::Private),
    ("https://[fe80::1]/", Refusal::LinkLocal),
    ("https://[febf:ffff::1]/", Refusal::LinkLocal),
    ("https://[ff02::1]/", Refusal::Multicast),
    ("https://[ff0e::1]/", Refusal::Multicast),
    ("https://[2001:db8::1]/", Refusal::Reserved),
    ("https://[3fff::1]/", Refusal::Reserved),
    ("https://[100::1]/", Refusal::Reserved),
    ("https://[100:0:0:1::1]/", Refusal::Reserved),
    ("https://[5f00::1]/", Refusal::Reserved),
    ("https://[4000::1]/", Refusal::Reserved),
    ("https://[2001:2::1]/", Refusal::Reserved),
    ("https://[2001:10::1]/", Refusal::Reserved),
    ("https://[2001:20::1]/", Refusal::Reserved),
    ("https://[::8.8.8.8]/", Refusal::Reserved),
    ("https://[::ffff:0:8.8.8.8]/", Refusal::Reserved),
    ("https://[64:ff9b:1::8.8.8.8]/", Refusal::Reserved),
    ("https://[64:ff9b:2::8.8.8.8]/", Refusal::Reserved),
    ("https://[::ffff:10.0.0.1]/", Refusal::Private),
    ("https://[::ffff:a9fe:a9fe]/", Refusal::LinkLocal),
    ("https://[::ffff:169.254.169.254]/", Refusal::LinkLocal),
    ("https://[::10.0.0.1]/", Refusal::Private),
    ("https://[64:ff9b::10.0.0.1]/", Refusal::Private),
    ("https://[64:ff9b::a9fe:a9fe]/", Refusal::LinkLocal),
    ("https://[64:ff9b:1::10.0.0.1]/", Refusal::Private),
    ("https://[2002:0a00:1::1]/", Refusal::Private),
    ("https://[2002:a9fe:a9fe::]/", Refusal::LinkLocal),
    ("https://[2002:e000:1::]/", Refusal::Multicast),
    ("https://[2001:0:0a00:1::]/", Refusal::Private),
    ("https://[2001:0:808:808::f5ff:fffe]/", Refusal::Private),
    ("https://[2001:0:808:808::f7f7:f7f7]/", Refusal::Reserved),
];

const ALLOWED: &[(&str, &str, u16)] = &[
    ("https://hooks.example.com/path?a=b", "hooks.example.com", 443),
    ("https://hooks.example.com:443/", "hooks.example.com", 443),
    ("https://hooks.example.com:80/", "hooks.example.com", 80),
    ("https://hooks.example.com:1024/", "hooks.example.com", 1024),
    ("https://hooks.example.com:8080/", "hooks.example.com", 8080),
    ("https://hooks.example.com:8443/", "hooks.example.com", 8443),
    ("https://hooks.example.com:65535/", "hooks.example.com", 65535),
    ("https://hooks.example.com:/", "hooks.example.com", 443),
    ("HTTPS://Hooks.EXAMPLE.com./x", "hooks.example.com", 443),
    ("https://hooks_1.example.com/", "hooks_1.example.com", 443),
    ("https://b\u{fc}cher.example.com/", "xn--bcher-kva.example.com", 443),
    ("https://localhost.example.com/", "localhost.example.com", 443),
    ("https://notlocalhost.com/", "notlocalhost.com", 443),
    ("https://mylocal.com/", "mylocal.com", 443),
    ("https://internal.example.com/", "internal.example.com", 443),
    ("https://contest.com/", "contest.com", 443),
    ("https://example.com/?u=http://127.0.0.1/", "example.com", 443),
    ("https://example.com/@127.0.0.1", "example.com", 443),
    ("https://example.com#@127.0.0.1", "example.com", 443),
    ("https://8.8.8.8/", "8.8.8.8", 443),
    ("https://134744072/", "8.8.8.8", 443),
    ("https://172.15.255.255/", "172.15.255.255", 443),
    ("https://172.32.0.1/", "172.32.0.1", 443),
    ("https://100.63.255.255/", "100.63.255.255", 443),
    ("https://100.128.0.1/", "100.128.0.1", 443),
    ("https://169.253.1.1/", "169.253.1.1", 443),
    ("https://198.17.1.1/", "198.17.1.1", 443),
    ("https://223.255.255.255/", "223.255.255.255", 443),
    ("https://[2606:4700::1111]/", "[2606:4700::1111]", 443),
    ("https://[2001:4860:4860::8888]:8443/", "[2001:4860:4860::8888]", 8443),
    ("https://[::ffff:8.8.8.8]/", "[::ffff:808:808]", 443),
    ("https://[64:ff9b::8.8.8.8]/", "[64:ff9b::808:808]", 443),
    ("https://[2002:808:808::1]/", "[2002:808:808::1]", 443),
];

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn refuses_every_trick() {
    assert!(REFUSED.len() >= 150);
    for (url, refusal) in REFUSED {
        assert_eq!(judge_url(url, false, &[]).map(|target| target.url), Err(*refusal), "{url:?}");
    }
}

#[test]
fn lets_public_endpoints_pass() {
    for (url, host, port) in ALLOWED {
        let target = judge_url(url, true, &[]).unwrap_or_else(|refusal| panic!("{url:?}: {refusal}"));
        assert_eq!((target.host.to_string().as_str(), target.port), (*host, *port), "{url:?}");
        assert_eq!(target.url.host_str(), Some(*host), "{url:?}");
        assert_eq!(judge_url(target.url.as_str(), true, &[]), Ok(target), "judged again");
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
