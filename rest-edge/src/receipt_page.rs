//! The page at `/verify`, which checks receipts in the browser. It also works from a disk, so it is one file that
//! contains style and script. Its content security policy names their hashes and allows no use of the network. The
//! policy is in a header and in the page itself, so that saved copies have it too.

use askama::Template;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{HeaderMap, HeaderValue, Method, header::CONTENT_SECURITY_POLICY};
use sha2::{Digest as _, Sha256};

use crate::{answer::Answer, document::Document};

pub(crate) const PATH: &str = "/verify";

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const STYLE: &str = concat!(include_str!("../console/assets/site.css"), include_str!("../assets/receipt.css"));
/// Shows the theme that was chosen on other pages, before the page is drawn.
const THEME: &str = include_str!("../console/assets/theme.js");
const SCRIPT: &str = concat!(
    include_str!("../assets/receipt-entry.js"),
    include_str!("../assets/receipt.js"),
    include_str!("../assets/receipt-page.js")
);

#[derive(Template)]
#[template(path = "receipt.html")]
struct Frame<'a> {
    public_url: &'a str,
    policy: &'a str,
    style: &'a str,
    theme: &'a str,
    script: &'a str,
}

/// The page of a service with one public URL.
pub(crate) struct ReceiptPage {
    document: Document,
    policy: HeaderValue,
}

impl ReceiptPage {
    pub(crate) fn new(public_url: &str) -> Self {
        let policy = policy();
        let frame = Frame { public_url, policy: &policy, style: STYLE, theme: THEME, script: SCRIPT };
        let html = frame.render().expect("texts always render");
        // A page cannot forbid by itself that others show it in a frame.
        let header = HeaderValue::try_from(format!("{policy}; frame-ancestors 'none'"));
        Self { document: Document::new(HTML, html.into()), policy: header.expect("base64 is printable") }
    }

    pub(crate) async fn answer(&self, method: &Method, headers: &HeaderMap) -> Answer {
        let mut response = self.document.page(method, headers).await?;
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, self.policy.clone());
        Ok(response)
    }
}

/// The page may run its own scripts and use its own style, and nothing else.
fn policy() -> String {
    let hash = |text: &str| format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text)));
    format!(
        "default-src 'none'; script-src {} {}; style-src {}; img-src data:; base-uri 'none'; form-action 'none'",
        hash(THEME),
        hash(SCRIPT),
        hash(STYLE)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html() -> String {
        let policy = policy();
        Frame { public_url: "https://data.test", policy: &policy, style: STYLE, theme: THEME, script: SCRIPT }
            .render()
            .unwrap()
    }

    /// The texts between each `begin` and the next `end`.
    fn between<'a>(html: &'a str, begin: &str, end: &str) -> Vec<&'a str> {
        html.split(begin).skip(1).map(|rest| rest.split_once(end).unwrap().0).collect()
    }

    #[test]
    fn its_policy_allows_its_own_scripts_and_style_alone() {
        let html = html();
        let policies = between(&html, "http-equiv=\"Content-Security-Policy\" content=\"", "\"");
        let policy = policies[0].replace("&#39;", "'");
        for (directive, texts, expected) in [
            ("script-src", between(&html, "<script>", "</script>"), 2),
            ("style-src", between(&html, "<style>", "</style>"), 1),
        ] {
            let hash = |text: &&str| format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text)));
            let hashes: Vec<String> = texts.iter().map(hash).collect();
            assert_eq!(hashes.len(), expected, "{directive}");
            assert!(policy.contains(&format!("; {directive} {};", hashes.join(" "))), "{directive}: {policy}");
        }
        assert_eq!(policies.len(), 1);
        assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("connect-src"), "{policy}");
    }

    #[test]
    fn it_is_one_file() {
        let html = html();
        for reference in ["src=", "href=\"/", "@import", "url("] {
            assert!(!html.contains(reference), "{reference}");
        }
        assert!(html.contains("https://data.test/docs/receipts") && html.contains("https://data.test/v1/log/keys"));
    }
}
