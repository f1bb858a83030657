//! The console in a browser without JavaScript.

mod access;
mod addresses;
mod alerts;
mod approval;
mod confirmation;
mod cookies;
mod deliveries;
mod edits;
mod events;
mod explore;
mod first_minute;
mod forged;
mod frame;
mod invitations;
mod isolation;
mod kept;
mod live;
mod markup;
mod once;
mod pages;
mod passwords;
mod requests;
mod roles;
mod secrets;
mod sessions;
mod webhooks;
mod wrong;

use thesis_proto::v1::{self, Environment, Role};

use crate::harness::{
    Answer, Client, Person, Service,
    browser::{Browser, Page},
    eventually,
    person::new_invitation,
};

/// Longest time until a change acts everywhere.
const AT_ONCE: std::time::Duration = std::time::Duration::from_secs(1);
/// A password for who is invited.
const PASSWORD: &str = "a horse of another colour";
/// Another one.
const NEW: &str = "a wholly new password";

/// Waits until a key is answered alike at each edge, which must be at once.
async fn everywhere(service: &Service, key: &str, what: &str, is_so: impl Fn(&Answer) -> bool) {
    for edge in &service.edges {
        let client = Client::new(edge, Some(key));
        eventually(what, AT_ONCE, async || is_so(&client.get("/v1/me").await).then_some(())).await;
    }
}

/// Whether an answer has a status, and the error's code unless it is a success.
fn is(status: u16, code: &str) -> impl Fn(&Answer) -> bool {
    move |answer| answer.status == status && (status == 200 || answer.json()["error"]["code"] == code)
}

/// An organization with something in it, and its owner.
struct Customer {
    owner: Person,
    organization: String,
    project: String,
    key: String,
    invitation: String,
}

impl Customer {
    async fn new(service: &Service) -> Self {
        let (owner, organization) = service.owner().await;
        let project = owner.project(&organization, "Hive").await.id;
        let key = owner.key(&project, Environment::Test).await.0.id;
        let request = new_invitation(&organization, "somebody@people.example", Role::Viewer);
        let made = owner.ask().create_invitation(request).await.unwrap().into_inner();
        Self { owner, organization, project, key, invitation: made.invitation.unwrap().id }
    }

    /// All that the owner sees.
    async fn seen(&self) -> String {
        let organization = v1::GetOrganizationRequest { id: self.organization.clone() };
        let invitations = v1::ListInvitationsRequest { organization_id: self.organization.clone() };
        let keys = v1::AccountServiceListKeysRequest { project_id: self.project.clone() };
        format!(
            "{:?} {:?} {:?} {:?} {:?} {:?}",
            self.owner.ask().get_organization(organization).await.unwrap().into_inner(),
            self.owner.members(&self.organization).await,
            self.owner.ask().list_invitations(invitations).await.unwrap().into_inner(),
            self.owner.projects(&self.organization).await,
            self.owner.ask().list_keys(keys).await.unwrap().into_inner(),
            self.owner.audit(&self.organization).await,
        )
    }

    /// The pages of the organization and its project.
    fn pages(&self) -> Vec<String> {
        let (organization, project) = (&self.organization, &self.project);
        vec![
            format!("/console/organizations/{organization}"),
            format!("/console/organizations/{organization}/members"),
            format!("/console/organizations/{organization}/audit"),
            format!("/console/organizations/{organization}/projects"),
            format!("/console/organizations/{organization}/settings"),
            format!("/console/projects/{project}"),
            format!("/console/projects/{project}/keys"),
            format!("/console/projects/{project}/keys/{}/roll", self.key),
            format!("/console/projects/{project}/settings"),
            format!("/console/projects/{project}/usage"),
            format!("/console/projects/{project}/usage?days=30"),
        ]
    }

    /// Every form that concerns the organization: where it goes, and its fields. Those that end something come last.
    fn forms<'a>(&'a self, member: &str) -> Vec<(String, Vec<(&'static str, &'a str)>)> {
        let (organization, project) = (&self.organization, &self.project);
        let within = |path: &str| format!("/console/organizations/{organization}/{path}");
        let project = |path: &str| format!("/console/projects/{project}/{path}");
        vec![
            (within("projects"), vec![("name", "Another")]),
            (project("name"), vec![("name", "Renamed")]),
            (project("live-access"), vec![]),
            (project("keys"), vec![("name", "forged"), ("environment", "test"), ("scopes", "theses:read")]),
            (project(&format!("keys/{}/roll", self.key)), vec![("overlap", "24")]),
            (within("second-factor"), vec![("required", "false")]),
            (within("name"), vec![("name", "Renamed")]),
            (within(&format!("members/{member}/role")), vec![("role", "owner")]),
            (within("invitations"), vec![("email", "another@people.example"), ("role", "viewer")]),
            (format!("/console/invitations/{}/delete", self.invitation), vec![("organization", &*self.organization)]),
            (project(&format!("keys/{}/revoke", self.key)), vec![]),
            (project("archive"), vec![("confirm", "Hive")]),
            (within(&format!("members/{}/remove", self.owner.id)), vec![]),
        ]
    }
}

/// Pages for administrators.
const ADMINISTRATION: &[&str] = &[
    "/console/administration",
    "/console/administration/organizations",
    "/console/administration/users",
    "/console/administration/audit",
    "/console/administration/abuse",
    "/console/administration/ingest",
];

/// A new project; gives its page.
async fn create_project(browser: &Browser, organization: &str, name: &str) -> Page {
    let path = format!("/console/organizations/{organization}/projects");
    let page = browser.open(&path).await.is(200);
    browser.submit(&page.form(&path).fill("name", name)).await.is(200)
}

/// A new key; gives the key itself.
async fn create_key(browser: &Browser, project: &str, environment: &str) -> String {
    let path = format!("/console/projects/{project}/keys");
    let form = browser.open(&path).await.is(200).form(&path);
    let page = browser.submit(&form.fill("name", "laptop").fill("environment", environment)).await.is(200);
    let raw = page.word(&format!("svc_{environment}_"));
    // It is told once.
    let listed = browser.open(&format!("/console/projects/{project}")).await.is(200).says("laptop");
    assert!(!listed.html.contains(&raw), "{listed}");
    raw
}

/// The id at a place of a path, such as a project's.
fn id_in(path: &str, prefix: &str) -> String {
    let id = path.split(['/', '?']).find(|part| part.starts_with(prefix));
    id.unwrap_or_else(|| panic!("no {prefix}… in {path}")).to_owned()
}

/// The project that a page leads to.
fn project_in(page: &Page) -> String {
    id_in(&page.word("/console/projects/prj_"), "prj_")
}
