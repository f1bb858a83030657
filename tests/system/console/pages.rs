//! What holds for every page, and for the way to them. The browser checks each page it opens; here are all of them.

use std::collections::HashSet;

use super::Customer;
use crate::harness::{
    Client, Service,
    browser::{Browser, Origin},
};

/// Most bytes of a page with what it loads. Fonts count more here than on the wire: they are read as text.
const MAX_LOADED_BYTES: usize = 150 * 1_024;

on_both_stores![every_page_is_whole, all_plans_are_offered, the_front_door, what_is_no_page];

/// Opens a page; checks what it loads.
async fn check(browser: &Browser, path: &str) -> String {
    let page = browser.get(path).await.is(200);
    let mut bytes = page.html.len();
    let loads: HashSet<String> = page
        .elements
        .iter()
        .filter(|element| ["script", "link", "img"].contains(&element.name.as_str()))
        .filter_map(|element| element.get("src").or_else(|| element.get("href")).map(str::to_owned))
        .collect();
    assert!(loads.iter().any(|asset| asset.ends_with(".css")), "{page}");
    for asset in loads {
        let asset = browser.get(&asset).await.is(200);
        let cache = asset.header("cache-control");
        assert!(cache.contains("max-age=") && !cache.contains("no-store"), "{cache}");
        bytes += asset.html.len();
    }
    assert!(bytes < MAX_LOADED_BYTES, "{path} and what it loads have {bytes} bytes");
    page.title()
}

async fn every_page_is_whole(service: &Service) {
    let customer = Customer::new(service).await;
    let (visitor, owner) = (service.browser(), service.browser_of(&customer.owner));
    let administrator = service.browser_of(&service.administrator().await);
    let mut titles = Vec::new();
    for path in ["/console/sign-in", "/console/sign-up", "/console/forgot"] {
        titles.push(check(&visitor, path).await);
    }
    for path in ["/console/account", "/console/organizations/new"] {
        titles.push(check(&owner, path).await);
    }
    for path in customer.pages() {
        let title = check(&owner, &path).await;
        if !path.contains('?') {
            titles.push(title);
        }
    }
    for path in super::ADMINISTRATION {
        titles.push(check(&administrator, path).await);
    }
    let different: HashSet<&String> = titles.iter().collect();
    assert_eq!(different.len(), titles.len(), "two pages have one title: {titles:?}");
    // An administrator without an organization begins with what waits for them.
    assert_eq!(administrator.open("/console").await.path, "/console/administration");
}

/// A plan is offered although no organization has it.
async fn all_plans_are_offered(service: &Service) {
    let administrator = service.browser_of(&service.administrator().await);
    let page = administrator.open("/console/administration/organizations").await.is(200);
    // A field with suggestions would offer only plans whose names begin with its value.
    assert!(page.all("datalist").next().is_none(), "{page}");
    let plans: Vec<_> = page.all("option").filter_map(|option| option.get("value")).collect();
    for plan in ["free", "pro", "business", "huge"] {
        assert!(plans.contains(&plan), "{plan}: {page}");
    }
}

async fn the_front_door(service: &Service) {
    let browser = service.browser();
    browser.get("/").await.is(200);
    // Programs get the discovery document.
    let discovery = service.anonymous().get("/").await.ok(200);
    assert!(discovery.is_object(), "{discovery}");
    Client::new(&service.http, None).get("/v1").await.ok(200);
}

async fn what_is_no_page(service: &Service) {
    let (person, _) = service.owner().await;
    for browser in [service.browser(), service.browser_of(&person)] {
        for path in
            ["/console/nowhere", "/console/assets/nowhere.css", "/console/organizations/%ff", "/console/links/x"]
        {
            let answer = browser.get(path).await;
            let is_led = answer.location().is_some_and(|location| location.starts_with("/console/sign-in"));
            assert!(is_led || answer.status == 404, "{answer}");
        }
    }
    // A form that is too long is refused, and so is one in another form.
    let browser = service.browser();
    let csrf = browser.csrf().await;
    let long = "x".repeat(70_000);
    let fields = [("csrf", csrf.as_str()), ("email", long.as_str())];
    browser.post("/console/sign-in", &fields, Origin::Here).await.is(413);
    browser.open("/console/sign-in").await.is(200);
}
