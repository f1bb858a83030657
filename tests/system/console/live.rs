//! Live events: a ticket that a page makes opens a stream, which lasts as long as its member may look.

use std::time::Duration;

use serde_json::Value;
use thesis_proto::v1::{self, Environment, Role};

use super::Customer;
use crate::harness::{
    SOON, Service, Sse,
    browser::{Browser, Origin},
    eventually, text,
};

on_both_stores![
    members_follow_events,
    a_stream_ends_after_signing_out,
    a_stream_ends_with_the_membership,
    only_members_get_tickets,
    live_events_need_the_approval,
];

/// Longest time until a stream ends whose session has ended.
const AFTER_SIGN_OUT: Duration = Duration::from_secs(10);
/// Longest time until a stream ends whose member has no right to it any more.
const AT_ONCE: Duration = Duration::from_secs(2);

fn path(customer: &Customer, environment: &str) -> String {
    format!("/console/projects/{}/{environment}/events", customer.project)
}

/// Asks for a ticket as the page's script does.
async fn ticket(browser: &Browser, page: &str) -> String {
    let csrf = browser.open(page).await.is(200).csrf();
    let answer = browser.post(&format!("{page}/ticket"), &[("csrf", &csrf)], Origin::Here).await.is(200);
    let made: Value = serde_json::from_str(&answer.html).unwrap();
    assert_eq!(made.as_object().unwrap().len(), 1, "{answer}");
    text(&made, "ticket").to_owned()
}

/// The path of a stream that a ticket opens.
fn stream_path(ticket: &str) -> String {
    format!("/v1/events/stream?ticket={ticket}")
}

/// Opens a stream with a ticket and the last id, as a browser does that has no key. Streams that were just left may take
/// the project's places a moment longer.
async fn open_after(service: &Service, ticket: &str, cursor: &str) -> Sse {
    let (client, query) = (service.anonymous(), format!("?ticket={ticket}&types=thesis.created&token=LIVE"));
    eventually("a place is free", SOON, async || client.try_resume(&query, cursor).await).await
}

/// Opens a stream with a ticket, from now on.
async fn open(service: &Service, ticket: &str) -> Sse {
    open_after(service, ticket, "").await
}

async fn members_follow_events(service: &Service) {
    let customer = Customer::new(service).await;
    let key = customer.owner.key(&customer.project, Environment::Test).await.1;
    let viewer = service.member(&customer.owner, &customer.organization, Role::Viewer).await;
    for person in [&customer.owner, &viewer] {
        let browser = service.browser_of(person);
        let ticket = ticket(&browser, &path(&customer, "test")).await;
        let mut stream = open(service, &ticket).await;
        stream.first_cursor().await;
        let event = service.client(&key).thesis("writer", "LIVE", "now").await.1;
        let frame = stream.next().await;
        assert_eq!(frame.data, event);
        // As the script resumes: another ticket, and the last id.
        let missed = service.client(&key).thesis("writer", "LIVE", "then").await.1;
        assert_eq!(stream.next().await.data, missed);
        let again = self::ticket(&browser, &path(&customer, "test")).await;
        drop(stream);
        let mut resumed = open_after(service, &again, frame.cursor()).await;
        assert_eq!(resumed.next().await.data, missed);
    }
}

async fn a_stream_ends_after_signing_out(service: &Service) {
    let customer = Customer::new(service).await;
    let events = path(&customer, "test");
    let browser = service.browser_of(&customer.owner);
    let ticket = ticket(&browser, &events).await;
    let unused = self::ticket(&browser, &events).await;
    let mut stream = open(service, &ticket).await;
    stream.first_cursor().await;
    let page = browser.open(&events).await.is(200);
    let csrf = page.csrf();
    browser.submit(&page.form("/console/sign-out")).await.is(200);
    stream.end(AFTER_SIGN_OUT).await;
    for ticket in [ticket, unused] {
        service.anonymous().get(&stream_path(&ticket)).await.error(401, "API_KEY_REVOKED");
    }
    // The page that is still open is led to the sign-in page.
    let answer = browser.post(&format!("{events}/ticket"), &[("csrf", &csrf)], Origin::Here).await.is(303);
    assert!(answer.location().unwrap().starts_with("/console/sign-in"), "{answer}");
}

async fn a_stream_ends_with_the_membership(service: &Service) {
    let customer = Customer::new(service).await;
    let member = service.member(&customer.owner, &customer.organization, Role::Developer).await;
    let events = path(&customer, "test");
    let browser = service.browser_of(&member);
    let ticket = ticket(&browser, &events).await;
    let mut stream = open(service, &ticket).await;
    stream.first_cursor().await;
    let (organization_id, user_id) = (customer.organization.clone(), member.id.clone());
    customer.owner.ask().remove_member(v1::RemoveMemberRequest { organization_id, user_id }).await.unwrap();
    stream.end(AT_ONCE).await;
    service.settle().await;
    service.anonymous().get(&stream_path(&ticket)).await.error(401, "API_KEY_REVOKED");
    let csrf = browser.csrf().await;
    browser.get(&events).await.is(404);
    browser.post(&format!("{events}/ticket"), &[("csrf", &csrf)], Origin::Here).await.is(404);
}

async fn only_members_get_tickets(service: &Service) {
    let customer = Customer::new(service).await;
    let events = path(&customer, "test");
    let (outsider, _) = service.owner().await;
    let stranger = service.browser_of(&outsider);
    let csrf = stranger.csrf().await;
    let answer = stranger.post(&format!("{events}/ticket"), &[("csrf", &csrf)], Origin::Here).await.is(404);
    let unknown = events.replace(&customer.project, &format!("prj_{}", "0".repeat(25)));
    let none = stranger.post(&format!("{unknown}/ticket"), &[("csrf", &csrf)], Origin::Here).await.is(404);
    assert_eq!(answer.without_request(), none.without_request());
    // Other sites get none by a member's browser.
    let browser = service.browser_of(&customer.owner);
    let own = browser.csrf().await;
    let forged: [&[(&str, &str)]; 3] = [&[], &[("csrf", "")], &[("csrf", csrf.as_str())]];
    for wrong in forged {
        browser.post(&format!("{events}/ticket"), wrong, Origin::Here).await.is(403);
    }
    let right = [("csrf", own.as_str())];
    browser.post(&format!("{events}/ticket"), &right, Origin::Other("https://evil.example")).await.is(403);
    // Visitors are led to the sign-in page.
    let visitor = service.browser();
    let csrf = visitor.csrf().await;
    let answer = visitor.post(&format!("{events}/ticket"), &[("csrf", &csrf)], Origin::Here).await.is(303);
    assert!(answer.location().unwrap().starts_with("/console/sign-in"), "{answer}");
}

async fn live_events_need_the_approval(service: &Service) {
    let customer = Customer::new(service).await;
    let events = path(&customer, "live");
    let browser = service.browser_of(&customer.owner);
    let csrf = browser.csrf().await;
    let page = browser.open(&events).await.is(403).says("no live access");
    assert!(!page.html.contains("data-stream"), "{page}");
    browser.post(&format!("{events}/ticket"), &[("csrf", &csrf)], Origin::Here).await.is(403);
    let id = customer.project.clone();
    service.admin().approve_project(v1::ApproveProjectRequest { id: id.clone() }).await.unwrap();
    eventually("the approval acts", SOON, async || {
        let mut is_open = true;
        for _ in &service.edges {
            is_open &= browser.get(&events).await.status == 200;
        }
        is_open.then_some(())
    })
    .await;
    service.settle().await;
    let mut stream = open(service, &ticket(&browser, &events).await).await;
    stream.first_cursor().await;
    service.admin().withdraw_project(v1::WithdrawProjectRequest { id, reason: None }).await.unwrap();
    stream.end(AT_ONCE).await;
}
