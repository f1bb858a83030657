//! The request log: the list with its filters, one request as code, and who sees it.

use thesis_proto::v1::{Environment, Role};

use super::Customer;
use crate::harness::{
    Client, SOON, Service,
    browser::{Browser, Page},
    eventually,
};

on_both_stores![requests_are_listed_and_filtered, a_request_is_shown_as_code, requests_of_others_do_not_exist];

const SCRIPT: &str = "<script>alert(1)</script>";

fn path(customer: &Customer, environment: &str) -> String {
    format!("/console/projects/{}/{environment}/requests", customer.project)
}

/// A client with a test key of the customer's project.
async fn client(service: &Service, customer: &Customer) -> Client {
    service.client(&customer.owner.key(&customer.project, Environment::Test).await.1)
}

/// The ids of the listed requests.
fn listed(page: &Page) -> Vec<String> {
    page.all("tr").filter_map(|row| row.get("data-id")).map(str::to_owned).collect()
}

/// Waits until a list has a number of requests.
async fn has(browser: &Browser, path: &str, count: usize) -> Page {
    eventually(&format!("{count} requests in {path}"), SOON, async || {
        let page = browser.open(path).await.is(200);
        (listed(&page).len() == count).then_some(page)
    })
    .await
}

/// The target of the first request on a page.
fn first(page: &Page) -> String {
    let links = page.all("a").filter_map(|link| link.get("href"));
    let mut requests = links.filter(|href| href.contains("/requests/") && href.contains("req_"));
    requests.next().unwrap_or_else(|| panic!("no request in {page}")).to_owned()
}

async fn requests_are_listed_and_filtered(service: &Service) {
    let customer = Customer::new(service).await;
    let (client, browser) = (client(service, &customer).await, service.browser_of(&customer.owner));
    let path = path(&customer, "test");
    browser.open(&path).await.is(200).says("There are no requests yet.");
    client.get("/v1/theses?limit=2").await.ok(200);
    let missing = client.get("/v1/theses/th_unknown").await;
    missing.error(404, "THESIS_NOT_FOUND");
    client.get("/v1/theses?limit=0").await.error(422, "VALIDATION_FAILED");
    client.get("/v1/me?ticket=hush").await.error(422, "VALIDATION_FAILED");
    // Actions of people in the console are not logged.
    browser.open(&path.replace("/requests", "/events")).await.is(200);
    let page = has(&browser, &path, 4).await.says("/v1/theses/th_unknown").says("THESIS_NOT_FOUND").says("laptop");
    assert!(!page.html.contains("hush"), "{page}");
    let id = missing.header("x-service-request-id").to_owned();
    assert!(listed(&page).contains(&id), "{id} is not in {page}");
    for (query, count) in [
        ("status=errors", 3),
        ("status=successes", 1),
        ("status=5xx", 0),
        ("method=GET", 4),
        ("method=POST", 0),
        ("path=%7Bid%7D", 1),
        ("code=validation_failed", 2),
        (&*format!("request={id}"), 1),
        ("from=2001-01-01T00:00:00Z", 4),
        ("to=2001-01-01T00:00:00Z", 0),
    ] {
        let page = browser.open(&format!("{path}?{query}")).await.is(200);
        assert_eq!(listed(&page).len(), count, "{query}: {page}");
    }
    for query in ["status=bogus", "slow=x", "from=soon"] {
        browser.open(&format!("{path}?{query}")).await.is(422).says("must be");
    }
    browser.open(&format!("{path}?cursor=x")).await.is(400).says("cursor");
    // A member with read-only access sees them, too.
    let viewer = service.member(&customer.owner, &customer.organization, Role::Viewer).await;
    assert_eq!(listed(&service.browser_of(&viewer).open(&path).await.is(200)).len(), 4);
}

async fn a_request_is_shown_as_code(service: &Service) {
    let customer = Customer::new(service).await;
    let (client, browser) = (client(service, &customer).await, service.browser_of(&customer.owner));
    let list = path(&customer, "test");
    let query = "cursor=%3Cscript%3Ealert(1)%3C%2Fscript%3E";
    client.get(&format!("/v1/theses?{query}")).await.error(400, "INVALID_CURSOR");
    let page = browser.open(&first(&has(&browser, &list, 1).await)).await.is(200);
    let page = page.says("400").says("INVALID_CURSOR").says("GET /v1/theses").says(SCRIPT).says("laptop");
    assert!(!page.html.contains(SCRIPT), "{page}");
    for code in [
        "curl --fail-with-body",
        "import httpx",
        "await fetch(",
        "http.NewRequest(",
        &*format!("/v1/theses?{query}"),
        "client.list_theses(cursor=\"<script>alert(1)</script>\")",
        "client.listTheses({ cursor: \"<script>alert(1)</script>\" })",
    ] {
        assert!(page.text().contains(code), "{code} is not in {page}");
    }
    // Requests that do not exist, or not at that time.
    let id = first(&has(&browser, &list, 1).await).rsplit('/').next().unwrap().to_owned();
    for missing in [format!("{list}/1/{id}"), format!("{list}/x/{id}"), format!("{list}/1780000000000/req_none")] {
        browser.get(&missing).await.is(404);
    }
}

async fn requests_of_others_do_not_exist(service: &Service) {
    let (customer, other) = (Customer::new(service).await, Customer::new(service).await);
    client(service, &customer).await.get("/v1/me").await.ok(200);
    let browser = service.browser_of(&customer.owner);
    let list = path(&customer, "test");
    let request = first(&has(&browser, &list, 1).await);
    let (outsider, visitor) = (service.browser_of(&other.owner), service.browser());
    for path in [&list, &request] {
        outsider.get(path).await.is(404);
        let answer = visitor.get(path).await.is(303);
        assert!(answer.location().unwrap().starts_with("/console/sign-in?next="), "{answer}");
    }
    // In their own project it is not, either.
    outsider.get(&request.replace(&customer.project, &other.project)).await.is(404);
    has(&outsider, &path(&other, "test"), 0).await;
}
