//! Webhooks in the console.

mod access;

use serde_json::{Value, json};
use thesis_proto::v1::{self, Environment, Role};

use super::{Customer, id_in};
use crate::harness::{
    Client, Receiver, SOON, Service,
    browser::{Browser, Origin, Page},
    eventually,
    person::new_key,
    text,
};

on_both_stores![
    a_secret_is_shown_once,
    what_is_wrong_stands_beside_its_field,
    the_plan_limits_their_number,
    headers_and_payload_are_set_and_no_value_is_shown,
    the_later_editor_is_told,
    a_new_secret_signs_beside_the_old_one,
    filters_that_no_form_can_hold_stay,
    buttons_do_what_they_say,
    a_live_webhook_is_deleted_by_its_name,
    what_people_type_is_text,
];

const URL: &str = "http://127.0.0.1:19999/hook";

/// The list of webhooks of a customer's test environment.
fn list_of(customer: &Customer) -> String {
    format!("/console/projects/{}/test/webhooks", customer.project)
}

/// A client that may do everything with a customer's webhooks in the test environment.
async fn client_of(service: &Service, customer: &Customer) -> Client {
    let scopes = vec!["webhooks:write".to_owned()];
    let request = v1::AccountServiceCreateKeyRequest { scopes, ..new_key(&customer.project, Environment::Test) };
    let made = customer.owner.ask().create_key(request).await.unwrap().into_inner();
    service.client(&made.key)
}

/// Makes a webhook; gives the page with its secret, and the path of its own page.
async fn create(browser: &Browser, list: &str, url: &str) -> (Page, String) {
    let form = browser.open(&format!("{list}/new")).await.is(200).form(list);
    let page = browser.submit(&form.fill("url", url).tick("events", &["thesis.created"])).await.is(200);
    let path = page.word(&format!("{list}/wh_"));
    (page, path)
}

/// The webhooks of a project as its keys see them.
async fn rows(client: &Client) -> Vec<Value> {
    client.all("/v1/webhooks").await
}

async fn a_secret_is_shown_once(service: &Service) {
    let customer = Customer::new(service).await;
    let (browser, list) = (service.browser_of(&customer.owner), list_of(&customer));
    let client = client_of(service, &customer).await;
    browser.open(&list).await.is(200).says("There are no webhooks yet.");
    let form = browser.open(&format!("{list}/new")).await.is(200).form(&list);
    let form =
        form.fill("url", &format!(" {URL} ")).fill("description", "für Menschen").fill("token", " $RUN ,, tk_1 ");
    let form = form.fill("chain", "sandbox").tick("events", &["token.activity", "thesis.created"]);
    let made = browser.submit(&form).await.is(200).says("only for ten minutes");
    let secret = made.word("whsec_");
    assert!(secret.len() > 30, "{secret}");
    // Sent again, the form makes no second one and tells the same secret.
    let again = browser.submit(&form).await.is(200);
    assert_eq!(again.word("whsec_"), secret);
    // So does a reload. For everybody else, the page leads to the webhook's.
    assert_eq!(browser.open(&again.path).await.is(200).word("whsec_"), secret);
    let other = service.browser_of(&service.member(&customer.owner, &customer.organization, Role::Owner).await);
    let location = other.get(&again.path).await.is(303).location().unwrap();
    assert_eq!(format!("{location}/secret"), again.path);
    let kept = rows(&client).await;
    assert_eq!(kept.len(), 1);
    assert_eq!((text(&kept[0], "url"), text(&kept[0], "description")), (URL, "für Menschen"));
    assert_eq!(kept[0]["filters"], json!({"token": ["$RUN", "tk_1"], "chain": ["sandbox"]}));
    assert_eq!(kept[0]["events"], json!(["thesis.created", "token.activity"]));
    let path = format!("{list}/{}", text(&kept[0], "id"));
    assert_eq!(made.word(&format!("{list}/wh_")), path);

    let filters = "token: $RUN, tk_1; chain: sandbox";
    let page = browser.open(&path).await.is(200).says(URL).says(filters).says("für Menschen").says("Enabled");
    assert_eq!(page.form(&path).field("token").value, "$RUN, tk_1");
    let listed = browser.open(&list).await.is(200).says(URL).says(filters).says("1 of the ");
    for page in [&page, &listed] {
        assert!(!page.html.contains(&secret), "{page}");
    }
    browser.open(&format!("{list}?status=enabled")).await.is(200).says(URL);
    browser.open(&format!("{list}?status=disabled")).await.is(200).says("No webhook has this status.");
    for query in ["status=foo", "status=enabled&status=disabled"] {
        let page = browser.open(&format!("{list}?{query}")).await.is(422).says("Status: must");
        assert!(page.forms().iter().flat_map(|form| &form.fields).any(|one| one.name == "status" && one.is_wrong));
    }
    assert!(browser.open(&format!("{list}?cursor=none")).await.is(400).title().contains("test"));
    // Live data needs its approval.
    browser.open(&list.replace("/test/", "/live/")).await.is(403);
    browser.open(&list.replace("/test/", "/other/")).await.is(404);
}

async fn headers_and_payload_are_set_and_no_value_is_shown(service: &Service) {
    let customer = Customer::new(service).await;
    let (browser, list) = (service.browser_of(&customer.owner), list_of(&customer));
    let (client, receiver) = (client_of(service, &customer).await, Receiver::start().await);
    let form = browser.open(&format!("{list}/new")).await.is(200).form(&list);
    let form = form.fill("url", &receiver.url).tick("events", &["thesis.created"]).tick("payload", &["thin"]);
    let form = form.fill("headers", "X-Key: typed-4711\nHost: x").fill("text", "moon OR");
    let wrong = browser.submit(&form).await.is(422);
    let form = wrong.form(&list).fill("text", "moon, OR sun");
    assert!(form.field("text").is_wrong);
    let field = form.field("headers");
    assert!(field.is_wrong && field.value.is_empty() && !wrong.html.contains("4711"), "{wrong}");
    let form = form.fill("headers", "X-Key: typed-4711\n\nX-Other : 2");
    let made = browser.submit(&form).await.is(200);
    let kept = rows(&client).await.remove(0);
    assert_eq!((&kept["headers"], &kept["payload"]), (&json!(["X-Key", "X-Other"]), &json!("thin")));
    assert_eq!(kept["filters"], json!({"text": ["moon, OR sun"]}));
    let path = format!("{list}/{}", text(&kept, "id"));
    let page = browser.open(&path).await.is(200).says("X-Key, X-Other").says("thin").says(text(&kept, "public_key"));
    assert!(!page.html.contains("4711") && !made.html.contains("4711"));
    browser.submit(&page.form(&path).fill("headers", "X-Other:\nX-New: 3").tick("payload", &[])).await.is(200);
    let kept = rows(&client).await.remove(0);
    assert_eq!((&kept["headers"], &kept["payload"]), (&json!(["X-Key", "X-New"]), &json!("full")));
    assert_eq!(kept["filters"], json!({"text": ["moon, OR sun"]}));
    let sent = client.post(&format!("/v1/webhooks/{}/test", text(&kept, "id")), &json!({})).await.ok(202);
    let received = eventually("the test arrives", SOON, async || receiver.received().pop()).await;
    assert_eq!((received.header("x-key"), received.header("x-new")), ("typed-4711", "3"));
    let delivery = format!("{path}/deliveries/{}", text(&sent, "id"));
    let page = eventually("the attempt is reported", SOON, async || {
        let page = browser.open(&delivery).await.is(200);
        page.text().contains("webhook-signature").then_some(page)
    })
    .await;
    assert!(!page.html.contains("4711"));
}

async fn what_is_wrong_stands_beside_its_field(service: &Service) {
    let customer = Customer::new(service).await;
    let (browser, list) = (service.browser_of(&customer.owner), list_of(&customer));
    let client = client_of(service, &customer).await;
    let (long, long_value) = ("x".repeat(501), "x".repeat(201));
    let wrong: [(&str, &str); 8] = [
        ("url", ""),
        ("url", "no address"),
        ("url", "ftp://127.0.0.1/hook"),
        ("url", "http://user:word@127.0.0.1:19999/hook"),
        ("description", &long),
        ("token", &long_value),
        ("handle", &long_value),
        ("chain", &long_value),
    ];
    let right = [("url", URL), ("description", "kept"), ("token", "$RUN"), ("handle", "@ada"), ("chain", "sandbox")];
    let fill = |page: &Page, action: &str, name: &str, value: &str| {
        let mut form = page.form(action).tick("events", &["profile.updated"]);
        for (field, usual) in right {
            form = form.fill(field, if field == name { value } else { usual });
        }
        form
    };
    let check = |page: &Page, action: &str, name: &str, value: &str| {
        let form = page.form(action);
        for (field, usual) in right {
            let (field, is_it) = (form.field(field), field == name);
            assert_eq!(field.value, if is_it { value } else { usual }, "{page}");
            assert_eq!(field.is_wrong, is_it, "{field:?}");
            assert!(!is_it || !field.description.is_empty(), "{field:?}");
        }
        let ticked: Vec<_> = form.fields.iter().filter(|field| field.name == "events" && field.is_sent).collect();
        assert!(ticked.len() == 1 && ticked[0].value == "profile.updated", "{ticked:?}");
    };
    let mut page = browser.open(&format!("{list}/new")).await.is(200);
    for (name, value) in wrong {
        page = browser.submit(&fill(&page, &list, name, value)).await.is(422);
        check(&page, &list, name, value);
    }
    // All that is wrong is told at once.
    let page = browser.submit(&page.form(&list).fill("url", "").tick("events", &[])).await.is(422);
    let form = page.form(&list);
    assert!(form.field("url").is_wrong && form.field("events").is_wrong && form.field("chain").is_wrong, "{page}");
    assert!(form.field("events").description.contains("Tick at least one."), "{page}");
    assert!(rows(&client).await.is_empty());

    let (_, path) = create(&browser, &list, URL).await;
    let before = rows(&client).await;
    let mut page = browser.open(&path).await.is(200);
    for (name, value) in wrong {
        page = browser.submit(&fill(&page, &path, name, value)).await.is(422);
        check(&page, &path, name, value);
    }
    let csrf = browser.csrf().await;
    let statuses = [("csrf", csrf.as_str()), ("status", "disabled_failing")];
    browser.post(&format!("{path}/status"), &statuses, Origin::Here).await.is(422);
    assert_eq!(rows(&client).await, before);
}

async fn the_plan_limits_their_number(service: &Service) {
    let customer = Customer::new(service).await;
    let (browser, list) = (service.browser_of(&customer.owner), list_of(&customer));
    for _ in 0..3 {
        create(&browser, &list, URL).await;
    }
    let form = browser.open(&format!("{list}/new")).await.is(200).form(&list);
    let page =
        browser.submit(&form.fill("url", "http://127.0.0.1:19999/one-more")).await.is(403).says("The plan allows");
    assert_eq!(page.form(&list).field("url").value, "http://127.0.0.1:19999/one-more");
    browser.open(&list).await.is(200).says("3 of the 3 webhooks");
}

async fn the_later_editor_is_told(service: &Service) {
    let customer = Customer::new(service).await;
    let other = service.member(&customer.owner, &customer.organization, Role::Developer).await;
    let (one, other, list) = (service.browser_of(&customer.owner), service.browser_of(&other), list_of(&customer));
    let (_, path) = create(&one, &list, URL).await;
    let late = other.open(&path).await.is(200).form(&path).fill("description", "Late").fill("handle", "@late");
    let first = one.open(&path).await.is(200).form(&path).fill("description", "First");
    let first = first.tick("events", &["token.activity"]);
    one.submit(&first).await.is(200).says("The webhook is saved.").says("First").says("token.activity");
    // Sent again it is the same change, not another one.
    one.submit(&first).await.is(200).says("The webhook is saved.");
    let told = other.submit(&late).await.is(409).says("again").says("First");
    // What was typed is kept.
    let form = told.form(&path);
    assert_eq!((&*form.field("description").value, &*form.field("handle").value), ("Late", "@late"), "{told}");
    let now = one.open(&path).await.is(200).says("First");
    assert!(!now.html.contains("@late"), "{now}");
    // After a look they may change it; what is empty is cleared.
    other.submit(&form.fill("description", "")).await.is(200).says("handle: @late");
    let client = client_of(service, &customer).await;
    let kept = rows(&client).await;
    assert_eq!((&kept[0]["description"], &kept[0]["filters"]), (&Value::Null, &json!({"handle": ["@late"]})));
}

async fn filters_that_no_form_can_hold_stay(service: &Service) {
    let customer = Customer::new(service).await;
    let (browser, list, client) =
        (service.browser_of(&customer.owner), list_of(&customer), client_of(service, &customer).await);
    let many: Vec<String> = (0..50).map(|number| format!("{number}{}", "&".repeat(190))).collect();
    let several = json!({"text": ["moon", "sun"]});
    for filters in [json!({"token": many, "handle": many, "chain": many}), json!({"token": ["a,b"]}), several] {
        let new = json!({"url": URL, "events": ["thesis.created"], "filters": filters});
        let made = client.post("/v1/webhooks", &new).await.ok(201);
        let path = format!("{list}/{}", text(&made, "id"));
        let form = browser.open(&path).await.is(200).says("the API can change them").form(&path);
        browser.submit(&form.fill("description", "Described")).await.is(200).says("Described");
        browser.open(&format!("{path}/matches")).await.is(200);
        let now = client.get(&format!("/v1/webhooks/{}", text(&made, "id"))).await.ok(200);
        assert_eq!((&now["filters"], &now["description"]), (&filters, &json!("Described")));
    }
}

async fn a_new_secret_signs_beside_the_old_one(service: &Service) {
    let customer = Customer::new(service).await;
    let (browser, list) = (service.browser_of(&customer.owner), list_of(&customer));
    let receiver = Receiver::start().await;
    let (made, path) = create(&browser, &list, &receiver.url).await;
    let old = made.word("whsec_");
    let form = browser.open(&path).await.is(200).form(&format!("{path}/rotate"));
    let rotated = browser.submit(&form).await.is(200).says("24 hours").says("only for ten minutes");
    let new = rotated.word("whsec_");
    assert_ne!(new, old);
    assert_eq!(browser.submit(&form).await.is(200).word("whsec_"), new, "a form that is sent again rotates again");
    let page = browser.open(&path).await.is(200);
    assert!(new.starts_with(&page.word("whsec_")) && !page.html.contains(&new), "{page}");
    let sent = browser.answer(&page.form(&format!("{path}/test"))).await.is(303);
    let delivery = id_in(&sent.location().unwrap(), "del_");
    let received = eventually("the test event arrives", SOON, async || receiver.received().into_iter().next()).await;
    assert_eq!(received.header("service-delivery-id"), delivery);
    received.verify(&new);
    received.verify(&old);
}

async fn buttons_do_what_they_say(service: &Service) {
    let customer = Customer::new(service).await;
    let (browser, list) = (service.browser_of(&customer.owner), list_of(&customer));
    let client = client_of(service, &customer).await;
    let (_, path) = create(&browser, &list, URL).await;
    let page = browser.open(&path).await.is(200);
    let test = page.form(&format!("{path}/test"));
    let location = browser.answer(&test).await.is(303).location().unwrap();
    assert!(location.starts_with(&format!("{path}/deliveries/del_")), "{location}");
    let again = browser.answer(&test).await.is(303).location().unwrap();
    assert_eq!(again, location, "a form that is sent again sends a second event");
    let status = format!("{path}/status");
    for word in ["disabled", "enabled"] {
        let form = browser.open(&path).await.is(200).form(&status);
        assert_eq!(form.field("status").value, word);
        browser.submit(&form).await.is(200).says(&format!("The webhook is {word}."));
        assert_eq!(text(&rows(&client).await[0], "status"), word);
    }
    // Who asks for the address of a button comes to its page.
    for action in ["status", "rotate", "test", "delete"] {
        assert_eq!(browser.get(&format!("{path}/{action}")).await.is(303).location().unwrap(), path);
    }
    assert_eq!(rows(&client).await.len(), 1);
    let page = browser.open(&path).await.is(200);
    let form = page.form(&format!("{path}/delete"));
    browser.submit(&form).await.is(200).says("The webhook is deleted.").says("There are no webhooks yet.");
    assert!(rows(&client).await.is_empty());
    browser.open(&path).await.is(404);
    browser.submit(&form).await.is(404);
    browser.submit(&page.form(&path)).await.is(404);
}

async fn a_live_webhook_is_deleted_by_its_name(service: &Service) {
    let customer = Customer::new(service).await;
    let id = customer.project.clone();
    service.admin().approve_project(v1::ApproveProjectRequest { id }).await.unwrap();
    service.settle().await;
    let (browser, list) = (service.browser_of(&customer.owner), list_of(&customer).replace("/test/", "/live/"));
    let url = "https://1.1.1.1/hook";
    let (_, path) = create(&browser, &list, url).await;
    let delete = format!("{path}/delete");
    let form = browser.open(&path).await.is(200).form(&delete);
    for wrong in ["", "https://1.1.1.1/"] {
        let refused = browser.submit(&form.fill("confirm", wrong)).await.is(422);
        assert!(refused.form(&delete).field("confirm").is_wrong, "{refused}");
    }
    browser.open(&path).await.is(200);
    browser.submit(&form.fill("confirm", url)).await.is(200).says("The webhook is deleted.");
    browser.open(&path).await.is(404);
}

async fn what_people_type_is_text(service: &Service) {
    let customer = Customer::new(service).await;
    let (browser, list) = (service.browser_of(&customer.owner), list_of(&customer));
    let typed = "<script>alert(1)</script>\" onmouseover=\"alert(2) {{ 7 * 7 }}";
    let form = browser.open(&format!("{list}/new")).await.is(200).form(&list);
    let form = form.fill("url", URL).fill("description", typed).fill("chain", "<b>sandbox</b>");
    let wrong = browser.submit(&form.fill("url", typed)).await.is(422);
    let made = browser.submit(&form).await.is(200);
    let path = made.word(&format!("{list}/wh_"));
    let (page, listed) = (browser.open(&path).await.is(200), browser.open(&list).await.is(200));
    assert_eq!(page.form(&path).field("description").value, typed);
    for page in [wrong, made, page.says(typed), listed.says("<script>alert(1)</script>")] {
        assert!(!page.html.contains("<script>alert") && !page.html.contains("<b>sandbox"), "{page}");
    }
}
