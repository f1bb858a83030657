//! Receipts that members save in the console: they equal those of the API, and anyone can check them.

use serde_json::{Value, json};
use thesis_receipts::Subject;

use super::{Explorer, links};
use crate::{
    harness::{SOON, Service, browser::Page, eventually, text},
    receipts::{assert_is_of, proven, sandbox_thesis},
};

on_both_stores![a_thesis_and_each_verdict_have_a_file, what_has_no_receipt_says_why];

/// The file behind the link of a page, once the log is signed that far.
async fn save(explorer: &Explorer, page: &Page, name: &str) -> Value {
    let href = links(page, "Download receipt").pop().unwrap_or_else(|| panic!("no receipt in {page}"));
    let file = eventually("the log is signed", SOON, async || {
        Some(explorer.browser.get(&href).await).filter(|answer| answer.status != 409)
    });
    let file = file.await.is(200);
    assert_eq!(file.header("content-disposition"), format!("attachment; filename=\"{name}\""));
    serde_json::from_str(&file.html).unwrap()
}

async fn a_thesis_and_each_verdict_have_a_file(service: &Service) {
    let explorer = Explorer::new(service).await;
    let thesis = sandbox_thesis(&explorer.client).await;
    let page = explorer.open(&format!("/theses/{}", text(&thesis, "id"))).await.is(200);
    let receipt = save(&explorer, &page, "receipt.json").await;
    assert_is_of(&proven(service, &receipt).await, &thesis);

    let page = explorer.browser.get(&links(&page, "Verify it")[0]).await.is(200).says("Verified: ");
    let receipt = save(&explorer, &page, "receipt.json").await;
    assert_eq!(proven(service, &receipt).await.dataset, "sandbox");
    assert_eq!(receipt["object"], "receipt");

    // Spaces count in the text.
    let (handle, from) = (text(&thesis["profile"], "handle"), text(&thesis, "created_at"));
    let (token, words) = (text(&thesis["token"], "id"), " words that  nobody wrote ");
    let fields = [("handle", handle), ("token", token), ("created_after", from), ("contains", words)];
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let page = explorer.open(&format!("/verify?{query}")).await.is(200).says("contains the text");
    let statement = save(&explorer, &page, "statement.json").await;
    let Subject::Stated { claim, verdict } = proven(service, &statement).await.subject else { panic!("{statement}") };
    assert_eq!((&claim["contains"], &claim["handle"]), (&json!(words), &json!(handle)));
    assert_eq!(verdict["reason"], "TEXT_NOT_FOUND");
}

async fn what_has_no_receipt_says_why(service: &Service) {
    let (explorer, other) = (Explorer::new(service).await, Explorer::new(service).await);
    let own = explorer.post(service, &[10]).await.remove(0);
    let page = explorer.open(&format!("/theses/{own}")).await.is(200);
    for page in [&page, &explorer.browser.get(&links(&page, "Verify it")[0]).await.is(200)] {
        let said = explorer.browser.get(&links(page, "Download receipt")[0]).await.is(409);
        assert!(said.text().contains("own test data has no receipt") || said.text().contains("two seconds"), "{said}");
    }
    explorer.open("/theses/th_nothing/receipt").await.is(404);
    other.open(&format!("/theses/{own}/receipt")).await.is(404);
    explorer.open("/verify/receipt").await.is(422);
    service.browser().get(&explorer.path("/verify/receipt")).await.is(303);
}
