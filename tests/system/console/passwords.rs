//! Forgotten and changed passwords.

use super::NEW;
use crate::harness::{Service, browser::Form};

on_both_stores![
    an_administrators_link_replaces_a_password,
    a_changed_password_ends_other_sessions,
    asking_tells_nothing
];

async fn an_administrators_link_replaces_a_password(service: &Service) {
    let (person, _) = service.owner().await;
    let administrator = service.browser_of(&service.administrator().await);
    let users = administrator.open(&format!("/console/administration/users?find={}", person.email)).await.is(200);
    let is_theirs = |form: &&Form| {
        let names = form.fields.iter().any(|field| field.value == person.email || field.value == person.id);
        form.is_post && form.action.contains("reset") && (names || form.action.contains(&person.id))
    };
    let forms = users.forms();
    let form = forms.iter().find(is_theirs).unwrap_or_else(|| panic!("no form for a new password in {users}"));
    let path = format!("/console/links/{}", administrator.submit(form).await.is(200).link_token());

    let browser = service.browser();
    let page = browser.open(&path).await.is(200).says(&person.email);
    let page = browser.submit(&page.form(&path).fill("password", "short")).await.is(422);
    assert!(person.is_signed_in().await && browser.session().is_none());
    browser.submit(&page.form(&path).fill("password", NEW)).await.is(200);
    assert!(browser.is_signed_in().await);
    for _ in &service.cores {
        assert!(!person.is_signed_in().await);
    }
    service.browser().open(&path).await.is(404);
    let old = service.browser();
    old.sign_in(&person.email, &person.password).await.is(401);
    assert!(old.session().is_none());
    old.sign_in(&person.email, NEW).await.is(200);
}

async fn a_changed_password_ends_other_sessions(service: &Service) {
    let (person, _) = service.owner().await;
    let browser = service.browser_of(&person);
    let other = service.browser();
    other.sign_in(&person.email, &person.password).await.is(200);
    let before = browser.session();
    let page = browser.open("/console/account").await.is(200);
    let form = page.form("/console/account").fill("password", NEW);
    let wrong = browser.submit(&form.fill("current_password", "not my password at all")).await;
    assert!((400..500).contains(&wrong.status) && other.is_signed_in().await, "{wrong}");
    let form = wrong.form("/console/account").fill("password", NEW).fill("current_password", &person.password);
    browser.submit(&form).await.is(200);
    assert!(browser.is_signed_in().await && browser.session() != before);
    assert!(!other.is_signed_in().await && !person.is_signed_in().await);
}

async fn asking_tells_nothing(service: &Service) {
    let (person, _) = service.owner().await;
    let mut told = Vec::new();
    for email in [person.email.as_str(), "nobody@people.example"] {
        let browser = service.browser();
        let page = browser.open("/console/forgot").await.is(200);
        let page = browser.submit(&page.form("/console/forgot").fill("email", email)).await.is(200);
        told.push((page.path.clone(), page.text().replace(email, "")));
    }
    assert_eq!(told[0], told[1]);
}
