//! Sessions: begun by signing in, listed, revoked and ended.

use crate::harness::{Service, browser::Form};

on_both_stores![
    sessions_are_listed_and_revoked,
    a_known_browser_is_not_kept_out,
    sign_in_leads_back,
    sign_in_leads_nowhere_else,
];

async fn sessions_are_listed_and_revoked(service: &Service) {
    let (person, _) = service.owner().await;
    let first = service.browser_of(&person);
    let mut second = service.browser();
    second.user_agent = "Another browser".to_owned();
    second.sign_in(&person.email, &person.password).await.is(200);
    let page = first.open("/console/account").await.is(200);
    let page = page.says("Another browser").says(&second.address).says(&person.address).says(&person.email);
    let own = person.account().await.session.unwrap().id;
    let others = |form: &Form| form.action.starts_with("/console/account/sessions/") && !form.action.contains(&own);
    let forms: Vec<Form> = page.forms().into_iter().filter(&others).collect();
    assert_eq!(forms.len(), 1, "{page}");
    let page = first.submit(&forms[0]).await.is(200);
    assert!(!page.forms().iter().any(others), "{page}");
    for _ in &service.cores {
        assert!(!second.is_signed_in().await && first.is_signed_in().await);
    }
    let page = first.open("/console/account").await.is(200);
    let page = first.submit(&page.form("/console/sign-out")).await.is(200);
    assert!(page.path.starts_with("/console/sign-in") && first.session().is_none(), "{page}");
    assert!(!person.is_signed_in().await);
}

async fn a_known_browser_is_not_kept_out(service: &Service) {
    let (person, _) = service.owner().await;
    let browser = service.browser();
    browser.sign_in(&person.email, &person.password).await.is(200);
    let page = browser.open("/console/account").await.is(200);
    browser.submit(&page.form("/console/sign-out")).await.is(200);
    assert!(browser.session().is_none() && browser.cookie_names().contains(&"device".to_owned()));
    // Somebody beside it fails until nobody new may try there.
    let mut other = service.browser();
    other.address.clone_from(&browser.address);
    for _ in 0..10 {
        other.sign_in(&person.email, "not my password at all").await.is(401);
    }
    other.sign_in(&person.email, &person.password).await.is(429);
    browser.sign_in(&person.email, &person.password).await.is(200);
    assert!(browser.is_signed_in().await);
}

async fn sign_in_leads_back(service: &Service) {
    let (person, organization) = service.owner().await;
    let path = format!("/console/organizations/{organization}/members");
    let browser = service.browser();
    let page = browser.open(&path).await.is(200);
    assert!(page.path.starts_with("/console/sign-in"), "{page}");
    let form = page.form("/console/sign-in").fill("email", &person.email);
    // A wrong password does not make it forget where to.
    let page = browser.submit(&form.fill("password", "not my password at all")).await.is(401);
    let form = page.form("/console/sign-in").fill("password", &person.password);
    assert_eq!(form.field("email").value, person.email);
    assert_eq!(browser.submit(&form).await.is(200).path, path);
}

async fn sign_in_leads_nowhere_else(service: &Service) {
    let (person, _) = service.owner().await;
    for next in [
        "https://evil.example/console",
        "//evil.example/console",
        "/console//evil.example",
        "/\\evil.example",
        "/console.evil.example/",
        "/console@evil.example/",
        "/console/%0d%0aSet-Cookie:x=y",
        "/v1/me",
        "",
    ] {
        let browser = service.browser();
        let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("next", next).finish();
        let page = browser.open(&format!("/console/sign-in?{query}")).await.is(200);
        let form = page.form("/console/sign-in").fill("email", &person.email).fill("password", &person.password);
        let answer = browser.answer(&form).await.is(303);
        // `location` refuses what leads away.
        let location = answer.location().unwrap();
        let is_inside =
            location == "/console" || location.starts_with("/console/") || location.starts_with("/console?");
        assert!(is_inside && !answer.headers.contains_key("x"), "{next} leads to {location}");
    }
}
