//! A certificate that cannot be used refuses the start.

use std::fs;

use super::authority::{Authority, with_certificate};
use crate::harness::Setup;

#[test]
fn what_cannot_be_used_refuses_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let refused = |setup: &Setup| {
        let (code, stdout, stderr) = setup.run();
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(!stderr.contains("PRIVATE KEY"), "{stderr}");
        stderr
    };
    let setup = || Setup::new(dir.path());
    let lonely = refused(&setup().set("SVC_TLS_CERT", "cert.pem"));
    assert!(lonely.contains("SVC_TLS_KEY: SVC_TLS_CERT needs a key"), "{lonely}");
    let lonely = refused(&setup().set("SVC_TLS_KEY", "key.pem"));
    assert!(lonely.contains("SVC_TLS_CERT: SVC_TLS_KEY needs a certificate"), "{lonely}");
    let secured = with_certificate(setup(), dir.path());
    let missing = refused(&secured);
    assert!(missing.contains("SVC_TLS_CERT: ") && missing.contains("cert.pem: No such file"), "{missing}");
    let ((certificate, key), (_, other), (expired, its_key)) =
        (authority.pair(false), authority.pair(false), authority.pair(true));
    for (certificate, key, setting, reason) in [
        ("nonsense", &*key, "SVC_TLS_CERT: ", "cert.pem: it holds no certificate in PEM"),
        (&certificate, "nonsense", "SVC_TLS_KEY: ", "key.pem: it holds no private key in PEM"),
        (&certificate, &other, "SVC_TLS_KEY: ", "key.pem: it is not the key of the certificate in"),
        (&expired, &its_key, "SVC_TLS_CERT: ", "cert.pem: the certificate expired at 2020-02-02T00:00:00"),
    ] {
        fs::write(dir.path().join("cert.pem"), certificate).unwrap();
        fs::write(dir.path().join("key.pem"), key).unwrap();
        let said = refused(&secured);
        assert!(said.contains(setting) && said.contains(reason), "{said}");
    }
    authority.renew(dir.path());
    let plain = refused(&secured.clone().role("core").set("SVC_ADVERTISE_URL", "http://core-1:50051"));
    assert!(plain.contains("SVC_ADVERTISE_URL: `http://core-1:50051` is plain"), "{plain}");
    let elsewhere = secured.clone().set("SVC_ADVERTISE_URL", "https://core-1:50051");
    let (_, said, _) = elsewhere.arguments(&["doctor", "--role", "core"]).run();
    assert!(said.contains("SVC_ADVERTISE_URL: `https://core-1:50051`: other cores refuse it"), "{said}");
    // Nothing was made before the refusal.
    assert!(!dir.path().join("data").exists());
    fs::write(dir.path().join("root.pem"), "nonsense").unwrap();
    let said = refused(&setup().role("edge").set("SVC_CORE_CA_FILE", "root.pem"));
    assert!(said.contains("SVC_CORE_CA_FILE: root.pem: it holds no certificate in PEM"), "{said}");
}
