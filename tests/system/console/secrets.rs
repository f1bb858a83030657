//! No session, link, password or key that goes through the console is in a log.

use thesis_proto::v1::Role;

use super::{NEW, PASSWORD, create_key, create_project, id_in, project_in};
use crate::{
    admin::admin,
    harness::{Service, person::token_of, text},
};

// It has nothing to do with the store.
#[tokio::test]
async fn no_secret_is_in_a_log() {
    let mut service = Service::embedded(|setup| setup.set("SVC_LOG", "debug"));
    let browser = service.browser();
    let page = browser.sign_up("secret@people.example", PASSWORD, "Acme").await.is(200);
    let organization = id_in(&page.path, "org_");
    service.confirm("secret@people.example").await;
    let mut secrets = vec![PASSWORD.to_owned(), browser.session().unwrap(), browser.csrf().await];
    let page = create_project(&browser, &organization, "Hive").await;
    secrets.push(create_key(&browser, &project_in(&page), "test").await);

    let page = browser.open(&format!("/console/organizations/{organization}/members")).await;
    let form = page.form(&format!("/console/organizations/{organization}/invitations"));
    let form = form.fill("email", "guest@people.example").fill("role", "viewer");
    let token = browser.submit(&form).await.link_token();
    let path = format!("/console/links/{token}");
    let guest = service.browser();
    let page = guest.open(&path).await.is(200);
    guest.submit(&page.form(&path).fill("password", "our secret")).await;
    guest.submit(&guest.open(&path).await.form(&path).fill("password", NEW)).await.is(200);
    // Once more: what fails is logged.
    guest.open(&path).await.is(404);
    guest.open(&format!("{path}x")).await.is(404);
    secrets.extend([token, NEW.to_owned(), "our secret".to_owned(), guest.session().unwrap()]);

    let made = admin(&service, &["user", "reset-link", "secret@people.example"]);
    let token = token_of(text(&made, "link"));
    let path = format!("/console/links/{token}");
    let forgetful = service.browser();
    forgetful.sign_in("secret@people.example", "a wrong password of theirs").await.is(401);
    let page = forgetful.open(&path).await.is(200);
    forgetful.submit(&page.form(&path).fill("password", "a newer password of theirs")).await.is(200);
    secrets.extend([token.to_owned(), forgetful.session().unwrap()]);
    secrets.extend(["a wrong password of theirs", "a newer password of theirs"].map(str::to_owned));
    // A session that has ended.
    assert!(!browser.is_signed_in().await);

    // What is refused is logged too.
    let (owner, organization) = service.owner().await;
    let viewer = service.member(&owner, &organization, Role::Viewer).await;
    secrets.extend([owner.session.clone().unwrap(), viewer.session.clone().unwrap()]);
    service.browser_of(&viewer).open(&format!("/console/organizations/{organization}/audit")).await.is(403);
    service.end(0, "TERM").await;
    let log = service.processes[0].log();
    for secret in &secrets {
        assert!(!log.contains(secret.as_str()), "{secret} is in a log");
    }
}
