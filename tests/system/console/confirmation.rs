//! What the pages say and do while an e-mail is not confirmed, and administrators who come and go.

use super::{NEW, PASSWORD, id_in};
use crate::harness::Service;

on_both_stores![
    an_administrator_confirms_an_e_mail,
    an_administrator_decides_about_memberships,
    an_administrator_is_removed_after_a_question,
];

async fn an_administrator_confirms_an_e_mail(service: &Service) {
    let person = service.person();
    let browser = service.browser();
    let page = browser.sign_up(&person.email, PASSWORD, "Acme").await.is(200).says("ask the operator to confirm it");
    // This installation sends no mail.
    assert!(page.find_form("/console/account/confirmation").is_none(), "{page}");
    let members = format!("/console/organizations/{}/members", id_in(&page.path, "org_"));
    let path = members.replace("/members", "/invitations");
    let form = browser.open(&members).await.is(200).form(&path).fill("email", "guest@people.example");
    let refused = browser.submit(&form).await.is(403).says("not confirmed");
    assert_eq!(refused.form(&path).field("email").value, "guest@people.example", "{refused}");

    let administrator = service.browser_of(&service.administrator().await);
    let users = format!("/console/administration/users?find={}", person.email);
    let page = administrator.open(&users).await.is(200);
    assert!(page.find_form("/console/administration/users/administrator").is_none(), "{page}");
    administrator.submit(&page.form("/console/administration/users/confirm")).await.is(200).says("is confirmed");
    let page = administrator.open(&users).await.is(200);
    assert!(page.find_form("/console/administration/users/confirm").is_none(), "{page}");

    let page = browser.open(&members).await.is(200);
    assert!(!page.text().contains("ask the operator"), "{page}");
    browser.submit(&form).await.is(200).says("guest@people.example");
}

async fn an_administrator_decides_about_memberships(service: &Service) {
    let administrator = service.browser_of(&service.administrator().await);
    for keeps_memberships in [false, true] {
        let person = service.person();
        service.browser().sign_up(&person.email, PASSWORD, "Acme").await.is(200);
        let users = format!("/console/administration/users?find={}", person.email);
        let mut form = administrator.open(&users).await.is(200).form("/console/administration/users/reset-link");
        for button in form.fields.iter_mut().filter(|field| field.name == "keep_memberships") {
            button.is_sent = keeps_memberships;
        }
        let effect = if keeps_memberships { "memberships stay" } else { "leaves all its organizations" };
        let page = administrator.submit(&form).await.is(200).says("ever confirmed this e-mail").says(effect);
        let path = format!("/console/links/{}", page.link_token());
        let browser = service.browser();
        let page = browser.open(&path).await.is(200);
        assert_eq!(page.text().contains("leaves all its organizations"), !keeps_memberships, "{page}");
        let page = browser.submit(&page.form(&path).fill("password", NEW)).await.is(200);
        assert_eq!(page.text().contains("Acme"), keeps_memberships, "{page}");
    }
}

async fn an_administrator_is_removed_after_a_question(service: &Service) {
    let administrator = service.browser_of(&service.administrator().await);
    let (person, _) = service.owner().await;
    let users = format!("/console/administration/users?find={}", person.email);
    let make = "/console/administration/users/administrator";
    let page = administrator.open(&users).await.is(200);
    administrator.submit(&page.form(make)).await.is(200).says("is an administrator now");
    let remove = format!("/console/administration/users/{}/administrator", person.id);
    let page = administrator.open(&users).await.is(200);
    assert!(page.find_form(make).is_none() && page.find_form(&remove).is_none(), "{page}");
    assert!(page.all("a").any(|link| link.get("href") == Some(&*remove)), "{page}");
    let question = administrator.open(&remove).await.is(200).says("no longer sees");
    assert!(administrator.open(&users).await.is(200).find_form(make).is_none(), "the question alone changes it");
    administrator.submit(&question.form(&remove)).await.is(200).says("no administrator any more");
    administrator.open(&users).await.is(200).form(make);
    let factors = format!("/console/administration/users/{}/factors", person.id);
    administrator.open(&factors).await.is(200).form(&factors);
    administrator.get("/console/administration/users/usr_none/administrator").await.is(404);
    service.browser_of(&person).get(&remove).await.is(404);
}
