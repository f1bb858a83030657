//! Live access: asked for, refused with a reason, asked for again, approved, withdrawn.

use super::{create_key, everywhere, is};
use crate::harness::{Service, browser::Browser};

on_both_stores![live_access_is_asked_for_and_decided];

const REASON: &str = "Say what it is for, please.";

/// Asks for live access by the project's page.
async fn ask(owner: &Browser, project: &str) {
    let page = owner.open(&format!("/console/projects/{project}")).await.is(200);
    let form = page.form(&format!("/console/projects/{project}/live-access"));
    let page = owner.submit(&form).await.is(200);
    // What is asked for is not asked for again.
    assert!(page.find_form(&format!("/console/projects/{project}/live-access")).is_none(), "{page}");
}

/// Decides by a form of the administration's page.
async fn decide(administrator: &Browser, project: &str, decision: &str, fields: &[(&str, &str)], status: u16) {
    let path = format!("/console/administration/projects/{project}/{decision}");
    let listed = administrator.open(&format!("/console/administration?find={project}")).await.is(200);
    // A page asks before live access is withdrawn.
    let page = if decision == "withdraw" {
        assert!(listed.find_form(&path).is_none() && listed.html.contains(&path), "{listed}");
        administrator.open(&path).await.is(200)
    } else {
        listed
    };
    let form = fields.iter().fold(page.form(&path), |form, (name, value)| form.fill(name, value));
    administrator.submit(&form).await.is(status);
}

async fn live_access_is_asked_for_and_decided(service: &Service) {
    let (owner, organization) = service.owner().await;
    let project = owner.project(&organization, "Hive").await.id;
    let administrator = service.browser_of(&service.administrator().await);
    let owner = service.browser_of(&owner);
    let page = format!("/console/projects/{project}");
    let raw = create_key(&owner, &project, "live").await;
    everywhere(service, &raw, "nothing is approved", is(403, "LIVE_ACCESS_NOT_APPROVED")).await;

    ask(&owner, &project).await;
    decide(&administrator, &project, "refuse", &[("reason", "")], 422).await;
    decide(&administrator, &project, "refuse", &[("reason", REASON)], 200).await;
    owner.open(&page).await.is(200).says(REASON);
    everywhere(service, &raw, "it was refused", is(403, "LIVE_ACCESS_NOT_APPROVED")).await;

    ask(&owner, &project).await;
    decide(&administrator, &project, "approve", &[], 200).await;
    everywhere(service, &raw, "it was approved", is(200, "")).await;
    let told = owner.open(&page).await.is(200);
    assert!(!told.text().contains(REASON) && told.find_form(&format!("{page}/live-access")).is_none(), "{told}");

    decide(&administrator, &project, "withdraw", &[("reason", "Too many copies.")], 200).await;
    owner.open(&page).await.is(200).says("Too many copies.");
    everywhere(service, &raw, "it was withdrawn", is(403, "LIVE_ACCESS_NOT_APPROVED")).await;
    // It may be asked for again.
    ask(&owner, &project).await;
    let log = administrator.open(&format!("/console/administration/audit?organization={organization}")).await.is(200);
    for action in ["Asked for live access", "Refused live access", "Approved live access", "Withdrew live access"] {
        assert!(log.html.contains(action), "{action}: {log}");
    }
}
