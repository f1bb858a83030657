//! What the pages say and do while an e-mail is not confirmed.

use super::{NEW, PASSWORD, id_in};
use crate::harness::Service;

on_both_stores![an_administrator_confirms_an_e_mail, an_administrator_decides_about_memberships];

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
    let row = page.form("/console/administration/users/administrator");
    assert!(row.fields.iter().all(|field| field.name != "administrator"), "{page}");
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
