use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicI64, Ordering},
};

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
use tempfile::TempDir;

use super::*;
use crate::clock::Clock;

/// 2030-01-01
const NOW_MS: i64 = 1_893_456_000_000;
const YEAR_MS: i64 = 366 * 86_400_000;

#[derive(Default)]
struct FixedClock(AtomicI64);

impl Clock for FixedClock {
    fn now_ms(&self) -> i64 {
        NOW_MS + self.0.load(Ordering::Relaxed)
    }
}

/// A certificate and its key in PEM, valid in 2029 and 2030.
fn new_pair(host: &str) -> (String, String) {
    new_pair_as(host, IsCa::NoCa)
}

fn new_pair_as(host: &str, is_ca: IsCa) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new([host.to_owned()]).unwrap();
    params.is_ca = is_ca;
    (params.not_before, params.not_after) = (date_time_ymd(2029, 1, 1), date_time_ymd(2030, 12, 31));
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

fn put(dir: &Path, (certificate, key): &(String, String)) -> PairFiles {
    let files = PairFiles { certificate: dir.join("cert.pem"), key: dir.join("key.pem") };
    fs::write(&files.certificate, certificate).unwrap();
    fs::write(&files.key, key).unwrap();
    files
}

/// A certificate for `localhost`, with the authority that issued it.
pub(crate) fn identity(dir: &Path) -> (Arc<Identity>, String) {
    let pair = new_pair("localhost");
    let identity = Identity::load(put(dir, &pair), Arc::new(FixedClock::default())).unwrap();
    (identity, pair.0)
}

fn load(dir: &Path, certificate: &str, key: &str, now_ms: i64) -> Result<Arc<Identity>, Unusable> {
    let clock = FixedClock(AtomicI64::new(now_ms - NOW_MS));
    Identity::load(put(dir, &(certificate.to_owned(), key.to_owned())), Arc::new(clock))
}

#[test]
fn what_cannot_be_used_is_refused_with_setting_file_and_reason() {
    let dir = TempDir::new().unwrap();
    let ((certificate, key), (other, other_key)) = (new_pair("a"), new_pair("b"));
    assert!(load(dir.path(), &certificate, &key, NOW_MS).is_ok());
    // Its issuers may follow.
    assert!(load(dir.path(), &format!("{certificate}{other}"), &key, NOW_MS).is_ok());
    for (certificate, key, now_ms, setting, file, reason) in [
        ("", &*key, NOW_MS, "SVC_TLS_CERT", "cert.pem", "holds no certificate"),
        ("nonsense", &key, NOW_MS, "SVC_TLS_CERT", "cert.pem", "holds no certificate"),
        (&key, &key, NOW_MS, "SVC_TLS_CERT", "cert.pem", "holds no certificate"),
        (&certificate[..200], &key, NOW_MS, "SVC_TLS_CERT", "cert.pem", ""),
        (&certificate, "", NOW_MS, "SVC_TLS_KEY", "key.pem", "holds no private key"),
        (&certificate, &certificate, NOW_MS, "SVC_TLS_KEY", "key.pem", "holds no private key"),
        (&certificate, &other_key, NOW_MS, "SVC_TLS_KEY", "key.pem", "not the key of the certificate in"),
        (&other, &key, NOW_MS, "SVC_TLS_KEY", "key.pem", "not the key of the certificate in"),
        (&certificate, &key, NOW_MS + YEAR_MS, "SVC_TLS_CERT", "cert.pem", "expired at 2030-12-31T00:00:00"),
        (&certificate, &key, NOW_MS - 2 * YEAR_MS, "SVC_TLS_CERT", "cert.pem", "not valid before 2029-01-01T00:00:00"),
    ] {
        let refused = load(dir.path(), certificate, key, now_ms).unwrap_err();
        assert_eq!(refused.setting, setting, "{refused}");
        assert!(refused.reason.contains(file) && refused.reason.contains(reason), "{refused}");
    }
    let missing = PairFiles { certificate: dir.path().join("none"), key: dir.path().join("key.pem") };
    let refused = Identity::load(missing, Arc::new(FixedClock::default())).unwrap_err();
    assert!(refused.setting == "SVC_TLS_CERT" && refused.reason.contains("No such file"), "{refused}");
    let folder = PairFiles { certificate: dir.path().join("cert.pem"), key: dir.path().to_owned() };
    let refused = Identity::load(folder, Arc::new(FixedClock::default())).unwrap_err();
    assert!(refused.setting == "SVC_TLS_KEY" && refused.reason.contains("no file of"), "{refused}");
}

#[test]
fn a_renewal_is_taken_up_and_a_broken_one_told_once() {
    let dir = TempDir::new().unwrap();
    let (first, second, late) = (new_pair("a"), new_pair("a"), new_pair("a"));
    let clock = Arc::new(FixedClock::default());
    let identity = Identity::load(put(dir.path(), &first), Arc::clone(&clock) as SharedClock).unwrap();
    let shown = || identity.shown.read().cert.clone();
    let before = shown();
    assert_eq!(identity.reload(), ReloadOutcome::Unchanged);
    // Half of a renewal is an error only if the other half does not come.
    put(dir.path(), &(second.0.clone(), first.1.clone()));
    assert_eq!(identity.reload(), ReloadOutcome::Kept(None));
    assert_eq!(shown(), before);
    put(dir.path(), &second);
    assert_eq!(identity.reload(), ReloadOutcome::Renewed);
    let renewed = shown();
    assert!(renewed != before && identity.reload() == ReloadOutcome::Unchanged);
    // A lasting error is told once.
    fs::write(dir.path().join("cert.pem"), "nonsense").unwrap();
    assert_eq!(identity.reload(), ReloadOutcome::Kept(None));
    assert!(matches!(identity.reload(), ReloadOutcome::Kept(Some(doubts)) if doubts.setting == "SVC_TLS_CERT"));
    assert_eq!(identity.reload(), ReloadOutcome::Kept(None));
    fs::remove_file(dir.path().join("cert.pem")).unwrap();
    assert_eq!(identity.reload(), ReloadOutcome::Kept(None));
    assert!(matches!(identity.reload(), ReloadOutcome::Kept(Some(_))));
    assert_eq!(shown(), renewed);
    put(dir.path(), &second);
    assert_eq!(identity.reload(), ReloadOutcome::Unchanged);
    // One that has expired is not taken up; the one that is shown stays, however old.
    clock.0.store(YEAR_MS, Ordering::Relaxed);
    assert_eq!(identity.reload(), ReloadOutcome::Unchanged);
    put(dir.path(), &late);
    assert_eq!(identity.reload(), ReloadOutcome::Kept(None));
    assert!(matches!(identity.reload(), ReloadOutcome::Kept(Some(doubts)) if doubts.reason.contains("expired at")));
    assert_eq!(shown(), renewed);
}

#[test]
fn a_certificate_that_expires_while_it_is_shown_is_told_once() {
    let (dir, clock) = (TempDir::new().unwrap(), Arc::new(FixedClock::default()));
    let identity = Identity::load(put(dir.path(), &new_pair("a")), Arc::clone(&clock) as SharedClock).unwrap();
    let expires_at = expires_at(&identity.shown.read());
    // 2030-12-31
    assert_eq!(expires_at, Some(1_924_905_600_000));
    let is_logged = || identity.has_just_expired(expires_at);
    clock.0.store(1_924_905_600_000 - NOW_MS, Ordering::Relaxed);
    assert!(!is_logged());
    clock.0.store(1_924_905_601_000 - NOW_MS, Ordering::Relaxed);
    assert!(is_logged() && !is_logged());
}

#[test]
fn what_others_refuse_is_told() {
    let dir = TempDir::new().unwrap();
    let doubts = |(certificate, key): &(String, String), now_ms: i64, advertised: Option<&str>| {
        let doubts = load(dir.path(), certificate, key, now_ms).unwrap().doubts(advertised);
        doubts.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let (pair, by_ip) = (new_pair("core-1"), new_pair("::1"));
    let none = Vec::<String>::new();
    assert_eq!(doubts(&pair, NOW_MS, None), none);
    assert_eq!(doubts(&pair, NOW_MS, Some("https://core-1:50051")), none);
    assert_eq!(doubts(&by_ip, NOW_MS, Some("https://[::1]:50051")), none);
    let other = doubts(&pair, NOW_MS, Some("https://core-2:50051"));
    assert!(
        matches!(&*other, [doubts] if doubts.starts_with("SVC_ADVERTISE_URL: `https://core-2:50051`: ")),
        "{other:?}"
    );
    let authority = doubts(&new_pair_as("core-1", IsCa::Ca(BasicConstraints::Unconstrained)), NOW_MS, None);
    assert!(matches!(&*authority, [doubts] if doubts.contains("CaUsedAsEndEntity")), "{authority:?}");
    // 2030-12-31
    let expires_at = 1_924_905_600_000;
    assert_eq!(doubts(&pair, expires_at - 86_400_000, None), none);
    let late = doubts(&pair, expires_at - 86_399_000, None);
    assert!(matches!(&*late, [doubts] if doubts.contains("expires at 2030-12-31T00:00:00")), "{late:?}");
}

#[test]
fn own_authorities_are_certificates() {
    assert!(Authorities::own(new_pair("a").0.as_bytes()).is_ok());
    assert!(Authorities::own(b"").unwrap_err().contains("holds no certificate"));
    assert!(Authorities::own(new_pair("a").1.as_bytes()).unwrap_err().contains("holds no certificate"));
    let broken = "-----BEGIN CERTIFICATE-----\nbm90aGluZw==\n-----END CERTIFICATE-----\n";
    assert!(Authorities::own(broken.as_bytes()).is_err());
}
