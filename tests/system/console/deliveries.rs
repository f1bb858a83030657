//! Deliveries of webhooks: the log, one with all that was sent, a replay, and what filters match.

use serde_json::{Value, json};
use thesis_proto::v1::{self, Environment, Role};

use super::{Customer, id_in};
use crate::harness::{
    ALL_SCOPES, Client, Receiver, SOON, Service,
    browser::{Form, Origin, Page},
    eventually,
    person::new_key,
    teapot, text,
};

on_both_stores![
    a_delivery_is_inspected_and_replayed,
    many_are_sent_again,
    failures_are_shown,
    a_retry_is_sent_now,
    the_answer_to_a_failed_attempt_is_shown,
    an_answer_that_echoes_a_header_hides_its_value,
    an_event_shows_its_deliveries,
    the_log_is_filtered_and_paged,
    a_viewer_only_looks,
    other_peoples_deliveries_do_not_exist,
    matches_are_counted,
];

/// A customer with a webhook for theses, in the test environment.
struct Hook {
    customer: Customer,
    client: Client,
    receiver: Receiver,
    webhook: Value,
}

impl Hook {
    async fn new(service: &Service) -> Self {
        let customer = Customer::new(service).await;
        // Tests ask often.
        let plan = v1::SetOrganizationPlanRequest { id: customer.organization.clone(), plan: "business".to_owned() };
        service.admin().set_organization_plan(plan).await.unwrap();
        let scopes = ALL_SCOPES.iter().map(ToString::to_string).collect();
        let key = v1::AccountServiceCreateKeyRequest { scopes, ..new_key(&customer.project, Environment::Test) };
        let made = customer.owner.ask().create_key(key).await.unwrap().into_inner();
        service.settle().await;
        let (client, receiver) = (service.client(&made.key), Receiver::start().await);
        let webhook = client.webhook(&receiver.url, &["thesis.created"]).await;
        Self { customer, client, receiver, webhook }
    }

    /// The path of a page of the workspace.
    fn within(&self, page: &str) -> String {
        format!("/console/projects/{}/test{page}", self.customer.project)
    }

    /// The path of the webhook's page.
    fn path(&self) -> String {
        self.within(&format!("/webhooks/{}", text(&self.webhook, "id")))
    }

    /// The path of a delivery's page.
    fn path_of(&self, delivery: &str) -> String {
        format!("{}/deliveries/{delivery}", self.path())
    }

    /// The webhook's deliveries.
    async fn deliveries(&self) -> Vec<Value> {
        self.client.all(&format!("/v1/webhooks/{}/deliveries", text(&self.webhook, "id"))).await
    }

    /// Waits until one of the deliveries is as demanded; gives its id.
    async fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> String {
        eventually(what, SOON, async || {
            self.deliveries().await.iter().find(|row| is_so(row)).map(|row| text(row, "id").to_owned())
        })
        .await
    }

    /// Makes an event, and waits until its delivery has a status; gives the delivery's id.
    async fn send(&self, said: &str, status: &str) -> String {
        let event = self.client.thesis("writer", "SHOWN", said).await.1;
        self.until(status, |row| row["event_id"] == event["id"] && row["status"] == status).await
    }

    /// Makes an event whose attempt at a webhook fails; gives the path of the delivery's page.
    async fn failed_delivery(&self, webhook: &Value) -> String {
        let webhook = text(webhook, "id");
        self.client.thesis("writer", "SHOWN", "x").await;
        let failed = eventually("an attempt fails", SOON, async || {
            let log = self.client.all(&format!("/v1/webhooks/{webhook}/deliveries")).await;
            log.into_iter().find(|row| row["status"] == "retrying").map(|row| text(&row, "id").to_owned())
        })
        .await;
        self.within(&format!("/webhooks/{webhook}/deliveries/{failed}"))
    }
}

/// Whether a page leads to a path.
fn leads_to(page: &Page, path: &str) -> bool {
    page.all("a").any(|link| link.get("href") == Some(path))
}

async fn a_delivery_is_inspected_and_replayed(service: &Service) {
    let hook = Hook::new(service).await;
    let browser = service.browser_of(&hook.customer.owner);
    let id = hook.send("<script>alert(1)</script> & \"more\", ünï 🚀", "delivered").await;
    let sent = hook.receiver.received().pop().unwrap();
    let path = hook.path_of(&id);
    let mut page = browser.open(&path).await.is(200).says("delivered").says("1 of 6").says("200");
    page = page.says(std::str::from_utf8(&sent.body).unwrap()).says("exactly as they are sent");
    let told = ["user-agent", "content-type", "service-event-id", "service-event-type", "service-delivery-id"];
    for name in told.into_iter().chain(["service-delivery-attempt", "service-replay"]) {
        page = page.says(&format!("{name} {}", sent.header(name)));
    }
    // The signature is told by its time alone.
    let (time, signature) = sent.header("service-signature").split_once(",v1=").unwrap();
    page = page.says(&format!("service-signature {time},v1=…"));
    for hidden in [signature, text(&hook.webhook, "secret"), "service-replay-of", "service-test"] {
        assert!(!page.html.contains(hidden), "{hidden} is in {page}");
    }
    let event = sent.header("service-event-id");
    assert!(leads_to(&page, &hook.within(&format!("/events/{event}"))) && leads_to(&page, &hook.path()), "{page}");
    // Who opens the form's address comes to the form.
    assert_eq!(browser.open(&format!("{path}/replay")).await.is(200).heading(), page.heading());

    let form = page.form(&format!("{path}/replay"));
    let replayed = id_in(&browser.submit(&form).await.is(200).says("sent again").path, "del_");
    assert_ne!(replayed, id);
    // The same form makes no third one.
    assert_eq!(id_in(&browser.submit(&form).await.is(200).path, "del_"), replayed);
    hook.until("the replay is delivered", |row| row["id"] == *replayed && row["status"] == "delivered").await;
    let received = hook.receiver.received();
    assert_eq!(received.len(), 2);
    let again = &received[1];
    again.verify(text(&hook.webhook, "secret"));
    assert_eq!((again.header("service-replay-of"), &again.body), (&*id, &sent.body));
    let page = browser.open(&hook.path_of(&replayed)).await.is(200).says("Replay of");
    let page = page.says(&format!("service-replay-of {id}")).says("service-replay true");
    assert!(leads_to(&page, &path), "{page}");
    assert_eq!(hook.deliveries().await.len(), 2);
}

async fn many_are_sent_again(service: &Service) {
    let hook = Hook::new(service).await;
    let browser = service.browser_of(&hook.customer.owner);
    let ids = [hook.send("one", "delivered").await, hook.send("two", "delivered").await];
    let path = hook.path();
    let page = browser.open(&path).await.is(200).says("2 attempts, 100 % succeeded");
    let form = page.form(&format!("{path}/replay")).fill("status", "delivered");
    let wrong = form.fill("since", "soon");
    browser.submit(&wrong).await.is(422).says("must be a date and a time");
    browser.submit(&form).await.is(200).says("The deliveries are sent again.");
    hook.until("a replay is delivered", |row| row["is_replay"] == true && row["status"] == "delivered").await;
    eventually("the page says that it is done", SOON, async || {
        let page = browser.open(&path).await.is(200);
        page.text().contains("done: 2 sent again of 2 examined").then_some(())
    })
    .await;
    // The same form begins no second one.
    browser.submit(&form).await.is(200);
    eventually("both arrive", SOON, async || (hook.receiver.received().len() == 4).then_some(())).await;
    let originals = hook.receiver.received().split_off(2);
    let mut again: Vec<String> = originals.iter().map(|sent| sent.header("service-replay-of").to_owned()).collect();
    again.sort();
    let mut expected = ids;
    expected.sort();
    assert_eq!(again, expected);
}

async fn failures_are_shown(service: &Service) {
    let hook = Hook::new(service).await;
    let browser = service.browser_of(&hook.customer.owner);
    hook.receiver.answer(500);
    let path = hook.path_of(&hook.send("tried again later", "retrying").await);
    let page = browser.open(&path).await.is(200).says("retrying").says("500").says("Next attempt due");
    assert!(page.find_form(&format!("{path}/replay")).is_none(), "{page}");
    let csrf = browser.csrf().await;
    let fields = [("csrf", &*csrf), ("once", "forged")];
    let told = browser.post(&format!("{path}/replay"), &fields, Origin::Here).await.is(409).says("still under way");
    assert_eq!(told.heading(), page.heading());

    // This answer ends the delivery, and disables the webhook: a replay goes out all the same.
    hook.receiver.answer(410);
    let path = hook.path_of(&hook.send("gone", "failed").await);
    let page = browser.open(&path).await.is(200).says("failed").says("410").says("1 of 6");
    let replayed = id_in(&browser.submit(&page.form(&format!("{path}/replay"))).await.is(200).path, "del_");
    hook.until("the replay is delivered", |row| row["id"] == *replayed && row["status"] == "delivered").await;
}

async fn a_retry_is_sent_now(service: &Service) {
    let hook = Hook::new(service).await;
    let browser = service.browser_of(&hook.customer.owner);
    hook.receiver.answer(500);
    let id = hook.send("again now", "retrying").await;
    let path = hook.path_of(&id);
    let form = browser.open(&path).await.is(200).form(&format!("{path}/now"));
    browser.submit(&form).await.is(200).says("The next attempt is made now.");
    let is_done = |row: &Value| row["id"] == *id && row["status"] == "delivered" && row["attempt"] == 2;
    hook.until("the retry is delivered", is_done).await;
    // Neither the same form nor a new one changes anything now.
    browser.submit(&form).await.is(200);
    assert!(browser.open(&path).await.is(200).find_form(&format!("{path}/now")).is_none());
    let csrf = browser.csrf().await;
    browser.post(&format!("{path}/now"), &[("csrf", &*csrf), ("once", "forged")], Origin::Here).await.is(303);
    assert_eq!((hook.receiver.received().len(), hook.deliveries().await.len()), (2, 1));
    let viewer = service.member(&hook.customer.owner, &hook.customer.organization, Role::Viewer).await;
    let viewer = service.browser_of(&viewer);
    hook.receiver.answer(500);
    let path = hook.path_of(&hook.send("not theirs", "retrying").await);
    assert!(viewer.open(&path).await.is(200).find_form(&format!("{path}/now")).is_none());
    let csrf = viewer.csrf().await;
    viewer.post(&format!("{path}/now"), &[("csrf", &*csrf), ("once", "forged")], Origin::Here).await.is(403);
}

async fn the_answer_to_a_failed_attempt_is_shown(service: &Service) {
    let hook = Hook::new(service).await;
    let browser = service.browser_of(&hook.customer.owner);
    // Nobody listens there.
    for (url, told) in
        [(teapot().await, "<b>short</b> and stout"), ("http://127.0.0.1:19996/".to_owned(), "nothing listens")]
    {
        let webhook = hook.client.webhook(&url, &["thesis.created"]).await;
        let page = browser.open(&hook.failed_delivery(&webhook).await).await.is(200).says(told);
        assert!(!page.html.contains("<b>short"), "{page}");
    }
}

async fn an_answer_that_echoes_a_header_hides_its_value(service: &Service) {
    let hook = Hook::new(service).await;
    let browser = service.browser_of(&hook.customer.owner);
    let headers = json!({"Authorization": "Bearer of-the-customer-5d0e"});
    let body = json!({"url": teapot().await, "events": ["thesis.created"], "headers": headers});
    let webhook = hook.client.post("/v1/webhooks", &body).await.ok(201);
    let path = hook.failed_delivery(&webhook).await;
    let page = browser.open(&path).await.is(200).says("and stout, and no tea for [hidden]");
    assert!(!page.html.contains("5d0e"), "{page}");
}

async fn an_event_shows_its_deliveries(service: &Service) {
    let hook = Hook::new(service).await;
    let browser = service.browser_of(&hook.customer.owner);
    let id = hook.send("followed", "delivered").await;
    let event = text(&hook.deliveries().await[0], "event_id").to_owned();
    let page = browser.open(&hook.within(&format!("/events/{event}"))).await.is(200).says("Send again");
    assert!(leads_to(&page, &hook.path_of(&id)), "{page}");
    // A webhook that came later did not get it.
    hook.client.webhook(&hook.receiver.url, &["thesis.created"]).await;
    assert_eq!(logged(&browser.open(&hook.within(&format!("/events/{event}"))).await.is(200)), 1);
}

/// The deliveries to which a log leads.
fn logged(page: &Page) -> usize {
    page.all("a").filter(|link| link.get("href").is_some_and(|href| href.contains("/deliveries/del_"))).count()
}

/// Where the link of a text leads.
fn link(page: &Page, text: &str) -> Option<String> {
    page.all("a").find(|link| link.text() == text).and_then(|link| link.get("href")).map(str::to_owned)
}

async fn the_log_is_filtered_and_paged(service: &Service) {
    let hook = Hook::new(service).await;
    let browser = service.browser_of(&hook.customer.owner);
    browser.open(&hook.path()).await.is(200).says("There are no deliveries yet. Send a test event");
    hook.receiver.answer(500);
    let failing = hook.path_of(&hook.send("the first", "retrying").await);
    for number in 0..26 {
        hook.client.thesis("writer", "SHOWN", &number.to_string()).await;
    }
    let is_done = async || {
        let done = hook.deliveries().await.iter().filter(|row| row["status"] == "delivered").count();
        (done == 26).then_some(())
    };
    eventually("all deliveries", SOON, is_done).await;

    let page = browser.open(&hook.path()).await.is(200);
    assert_eq!((logged(&page), link(&page, "First page")), (25, None), "{page}");
    assert!(leads_to(&page, &format!("{}/matches", hook.path())), "{page}");
    let older = browser.open(&link(&page, "Older").unwrap()).await.is(200);
    assert_eq!((logged(&older), link(&older, "Older")), (2, None), "{older}");
    assert_eq!(link(&older, "First page"), Some(hook.path()));

    let has = |form: &Form, name: &str| form.fields.iter().any(|field| field.name == name);
    let form = page.forms().into_iter().find(|form| !form.is_post && has(form, "event_type")).unwrap();
    let found = browser.submit(&form.fill("status", "retrying").fill("event_type", "thesis.created")).await.is(200);
    assert!(logged(&found) == 1 && leads_to(&found, &failing), "{found}");
    browser.submit(&form.fill("status", "failed")).await.is(200).says("There are no such deliveries.");
    for (query, status, told) in [("status=bogus", 422, "Status: must"), ("cursor=none", 400, "cursor")] {
        let page = browser.open(&format!("{}?{query}", hook.path())).await.is(status).says(told);
        assert_eq!(logged(&page), 0, "{page}");
    }
    // A filter stays on the next page.
    let found = browser.submit(&form.fill("status", "delivered")).await.is(200);
    let older = browser.open(&link(&found, "Older").unwrap()).await.is(200);
    assert!(logged(&older) == 1 && !leads_to(&older, &failing), "{older}");
}

async fn a_viewer_only_looks(service: &Service) {
    let hook = Hook::new(service).await;
    let viewer = service.member(&hook.customer.owner, &hook.customer.organization, Role::Viewer).await;
    let browser = service.browser_of(&viewer);
    let path = hook.path_of(&hook.send("looked at", "delivered").await);
    let page = browser.open(&path).await.is(200).says("looked at");
    assert!(page.find_form(&format!("{path}/replay")).is_none(), "{page}");
    browser.open(&format!("{}/matches", hook.path())).await.is(200);
    let csrf = browser.csrf().await;
    let fields = [("csrf", &*csrf), ("once", "forged")];
    browser.post(&format!("{path}/replay"), &fields, Origin::Here).await.is(403);
    // Neither does another site make the owner's browser do it.
    let owner = service.browser_of(&hook.customer.owner);
    let csrf = owner.csrf().await;
    owner.post(&format!("{path}/replay"), &fields, Origin::Here).await.is(403);
    let other = Origin::Other("https://evil.example");
    owner.post(&format!("{path}/replay"), &[("csrf", &csrf), ("once", "forged")], other).await.is(403);
    assert_eq!((hook.deliveries().await.len(), hook.receiver.received().len()), (1, 1));
}

async fn other_peoples_deliveries_do_not_exist(service: &Service) {
    let (hook, other) = (Hook::new(service).await, Customer::new(service).await);
    let (outsider, visitor) = (service.browser_of(&other.owner), service.browser());
    let id = hook.send("private", "delivered").await;
    let paths = [hook.path_of(&id), format!("{}/matches", hook.path())];
    let csrf = outsider.csrf().await;
    let fields = [("csrf", &*csrf), ("once", "forged")];
    for path in &paths {
        // In the customer's project, and in the outsider's own.
        let (project, own) = (&hook.customer.project, path.replace(&hook.customer.project, &other.project));
        let theirs = outsider.get(path).await.is(404);
        let none = outsider.get(&path.replace(project, &format!("prj_{}", "0".repeat(25)))).await.is(404);
        assert_eq!(theirs.without_request(), none.without_request(), "{path}");
        let foreign = outsider.get(&own).await.is(404);
        assert!(!theirs.html.contains("private") && !foreign.html.contains("private"));
        let answer = visitor.get(path).await.is(303);
        assert!(answer.location().unwrap().starts_with("/console/sign-in?next="), "{answer}");
    }
    for path in [hook.path_of(&id), hook.path_of(&id).replace(&hook.customer.project, &other.project)] {
        outsider.post(&format!("{path}/replay"), &fields, Origin::Here).await.is(404);
    }
    // A delivery is below its own webhook only.
    let second = hook.client.webhook(&hook.receiver.url, &["profile.updated"]).await;
    let astray = hook.path_of(&id).replace(text(&hook.webhook, "id"), text(&second, "id"));
    let owner = service.browser_of(&hook.customer.owner);
    owner.get(&astray).await.is(404);
    owner.get(&hook.path_of("del_none")).await.is(404);
    owner.get(&hook.within("/webhooks/wh_none/matches")).await.is(404);
    assert_eq!((hook.deliveries().await.len(), hook.receiver.received().len()), (1, 1));
}

async fn matches_are_counted(service: &Service) {
    let hook = Hook::new(service).await;
    let browser = service.browser_of(&hook.customer.owner);
    let make = async |token: &str| hook.client.thesis("writer", token, "x").await.1;
    let (matching, others) = ([make("MATCHED").await, make("MATCHED").await], [make("OTHER").await]);
    // What was there before the webhook counts too.
    let filters = json!({"token": ["$matched"], "handle": ["@Writer"]});
    let body = json!({"url": hook.receiver.url, "events": ["thesis.created"], "filters": filters});
    let webhook = hook.client.post("/v1/webhooks", &body).await.ok(201);
    let path = hook.within(&format!("/webhooks/{}/matches", text(&webhook, "id")));
    let page = browser
        .open(&path)
        .await
        .is(200)
        .says("The filters match 2 of the last ")
        .says("thesis.created")
        .says("$matched")
        .says("@Writer");
    let is_shown = |event: &Value| leads_to(&page, &hook.within(&format!("/events/{}", text(event, "id"))));
    assert!(matching.iter().all(is_shown) && !others.iter().any(is_shown), "{page}");
    // Other filters can be tried without changing the webhook.
    browser
        .open(&format!("{path}?types=thesis.created&token=OTHER"))
        .await
        .is(200)
        .says("The filters match 1 of the last ");
    assert_eq!(hook.client.get(&format!("/v1/webhooks/{}", text(&webhook, "id"))).await.ok(200)["filters"], filters);
    // A filter may name a token or profile that does not exist. The page says so at the filters and at the field.
    let body = json!({"url": hook.receiver.url, "events": ["thesis.created"], "filters": {"token": ["$NOPE"]}});
    let unknown = hook.client.post("/v1/webhooks", &body).await.ok(201);
    let page = browser.open(&hook.within(&format!("/webhooks/{}", text(&unknown, "id")))).await.is(200);
    assert_eq!(page.html.matches("There is no $NOPE yet").count(), 2, "{page}");
    // All theses of all tokens are more than the page shows.
    let page = browser.open(&format!("{}/matches", hook.path())).await.is(200);
    let shown = page.all("a").filter(|link| link.get("href").is_some_and(|href| href.contains("/events/evt_"))).count();
    assert!((3..=25).contains(&shown), "{page}");
}
