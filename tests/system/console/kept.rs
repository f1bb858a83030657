//! Forms and secrets that outlive a session or a reload.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use thesis_proto::v1::{self, Role};

use super::Customer;
use crate::{
    accounts::factors::code,
    harness::{Service, browser::Form, now_ms},
};

on_both_stores![
    a_form_after_the_session_is_kept,
    a_link_survives_a_reload,
    an_app_is_added_and_asked_for,
    an_export_of_the_audit_log_can_be_verified,
];

async fn a_form_after_the_session_is_kept(service: &Service) {
    let customer = Customer::new(service).await;
    let browser = service.browser_of(&customer.owner);
    let path = format!("/console/projects/{}/name", customer.project);
    let page = browser.open(&format!("/console/projects/{}/settings", customer.project)).await.is(200);
    let form = page.form(&path).fill("name", "Named \"late\" & <so>");
    customer.owner.ask().sign_out(v1::SignOutRequest {}).await.unwrap();
    let page = browser.submit(&form).await.is(200);
    assert!(page.path.starts_with("/console/sign-in?next="), "{page}");
    let sign_in = page.form("/console/sign-in");
    let sign_in = sign_in.fill("email", &customer.owner.email).fill("password", &customer.owner.password);
    let page = browser.submit(&sign_in).await.is(200).says("Named \"late\" & <so>");
    assert_eq!(page.path, "/console/again");
    browser.submit(&page.form(&path)).await.is(200).says("Named \"late\" & <so>");
    // Another user of this browser does not see it.
    let (other, _) = service.owner().await;
    browser.set_cookie("session", other.session.as_deref().unwrap());
    let page = browser.open("/console/again").await.is(200);
    assert_ne!(page.path, "/console/again");
    // A password is never kept.
    let again = service.browser();
    again.sign_in(&customer.owner.email, &customer.owner.password).await.is(200);
    let page = again.open("/console/account").await.is(200);
    let form = page.form("/console/account").fill("current_password", "one").fill("password", "another one");
    let ended = again.open("/console/account").await.form("/console/sign-out");
    let session = again.session().unwrap();
    again.submit(&ended).await.is(200);
    again.set_cookie("session", &session);
    let page = again.submit(&form).await.is(200);
    let sign_in = page.form("/console/sign-in");
    let sign_in = sign_in.fill("email", &customer.owner.email).fill("password", &customer.owner.password);
    let page = again.submit(&sign_in).await.is(200);
    assert!(!page.html.contains("another one"), "{page}");
}

async fn a_link_survives_a_reload(service: &Service) {
    let customer = Customer::new(service).await;
    let browser = service.browser_of(&customer.owner);
    let members = format!("/console/organizations/{}/members", customer.organization);
    let form = browser.open(&members).await.is(200);
    let form = form.form(&format!("/console/organizations/{}/invitations", customer.organization));
    let page = browser.submit(&form.fill("email", "late@people.example").fill("role", "viewer")).await.is(200);
    let token = page.link_token();
    let again = browser.open(&page.path).await.is(200);
    assert_eq!(again.link_token(), token);
    service.browser().open(&format!("/console/links/{token}")).await.is(200);
    // Another session of the same person does not see it, nor does the page without its cookie.
    let other = service.browser();
    other.sign_in(&customer.owner.email, &customer.owner.password).await.is(200);
    assert_ne!(other.open(&page.path).await.is(200).path, page.path);
}

async fn an_app_is_added_and_asked_for(service: &Service) {
    let (person, _) = service.owner().await;
    let browser = service.browser_of(&person);
    let page = browser.open("/console/account/factors").await.is(200);
    let page = browser.submit(&page.form("/console/account/factors/app/new")).await.is(200);
    let secret = page.all("input").find(|input| input.get("id") == Some("secret")).unwrap();
    let secret = secret.get("value").unwrap().to_owned();
    let form = page.form("/console/account/factors/app");
    let wrong = browser.submit(&form.fill("code", "x")).await.is(422);
    let form = wrong.form("/console/account/factors/app").fill("code", &code(&secret, now_ms()));
    let page = browser.submit(&form).await.is(200);
    assert_eq!(page.path, "/console/account/factors/codes");
    let codes = page.text();
    let recovery = codes.split_whitespace().find(|word| word.len() == 11 && word.as_bytes()[5] == b'-').unwrap();
    let visitor = service.browser();
    let page = visitor.sign_in(&person.email, &person.password).await.is(200);
    assert!(page.path == "/console/sign-in/factor" && visitor.session().is_none(), "{page}");
    let is_recovery = |form: &&Form| form.fields.iter().any(|field| field.name == "recovery_code");
    let form = page.forms().into_iter().find(|form| is_recovery(&form)).unwrap();
    let page = visitor.submit(&form.fill("recovery_code", "00000-00000")).await.is(401);
    let form = page.forms().into_iter().find(|form| is_recovery(&form)).unwrap();
    visitor.submit(&form.fill("recovery_code", recovery)).await.is(200);
    assert!(visitor.is_signed_in().await);
    // It is removed after a question.
    let remove = "/console/account/factors/totp/remove";
    assert!(browser.open("/console/account/factors").await.is(200).find_form(remove).is_none());
    let question = browser.open(remove).await.is(200).says("your last second factor");
    browser.submit(&question.form(remove)).await.is(200).says("The second factor is removed.");
}

/// The lines of a file of CSV, with all fields in quotation marks.
fn lines(text: &str) -> Vec<Vec<String>> {
    let lines = text.split("\r\n").skip(1).filter(|line| !line.is_empty());
    let fields = |line: &str| line[1..line.len() - 1].split("\",\"").map(|field| field.replace("\"\"", "\"")).collect();
    lines.map(fields).collect()
}

async fn an_export_of_the_audit_log_can_be_verified(service: &Service) {
    let customer = Customer::new(service).await;
    let viewer = service.member(&customer.owner, &customer.organization, Role::Viewer).await;
    let path = format!("/console/organizations/{}/audit.csv", customer.organization);
    let file = service.browser_of(&customer.owner).get(&path).await.is(200);
    assert!(
        file.header("content-type").starts_with("text/csv") && file.header("content-disposition").contains("audit.csv")
    );
    let mut entries = lines(&file.html);
    entries.retain(|fields| !fields[8].is_empty());
    entries.sort();
    assert!(entries.len() >= 5, "{}", file.html);
    let mut hash = vec![0_u8; 32];
    for fields in &entries {
        let [id, time, actor, _, action, subject, address, reason, expected] = fields.as_slice() else {
            panic!("{fields:?}")
        };
        let known = |text: &String| if text.is_empty() { Value::Null } else { json!(text) };
        let entry = json!({
            "action": action, "actor": actor, "address": known(address), "created_at": time, "id": id,
            "reason": known(reason), "subject": subject,
        });
        hash = Sha256::new().chain_update(&hash).chain_update(entry.to_string()).finalize().to_vec();
        assert_eq!(hex::encode(&hash), *expected, "{entry}");
    }
    service.browser_of(&viewer).get(&path).await.is(403);
}
