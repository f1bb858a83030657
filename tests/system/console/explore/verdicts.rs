//! The form that verifies says each verdict, and how each check came out.

use thesis_proto::v1::observation::Observed;

use super::{Explorer, links, question};
use crate::harness::{
    Service,
    browser::Page,
    ingest::{author, deletion, thesis, token},
    iso, now_ms,
};

on_both_stores![each_verdict_explains_its_checks, a_thesis_leads_to_its_verification];

const HOUR_MS: i64 = 3_600_000;

/// How the checks came out, in their order.
fn outcomes(page: &Page) -> Vec<String> {
    let words = ["Passed", "Failed", "Not reached", "Not asked"];
    let is_badge = |class: &str| class.starts_with("badge");
    let mut outcomes = Vec::new();
    for badge in page.all("span").filter(|span| span.get("class").is_some_and(is_badge)) {
        let outcome = badge.text();
        if words.contains(&outcome.as_str()) {
            outcomes.push(outcome);
        }
    }
    outcomes
}

async fn each_verdict_explains_its_checks(service: &Service) {
    let explorer = Explorer::new(service).await;
    let now = now_ms();
    let (by, on) = (author("u-ver", "verifier"), token("solana", "VerMint", "VER"));
    for (id, age) in [("v1", 3), ("v2", 1)] {
        let posted = thesis(id, &by, &on, "Die STRASSE zum Mond", now - age * HOUR_MS);
        explorer.learn(service, 1, Observed::Thesis(posted)).await;
    }
    explorer.learn(service, i64::MAX / 2, deletion("v2")).await;
    let path = explorer.path("/verify");
    let first = explorer.open("/verify").await.is(200);
    assert!(outcomes(&first).is_empty(), "{first}");
    // A form's times are in UTC and have no zone.
    let hours_ago = |hours: i64| iso(now - hours * HOUR_MS).trim_end_matches('Z').to_owned();
    let ask = async |handle: &str, token: &str, from: i64, to: i64, contains: &str| {
        let form = question(&first, &path).fill("handle", handle).fill("token", token).fill("contains", contains);
        let form = form.fill("created_after", &hours_ago(from)).fill("created_before", &hours_ago(to));
        explorer.browser.answer(&form).await.is(200)
    };
    let (passed, failed, unreached, unasked) = ("Passed", "Failed", "Not reached", "Not asked");

    let page = ask("verifier", "VER", 4, 2, "straße ZUM").await.says("Verified: ");
    assert_eq!(outcomes(&page), [passed; 6]);
    assert_eq!(question(&page, &path).field("contains").value, "straße ZUM");
    let href = page.all("a").filter_map(|link| link.get("href")).find(|href| href.contains("/explore/theses/"));
    explorer.browser.get(href.unwrap_or_else(|| panic!("{page}"))).await.is(200).says("Die STRASSE zum Mond");

    let page = ask("verifier", "VER", 4, 2, "Sonne").await.says("Not verified: no thesis inside the window contains");
    assert_eq!(outcomes(&page), [passed, passed, passed, passed, passed, failed]);
    let page = ask("verifier", "VER", 2, 0, "").await.says("Not verified: the thesis inside the window was deleted.");
    assert_eq!(outcomes(&page), [passed, passed, passed, passed, failed, unasked]);
    assert!(!page.all("a").any(|link| link.get("href").is_some_and(|href| href.contains("/explore/theses/"))));
    let page = ask("verifier", "VER", 9, 8, "Mond").await.says("Not verified: the profile posted no thesis");
    assert_eq!(outcomes(&page), [passed, passed, passed, failed, unreached, unreached]);
    let page = ask("verifier", "RUN", 4, 2, "").await.says("Not verified: the profile posted no thesis");
    assert_eq!(outcomes(&page), [passed, passed, failed, unreached, unreached, unasked]);
    let page = ask("verifier", "NOTHING", 4, 2, "x").await.says("Not verified: there is no such token.");
    assert_eq!(outcomes(&page), [passed, failed, unreached, unreached, unreached, unreached]);
    let page = ask("nobody-at-all", "VER", 4, 2, "").await.says("Not verified: there is no such profile.");
    assert_eq!(outcomes(&page), [failed, unreached, unreached, unreached, unreached, unasked]);
}

async fn a_thesis_leads_to_its_verification(service: &Service) {
    let explorer = Explorer::new(service).await;
    let ids = explorer.post(service, &[10, 20]).await;
    for id in &ids {
        let page = explorer.open(&format!("/theses/{id}")).await.is(200);
        let page = explorer.browser.get(&links(&page, "Verify it")[0]).await.is(200).says("Verified: ");
        assert_eq!(links(&page, id), [explorer.path(&format!("/theses/{id}"))]);
    }
}
