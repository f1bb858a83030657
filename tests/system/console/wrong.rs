//! Wrong forms: each names what is wrong, keeps what was typed but never a password, and changes nothing.

use super::{Customer, PASSWORD};
use crate::harness::{
    Service,
    browser::{Browser, Origin, Page},
};

on_both_stores![visitors_forms, customers_forms];

/// Fills in a form and sends it; it must come back with a message beside `wrong`, and everything else that was typed.
async fn refused(browser: &Browser, page: &Page, path: &str, fields: &[(&str, &str)], wrong: &str) -> Page {
    let mut form = page.form(path);
    for (name, value) in fields {
        form = form.fill(name, value);
    }
    let page = browser.submit(&form).await.is(422);
    let form = page.form(path);
    for (name, value) in fields {
        let kept = &form.field(name).value;
        let chosen = || form.fields.iter().any(|field| field.name == *name && field.is_sent && field.is_called(value));
        if form.field(name).kind == "password" {
            assert!(kept.is_empty(), "a password came back: {page}");
        } else {
            assert!(kept == value || chosen(), "{name} was {value}: {page}");
        }
        assert!(form.field(name).kind != "password" || !page.html.contains(value), "a password came back: {page}");
    }
    let marked = form.field(wrong);
    assert!(marked.is_wrong && !marked.description.is_empty(), "nothing is said beside {wrong}: {page}");
    page
}

async fn visitors_forms(service: &Service) {
    let (person, _) = service.owner().await;
    let browser = service.browser();
    let path = "/console/sign-up";
    let long = "x".repeat(129);
    let right = [("email", "new@people.example"), ("password", PASSWORD), ("organization_name", "Acme")];
    let mut page = browser.open(path).await.is(200);
    for (wrong, value) in [
        ("email", "no address"),
        ("email", ""),
        ("password", "too short"),
        ("password", &*long),
        ("organization_name", ""),
    ] {
        let fields = right.map(|(name, usual)| (name, if name == wrong { value } else { usual }));
        page = refused(&browser, &page, path, &fields, wrong).await;
    }
    // All that is wrong is told at once.
    let fields = [("email", "no address"), ("password", "too short"), ("organization_name", "")];
    let page = refused(&browser, &page, path, &fields, "email").await;
    for name in ["password", "organization_name"] {
        assert!(page.form(path).field(name).is_wrong, "{page}");
    }
    let mut form = page.form(path);
    for (name, value) in [("email", &*person.email), ("password", PASSWORD), ("organization_name", "Acme")] {
        form = form.fill(name, value);
    }
    let page = browser.submit(&form).await.is(409);
    assert!(page.text().contains("e-mail already") && page.form(path).field("email").value == person.email, "{page}");
    assert!(browser.session().is_none());

    // The same is told whether there is such an account or not.
    let mut told = Vec::new();
    for email in [person.email.as_str(), "nobody@people.example"] {
        let browser = service.browser();
        let page = browser.sign_in(email, "not the password at all").await.is(401);
        assert!(browser.session().is_none() && !page.html.contains("not the password at all"), "{page}");
        assert_eq!(page.form("/console/sign-in").field("email").value, email);
        told.push(page.text().replace(email, ""));
    }
    assert_eq!(told[0], told[1]);
    // What is no form at all is told so.
    let csrf = browser.csrf().await;
    let answer = browser.post("/console/sign-up", &[("csrf", &csrf)], Origin::Here).await;
    assert!((400..500).contains(&answer.status) && browser.session().is_none(), "{answer}");
}

async fn customers_forms(service: &Service) {
    let customer = Customer::new(service).await;
    let browser = service.browser_of(&customer.owner);
    let (organization, project) = (&customer.organization, &customer.project);
    let before = customer.seen().await;
    let long = "x".repeat(1_000);
    let name = |value| [("name", value)];
    let check = async |page: &str, path: &str, fields: &[(&str, &str)], wrong: &str| {
        let page = browser.open(page).await.is(200);
        refused(&browser, &page, path, fields, wrong).await;
    };
    let home = format!("/console/organizations/{organization}");
    check("/console/organizations/new", "/console/organizations/new", &name(""), "name").await;
    for wrong in ["", "   ", &*long] {
        check(&format!("{home}/settings"), &format!("{home}/name"), &name(wrong), "name").await;
        check(&format!("{home}/projects"), &format!("{home}/projects"), &name(wrong), "name").await;
        let page = format!("/console/projects/{project}");
        check(&format!("{page}/settings"), &format!("{page}/name"), &name(wrong), "name").await;
    }
    let (page, note) = (format!("/console/projects/{project}"), "x".repeat(1_001));
    check(&page, &format!("{page}/live-access"), &[("note", &*note)], "note").await;
    let invitation = [("email", "no address"), ("role", "developer")];
    check(&format!("{home}/members"), &format!("{home}/invitations"), &invitation, "email").await;
    let keys = format!("/console/projects/{project}/keys");
    check(&keys, &keys, &[("name", ""), ("environment", "live")], "name").await;
    check(&keys, &keys, &[("name", "late"), ("expires_at", "2001-01-01T00:00")], "expires_at").await;
    let passwords = [("current_password", customer.owner.password.as_str()), ("password", "too short")];
    check("/console/account", "/console/account", &passwords, "password").await;
    assert_eq!(customer.seen().await, before);
    assert_eq!(customer.owner.account().await.memberships.len(), 1);
}
