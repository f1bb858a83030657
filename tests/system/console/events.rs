//! The history of events, and one event.

use serde_json::Value;
use thesis_proto::v1::Environment;

use super::Customer;
use crate::harness::{
    Client, Service,
    browser::{Form, Page},
    text,
};

on_both_stores![
    the_history_is_filtered,
    its_pages_lead_on,
    what_is_wrong_is_told_beside_its_field,
    an_event_is_shown_whole,
    what_events_say_is_text,
    events_of_others_do_not_exist,
];

const SCRIPT: &str = "<script>alert(1)</script> \" onmouseover=\"alert(2)";

fn path(customer: &Customer) -> String {
    format!("/console/projects/{}/test/events", customer.project)
}

/// A client with a test key of the customer's project.
async fn client(service: &Service, customer: &Customer) -> Client {
    service.client(&customer.owner.key(&customer.project, Environment::Test).await.1)
}

/// The form with the filters.
fn filters(page: &Page) -> Form {
    let form = page.forms().into_iter().find(|form| !form.is_post && form.action.ends_with("/events"));
    form.unwrap_or_else(|| panic!("no filters in {page}"))
}

/// The ids of the events that a page leads to, from its top on.
fn listed(page: &Page) -> Vec<String> {
    let targets = page.all("a").filter_map(|link| link.get("href")?.split("/events/").nth(1));
    targets.map(str::to_owned).collect()
}

/// Where a link with this text leads.
fn link(page: &Page, label: &str) -> Option<String> {
    page.all("a").find(|link| link.text() == label).and_then(|link| link.get("href").map(str::to_owned))
}

async fn the_history_is_filtered(service: &Service) {
    let customer = Customer::new(service).await;
    let client = client(service, &customer).await;
    let mut events: Vec<Value> = Vec::new();
    for number in 0..3 {
        events.insert(0, client.thesis("writer", "HISTORY", &format!("number {number}")).await.1);
    }
    let browser = service.browser_of(&customer.owner);
    let form = filters(&browser.open(&path(&customer)).await.is(200));
    let form = form.tick("types", &["thesis.created"]).fill("token", "HISTORY").fill("handle", " @writer ");
    let page = browser.submit(&form).await.is(200);
    let ids: Vec<&str> = events.iter().map(|event| text(event, "id")).collect();
    assert_eq!(listed(&page), ids, "{page}");
    // The page's script knows them by their ids.
    assert_eq!(page.all("tr").filter_map(|row| row.get("data-id")).collect::<Vec<_>>(), ids, "{page}");
    let data = &events[0]["data"];
    let line = format!("{} on {}: number 2", text(&data["profile"], "handle"), text(&data["token"], "symbol"));
    let page = page.says(&line);
    // The form shows what was asked for, and the stream of the page follows the same.
    let again = filters(&page);
    assert_eq!(again.field("token").value, "HISTORY");
    let ticked = again.fields.iter().filter(|field| field.name == "types" && field.is_sent);
    assert_eq!(ticked.map(|field| field.value.as_str()).collect::<Vec<_>>(), ["thesis.created"]);
    let stream = page.elements.iter().find_map(|element| element.get("data-stream")).unwrap();
    assert_eq!(stream, "/v1/events/stream?types=thesis.created&token=HISTORY&handle=%40writer");
    // What does not match is not there.
    let none = browser.submit(&form.fill("handle", "@somebody_else")).await.is(200).says("There is no such event.");
    assert!(listed(&none).is_empty(), "{none}");
    // Bounds: the page of a time before there was anything begins with nothing, and no live events belong on it.
    let form = form.fill("created_before", "2020-01-01T00:00");
    let early = browser.submit(&form).await.is(200);
    assert!(listed(&early).is_empty() && !early.html.contains("data-stream"), "{early}");
}

async fn its_pages_lead_on(service: &Service) {
    let customer = Customer::new(service).await;
    let browser = service.browser_of(&customer.owner);
    let form = filters(&browser.open(&path(&customer)).await.is(200)).tick("types", &["thesis.created"]);
    let first = browser.submit(&form).await.is(200);
    assert_eq!((listed(&first).len(), link(&first, "First page")), (25, None), "{first}");
    let second = browser.open(&link(&first, "Older").unwrap()).await.is(200);
    let (one, other) = (listed(&first), listed(&second));
    assert!(!other.is_empty() && other.iter().all(|id| !one.contains(id)), "{second}");
    assert!(!second.html.contains("data-stream"), "{second}");
    let back = browser.open(&link(&second, "First page").unwrap()).await.is(200);
    assert_eq!(filters(&back).body(), form.body());
    // A cursor that was never issued is told.
    filters(&browser.open(&format!("{}?cursor=x", path(&customer))).await.is(400).says("cursor"));
    // One that no field can show is told by its name; a question changes nothing.
    let long = browser.open(&format!("{}?cursor={}", path(&customer), "x".repeat(5_000))).await.is(422);
    assert!(!long.says("Cursor: must").text().contains("Not saved"));
}

async fn what_is_wrong_is_told_beside_its_field(service: &Service) {
    let customer = Customer::new(service).await;
    let browser = service.browser_of(&customer.owner);
    let form = filters(&browser.open(&path(&customer)).await.is(200));
    let long = "x".repeat(201);
    let wrong: [(&[(&str, &str)], &str); 3] = [
        (&[("created_after", "soon")], "created_after"),
        (&[("created_after", "2026-02-02T00:00"), ("created_before", "2026-02-01T00:00")], "created_before"),
        (&[("token", long.as_str())], "token"),
    ];
    for (fields, at) in wrong {
        let form = fields.iter().fold(form.clone(), |form, (name, value)| form.fill(name, value));
        let page = browser.submit(&form).await.is(422);
        assert!(listed(&page).is_empty(), "{page}");
        let again = filters(&page);
        for (name, value) in fields {
            // The fields of times show the seconds too.
            assert!(again.field(name).value.starts_with(value), "{page}");
        }
        let field = again.field(at);
        assert!(field.is_wrong && !field.description.is_empty(), "{field:?}: {page}");
    }
    for query in ["types=bogus", "types=thesis.created&types=bogus", "token=a&token=b"] {
        let page = browser.open(&format!("{}?{query}", path(&customer))).await.is(422);
        let name = query.split('=').next().unwrap();
        assert!(filters(&page).fields.iter().any(|field| field.name == name && field.is_wrong), "{page}");
    }
    let page = browser.submit(&form.fill("created_after", "2001-01-01T00:00")).await.is(403);
    page.says("history reaches");
}

async fn an_event_is_shown_whole(service: &Service) {
    let customer = Customer::new(service).await;
    let event = client(service, &customer).await.thesis("writer", "WHOLE", "all of it").await.1;
    let browser = service.browser_of(&customer.owner);
    let page = browser.open(&format!("{}/{}", path(&customer), text(&event, "id"))).await.is(200);
    let page = page.says("thesis.created").says("all of it").says(text(&event, "source"));
    let shown = page.all("pre").next().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&shown.text()).unwrap(), event);
    // The button appears with JavaScript.
    let button = page.all("button").find(|button| button.get("data-copy") == shown.get("id")).unwrap();
    assert!(button.get("hidden").is_some(), "{page}");
    let thesis = format!("/explore/theses/{}", text(&event["data"], "thesis_id"));
    assert!(page.all("a").any(|link| link.get("href").is_some_and(|href| href.ends_with(&thesis))), "{page}");
}

async fn what_events_say_is_text(service: &Service) {
    let customer = Customer::new(service).await;
    let event = client(service, &customer).await.thesis("writer", "MARKUP", SCRIPT).await.1;
    let browser = service.browser_of(&customer.owner);
    for path in [path(&customer), format!("{}/{}", path(&customer), text(&event, "id"))] {
        let page = browser.open(&path).await.is(200).says(SCRIPT);
        assert!(!page.html.contains(SCRIPT), "{page}");
    }
    let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("chain", SCRIPT).finish();
    let page = browser.open(&format!("{}?{query}", path(&customer))).await.is(200);
    assert_eq!(filters(&page).field("chain").value, SCRIPT);
    assert!(!page.html.contains(SCRIPT), "{page}");
}

async fn events_of_others_do_not_exist(service: &Service) {
    let (customer, other) = (Customer::new(service).await, Customer::new(service).await);
    let event = client(service, &customer).await.thesis("writer", "THEIRS", "not yours").await.1;
    let (id, none) = (text(&event, "id"), format!("evt_{}", "0".repeat(25)));
    let browser = service.browser_of(&other.owner);
    for place in [path(&customer), path(&other)] {
        let theirs = browser.get(&format!("{place}/{id}")).await.is(404);
        let unknown = browser.get(&format!("{place}/{none}")).await.is(404);
        assert_eq!(theirs.without_request(), unknown.without_request());
    }
    browser.get(&path(&customer)).await.is(404);
    let own = browser.open(&path(&other)).await.is(200);
    assert!(!own.text().contains("not yours"), "{own}");
    browser.get(&path(&other).replace("/test/", "/staging/")).await.is(404);
}
