//! Cookies and origins where people come by another URL than the edge's own.

use super::PASSWORD;
use crate::harness::{Service, browser::Origin};

const PUBLIC: &str = "https://thesis.example";

// It has nothing to do with the store.
#[tokio::test]
async fn cookies_are_secure_behind_https() {
    let service = Service::embedded(|setup| setup.set("SVC_PUBLIC_URL", PUBLIC));
    let browser = service.browser().at(PUBLIC);
    browser.sign_up("secure@people.example", PASSWORD, "Acme").await.is(200).says("Acme");
    assert!(browser.cookie_names().contains(&"__Host-session".to_owned()), "{:?}", browser.cookie_names());
    let csrf = browser.csrf().await;
    for origin in ["http://thesis.example", "https://thesis.example:8443", "https://thesis.example.evil.example"] {
        browser.post("/console/sign-out", &[("csrf", &csrf)], Origin::Other(origin)).await.is(403);
    }
    // A session's cookie under another name, which a page without TLS or of another host of the domain could set, is none.
    for name in ["session", "__Secure-session"] {
        let other = service.browser().at(PUBLIC);
        other.set_cookie(name, &browser.session().unwrap());
        assert!(!other.is_signed_in().await && browser.is_signed_in().await, "{name}");
    }
}
