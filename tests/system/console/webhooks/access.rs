//! Who sees webhooks, and who changes them.

use thesis_proto::v1::Role;

use super::{URL, client_of, create, list_of, rows};
use crate::{
    console::{Customer, id_in},
    harness::{
        Service,
        browser::{Origin, Page},
    },
};

on_both_stores![a_viewer_looks, webhooks_of_others_are_not_there];

/// The forms of a page that change something.
fn changes(page: &Page) -> Vec<String> {
    let forms = page.forms().into_iter().filter(|form| form.is_post && form.action != "/console/sign-out");
    forms.map(|form| form.action).collect()
}

/// Every form of a webhook, with fields that it takes.
fn forms<'a>(path: &str) -> Vec<(String, Vec<(&'static str, &'a str)>)> {
    vec![
        (path.to_owned(), vec![("url", "http://127.0.0.1:19998/forged"), ("events", "thesis.created")]),
        (format!("{path}/status"), vec![("status", "disabled")]),
        (format!("{path}/rotate"), vec![("once", "forged-rotation")]),
        (format!("{path}/test"), vec![("once", "forged-test")]),
        (format!("{path}/replay"), vec![("since", "2026-01-01T00:00"), ("once", "forged-replay")]),
        (format!("{path}/delete"), vec![]),
    ]
}

async fn a_viewer_looks(service: &Service) {
    let customer = Customer::new(service).await;
    let viewer = service.member(&customer.owner, &customer.organization, Role::Viewer).await;
    let (owner, browser, list) = (service.browser_of(&customer.owner), service.browser_of(&viewer), list_of(&customer));
    let client = client_of(service, &customer).await;
    let (made, path) = create(&owner, &list, URL).await;
    for page in [&list, &path, &format!("{list}/new")] {
        let page = browser.open(page).await.is(200);
        assert!(changes(&page).is_empty() && !page.html.contains(&made.word("whsec_")), "{page}");
    }
    let deliveries = format!("/v1/webhooks/{}/deliveries", id_in(&path, "wh_"));
    let before = rows(&client).await;
    let (csrf, own) = (browser.csrf().await, owner.csrf().await);
    let all = forms(&path).into_iter().chain([(list.clone(), forms(&path).remove(0).1)]);
    for (action, mut fields) in all {
        fields.push(("csrf", &csrf));
        let answer = browser.post(&action, &fields, Origin::Here).await.is(403);
        assert!(changes(&answer).is_empty(), "{answer}");
        // Neither with the browser of one who may, from another site.
        fields.pop();
        owner.post(&action, &fields, Origin::Here).await.is(403);
        fields.push(("csrf", &own));
        owner.post(&action, &fields, Origin::Other("https://evil.example")).await.is(403);
    }
    assert_eq!(rows(&client).await, before);
    assert!(client.all(&deliveries).await.is_empty());
}

async fn webhooks_of_others_are_not_there(service: &Service) {
    let (customer, outsider) = (Customer::new(service).await, Customer::new(service).await);
    let client = client_of(service, &customer).await;
    let (_, path) = create(&service.browser_of(&customer.owner), &list_of(&customer), URL).await;
    let id = id_in(&path, "wh_");
    let browser = service.browser_of(&outsider.owner);
    let csrf = browser.csrf().await;
    let before = rows(&client).await;
    browser.open(&list_of(&customer)).await.is(404);
    browser.open(&format!("{}/new", list_of(&customer))).await.is(404);
    // Neither in the customer's project nor in their own.
    for list in [list_of(&customer), list_of(&outsider)] {
        let (theirs, none) = (format!("{list}/{id}"), format!("{list}/wh_{}", "0".repeat(25)));
        let (shown, never) = (browser.get(&theirs).await.is(404), browser.get(&none).await.is(404));
        assert_eq!(shown.without_request(), never.without_request());
        for ((action, mut fields), (never, _)) in forms(&theirs).into_iter().zip(forms(&none)) {
            fields.push(("csrf", &csrf));
            let answer = browser.post(&action, &fields, Origin::Here).await.is(404);
            // What is sent once is sent under another name there.
            fields.retain(|(name, _)| *name != "once");
            let never = browser.post(&never, &fields, Origin::Here).await.is(404);
            assert_eq!(answer.without_request(), never.without_request(), "{action}");
        }
    }
    assert_eq!(rows(&client).await, before);
    // Visitors are led to sign in.
    let answer = service.browser().get(&path).await.is(303);
    assert!(answer.location().unwrap().starts_with("/console/sign-in?next="), "{answer}");
}
