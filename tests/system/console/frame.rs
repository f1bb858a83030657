//! The frame around the pages, the page that finds others, and the overview of a project.

use thesis_proto::v1;

use super::Customer;
use crate::harness::{Service, browser::Page};

on_both_stores![every_page_says_where_it_is, pages_and_things_are_found, first_steps_tick_themselves];

/// The targets of a page's links that are marked as current.
fn current(page: &Page) -> Vec<&str> {
    let marked = page.all("a").filter(|link| link.get("aria-current").is_some());
    marked.filter_map(|link| link.get("href")).collect()
}

/// The targets of a page's links.
fn hrefs(page: &Page) -> Vec<&str> {
    page.all("a").filter_map(|link| link.get("href")).collect()
}

async fn every_page_says_where_it_is(service: &Service) {
    let customer = Customer::new(service).await;
    let other = customer.owner.project(&customer.organization, "Other").await.id;
    let browser = service.browser_of(&customer.owner);
    let home = format!("/console/organizations/{}", customer.organization);
    let project = format!("/console/projects/{}", customer.project);
    let usage = format!("{project}/usage");
    for (path, links) in [
        (home.clone(), vec![home.clone(), home.clone()]),
        (format!("{home}/members"), vec![home.clone(), format!("{home}/members")]),
        (usage.clone(), vec![home.clone(), project.clone(), format!("{usage}?in=test"), usage.clone()]),
        (
            format!("{project}/test/webhooks"),
            vec![home.clone(), project.clone(), format!("{project}/test/webhooks"), format!("{project}/test/webhooks")],
        ),
    ] {
        let page = browser.open(&path).await.is(200);
        let marked = current(&page);
        for link in &links {
            assert!(marked.contains(&link.as_str()), "{path} does not mark {link}: {marked:?}");
        }
        // Neighbouring pages are one click away.
        assert!(hrefs(&page).contains(&home.as_str()), "{page}");
        if path.starts_with(&project) {
            assert!(hrefs(&page).contains(&format!("/console/projects/{other}").as_str()), "{page}");
        }
    }
    // Each page shows whether it is of the live or the test environment, also pages without data.
    let is_live = |page: &Page| page.all("div").any(|part| part.get("class") == Some("frame live"));
    assert!(is_live(&browser.open(&format!("{project}/live/events")).await.is(403)));
    assert!(!is_live(&browser.open(&format!("{project}/test/events")).await.is(200)));
    assert!(!is_live(&browser.open(&project).await.is(200)));
    let id = customer.project.clone();
    service.admin().approve_project(v1::ApproveProjectRequest { id }).await.unwrap();
    service.settle().await;
    assert!(is_live(&browser.open(&project).await.is(200)));
    assert!(!is_live(&browser.open(&format!("{project}?in=test")).await.is(200)));
}

async fn pages_and_things_are_found(service: &Service) {
    let customer = Customer::new(service).await;
    let browser = service.browser_of(&customer.owner);
    let (project, data) = (&customer.project, format!("/console/projects/{}/test", customer.project));
    let find = async |words: &str| {
        let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("q", words).finish();
        browser.open(&format!("/console/find?project={project}&in=test&{query}")).await.is(200)
    };
    for (words, href) in [
        ("", format!("/console/projects/{project}/usage")),
        ("create webhook", format!("{data}/webhooks/new")),
        ("members", format!("{data}/explore?q=members")),
        ("@ada", format!("{data}/explore/profiles/%40ada")),
        ("$RUN", format!("{data}/explore/tokens/%24RUN")),
        ("th_1", format!("{data}/explore/theses/th_1")),
        ("hive", format!("/console/projects/{project}")),
    ] {
        let page = find(words).await;
        assert!(hrefs(&page).contains(&href.as_str()), "{words} finds no {href}: {page}");
    }
    let nothing = find("no page has these words").await;
    assert!(nothing.all("ul").any(|list| list.get("id") == Some("found")), "the search is still offered: {nothing}");
    // A project of somebody else adds nothing.
    let (outsider, _) = service.owner().await;
    let stranger = service.browser_of(&outsider);
    let page = stranger.open(&format!("/console/find?project={project}&q=th_1")).await.is(200);
    let page = page.says("Nothing has these words");
    assert!(!page.html.contains("/explore/theses/th_1"), "{page}");
    assert!(service.browser().get("/console/find").await.is(303).location().unwrap().starts_with("/console/sign-in"));
}

/// The names of the first steps that are done.
fn done(page: &Page) -> Vec<&str> {
    let steps = page.all("li").filter(|step| step.get("class") == Some("done"));
    steps.filter_map(|step| step.get("data-step")).collect()
}

async fn first_steps_tick_themselves(service: &Service) {
    let (owner, organization) = service.owner().await;
    let project = owner.project(&organization, "Hive").await.id;
    let browser = service.browser_of(&owner);
    let path = format!("/console/projects/{project}");
    let page = browser.open(&path).await.is(200).says("0 of 6 done").says("No request with a key");
    assert!(done(&page).is_empty());
    super::create_key(&browser, &project, "test").await;
    assert_eq!(done(&browser.open(&path).await), ["key"]);
    let page = browser.open(&path).await;
    let page = browser.submit(&page.form(&format!("{path}/live-access"))).await.is(200).says("2 of 6 done");
    assert_eq!(done(&page), ["key", "live"]);
    // A healthy tile, or one without data yet, needs no attention.
    page.says("Nothing needs attention").says("There is no webhook in this environment.");
}
