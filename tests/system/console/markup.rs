//! What customers type is text on every page, never markup.

use thesis_proto::v1::{self, Environment, Role};

use crate::harness::{
    Service,
    browser::Page,
    person::{new_invitation, new_key, token_of},
};

on_both_stores![what_customers_type_is_text, what_comes_back_in_forms_is_text];

const SCRIPT: &str = "<script>alert(1)</script>";
const ATTRIBUTE: &str = "\" onmouseover=\"alert(2)";
const IMAGE: &str = "'><img src=x onerror=alert(3)>";
const ENTITY: &str = "&lt;b&gt; {{ 7 * 7 }} </title></textarea>";

/// Demands that nothing of it stands in a page as it was typed. The browser checks every page for scripts and attributes
/// that ours never have.
fn is_text(page: &Page) {
    for typed in [SCRIPT, ATTRIBUTE, "<img src=x", ENTITY] {
        assert!(!page.html.contains(typed), "{typed} is in {page}");
    }
}

async fn what_customers_type_is_text(service: &Service) {
    let mut owner = service.person();
    owner.email = format!("<b>{}", owner.email.replace('@', "</b>@"));
    if owner.sign_up(SCRIPT).await.is_err() {
        // An e-mail like that is none.
        owner = service.person();
        owner.sign_up(SCRIPT).await.unwrap();
    }
    service.confirm(&owner.email).await;
    let organization = owner.account().await.memberships[0].organization.clone().unwrap().id;
    let project = owner.project(&organization, ATTRIBUTE).await.id;
    let key = v1::AccountServiceCreateKeyRequest { name: IMAGE.to_owned(), ..new_key(&project, Environment::Test) };
    owner.ask().create_key(key).await.unwrap();
    owner.request_live(&project).await;
    let administrator = service.administrator().await;
    let administrator = service.browser_of(&administrator);
    let page = administrator.open("/console/administration").await.is(200).says(SCRIPT).says(ATTRIBUTE);
    is_text(&page);
    let refuse = page.form(&format!("/console/administration/projects/{project}/refuse")).fill("reason", ENTITY);
    is_text(&administrator.submit(&refuse).await.is(200));
    for path in super::ADMINISTRATION {
        is_text(&administrator.open(path).await.is(200));
    }
    let found = administrator.open(&format!("/console/administration/organizations?find={organization}")).await;
    is_text(&found.is(200).says(SCRIPT));

    let mut browser = service.browser();
    browser.user_agent = SCRIPT.to_owned();
    browser.sign_in(&owner.email, &owner.password).await.is(200);
    let pages = [
        (format!("/console/organizations/{organization}"), SCRIPT),
        (format!("/console/organizations/{organization}"), ATTRIBUTE),
        (format!("/console/organizations/{organization}/members"), SCRIPT),
        (format!("/console/organizations/{organization}/audit"), SCRIPT),
        (format!("/console/projects/{project}"), ATTRIBUTE),
        (format!("/console/projects/{project}"), ENTITY),
        (format!("/console/projects/{project}"), IMAGE),
        (format!("/console/projects/{project}/keys"), ATTRIBUTE),
        (format!("/console/projects/{project}/usage"), ATTRIBUTE),
        (format!("/console/projects/{project}/settings"), ATTRIBUTE),
        (format!("/console/projects/{project}/archive"), ATTRIBUTE),
        (format!("/console/organizations/{organization}/settings"), SCRIPT),
        (format!("/console/find?project={project}"), SCRIPT),
        (format!("/console/find?project={project}&q=onmouseover"), ATTRIBUTE),
        ("/console/account".to_owned(), SCRIPT),
    ];
    for (path, text) in pages {
        let page = browser.open(&path).await.is(200).says(text);
        is_text(&page);
    }
    let request = new_invitation(&organization, "guest@people.example", Role::Viewer);
    let link = owner.ask().create_invitation(request).await.unwrap().into_inner().link.unwrap();
    let page = service.browser().open(&format!("/console/links/{}", token_of(&link))).await.is(200).says(SCRIPT);
    is_text(&page);
}

async fn what_comes_back_in_forms_is_text(service: &Service) {
    for text in [SCRIPT, ATTRIBUTE, IMAGE, ENTITY] {
        let browser = service.browser();
        let page = browser.open("/console/sign-up").await;
        let form = page.form("/console/sign-up").fill("email", text).fill("organization_name", text);
        let page = browser.submit(&form.fill("password", "short")).await.is(422);
        is_text(&page);
        let form = page.form("/console/sign-up");
        assert_eq!((&*form.field("email").value, &*form.field("organization_name").value), (text, text));
        // Nor does a path or a query string become a part of a page.
        let query = |name: &str| url::form_urlencoded::Serializer::new(String::new()).append_pair(name, text).finish();
        is_text(&browser.open(&format!("/console/sign-in?{}", query("next"))).await);
        is_text(&browser.open(&format!("/console/sign-in?{}", query("done"))).await);
        let (owner, organization) = service.owner().await;
        let browser = service.browser_of(&owner);
        is_text(&browser.open(&format!("/console/organizations/{organization}?{}", query("done"))).await);
        is_text(&browser.open("/console/%3Cscript%3Ealert(1)%3C/script%3E").await.is(404));
        is_text(&browser.open("/console/links/%3Cscript%3Ealert(1)").await.is(404));
    }
}
