//! The search page of the console: finds pages and actions, and resources by id, handle or symbol. The command palette
//! of the frame shows its results.

use askama::Template;
use axum::{Router, routing::get};
use http::StatusCode;
use thesis_proto::v1;

use crate::{
    Page,
    administration::TABS,
    frame::{Frame, chosen_environment},
    page_query::{PageQuery, encoded, link},
    projects,
    view::{Layout, cut, render},
    visit::SignedIn,
};

/// The page shows at most this many links.
const MAX_LINKS: usize = 40;
/// Maximum number of characters of a name that customers chose.
const MAX_NAME: usize = 80;
/// Prefixes of ids, with the kind of the resource and the path of its page in an environment.
const RESOURCES: [(&str, &str, &str); 7] = [
    ("th_", "Thesis", "/explore/theses/"),
    ("fp_", "Profile", "/explore/profiles/"),
    ("tk_", "Token", "/explore/tokens/"),
    ("evt_", "Event", "/events/"),
    ("wh_", "Webhook", "/webhooks/"),
    ("al_", "Alert", "/alerts/"),
    ("req_", "Request", "/requests?request="),
];

pub(super) fn routes() -> Router {
    Router::new().route("/console/find", get(show))
}

struct FoundLink {
    name: String,
    /// The kind of the page, such as `Action`.
    kind: &'static str,
    href: String,
}

impl FoundLink {
    fn new(kind: &'static str, name: impl Into<String>, href: impl Into<String>) -> Self {
        Self { name: cut(&name.into(), MAX_NAME), kind, href: href.into() }
    }

    /// True if name and kind together contain every word. Words are in lower case.
    fn has(&self, words: &[String]) -> bool {
        let text = format!("{} {}", self.kind, self.name).to_lowercase();
        words.iter().all(|word| text.contains(word))
    }
}

#[derive(Template)]
#[template(path = "find.html")]
struct FindPage {
    layout: Layout,
    text: String,
    links: Vec<FoundLink>,
}

/// Pages and actions of the current project or organization, and links to all others.
fn pages(frame: &Frame, home: Option<&str>, is_administrator: bool) -> Vec<FoundLink> {
    let mut links: Vec<_> =
        frame.links.iter().map(|side| FoundLink::new("Page", side.name, side.href.clone())).collect();
    if let Some(home) = home {
        let data = format!("{home}/{}", frame.environment);
        let actions = [
            ("Create a key", format!("{home}/keys")),
            ("Create a webhook", format!("{data}/webhooks/new")),
            ("Create an alert", format!("{data}/alerts/new")),
            ("List theses", format!("{data}/explore/theses")),
            ("Ask for live access", format!("{home}#live-access")),
        ];
        links.extend(actions.into_iter().map(|(name, href)| FoundLink::new("Action", name, href)));
        let others = frame.environments.iter().filter(|other| !other.is_current);
        links.extend(others.map(|other| FoundLink::new("Environment", other.name, other.href.clone())));
    }
    for place in &frame.places {
        let (organization, projects) = (&place.organization, &place.projects);
        links.push(FoundLink::new("Organization", organization.name.clone(), organization.href.clone()));
        links.extend(projects.iter().map(|row| FoundLink::new("Project", row.name.clone(), row.href.clone())));
    }
    links.push(FoundLink::new("Action", "New organization", "/console/organizations/new"));
    links.push(FoundLink::new("Page", "Account", "/console/account"));
    if is_administrator {
        links.extend(TABS.map(|(name, href)| FoundLink::new("Administration", name, href)));
    }
    let elsewhere = [("Documentation", "/docs"), ("Reference", "/docs/reference"), ("Status", "/status")];
    links.extend(elsewhere.map(|(name, href)| FoundLink::new("Page", name, href)));
    links
}

/// Links to the resources of a project that a text may name by id, handle or symbol, and to a search for the text.
fn resources(text: &str, data: &str) -> Vec<FoundLink> {
    if text.is_empty() {
        return Vec::new();
    }
    let resource = |kind, path: &str, reference: &str| {
        FoundLink::new(kind, reference, format!("{data}{path}{}", encoded(reference)))
    };
    if let Some((_, kind, path)) = RESOURCES.into_iter().find(|(prefix, ..)| text.starts_with(prefix)) {
        return vec![resource(kind, path, text)];
    }
    let (profile, token) = ("/explore/profiles/", "/explore/tokens/");
    let mut links = Vec::new();
    match text.chars().next() {
        Some('@') => links.push(resource("Profile", profile, text)),
        Some('$') => links.push(resource("Token", token, text)),
        _ if !text.contains(char::is_whitespace) => {
            links.push(resource("Profile", profile, &format!("@{text}")));
            links.push(resource("Token", token, &format!("${text}")));
        }
        _ => {}
    }
    links.push(FoundLink::new("Search", text, link(&format!("{data}/explore"), &[("q", text)])));
    links
}

async fn show(signed_in: SignedIn, query: PageQuery) -> Page {
    let text = query.text("q").to_owned();
    let project_id = query.text("project");
    // Without a project, or with one that the visitor may not see, the page still finds everything else.
    let access = if project_id.is_empty() { None } else { projects::find(&signed_in, project_id).await.ok() };
    let project = access.map(|access| access.project).filter(|project| !project.archived);
    let home = project.as_ref().map(|project: &v1::Project| format!("/console/projects/{}", project.id));
    let words: Vec<_> = text.split_whitespace().map(str::to_lowercase).collect();
    let mut links = pages(&Frame::of(&signed_in), home.as_deref(), signed_in.is_administrator());
    links.retain(|link| link.has(&words));
    if let (Some(home), Some(project)) = (&home, &project) {
        links.extend(resources(&text, &format!("{home}/{}", chosen_environment(&query, project))));
    }
    links.truncate(MAX_LINKS);
    render(StatusCode::OK, &FindPage { layout: Layout::of(&signed_in, "Go to", ""), text, links })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(&'static str, String)> {
        resources(text, "/p/test").into_iter().map(|link| (link.kind, link.href)).collect()
    }

    #[test]
    fn resources_are_found_by_id_handle_and_symbol() {
        assert_eq!(found("th_1"), [("Thesis", "/p/test/explore/theses/th_1".to_owned())]);
        assert_eq!(found("evt_1"), [("Event", "/p/test/events/evt_1".to_owned())]);
        assert_eq!(found("req_1"), [("Request", "/p/test/requests?request=req_1".to_owned())]);
        assert_eq!(found("@ada")[0], ("Profile", "/p/test/explore/profiles/%40ada".to_owned()));
        assert_eq!(found("$RUN")[0], ("Token", "/p/test/explore/tokens/%24RUN".to_owned()));
        let kinds = |text: &str| found(text).into_iter().map(|(kind, _)| kind).collect::<Vec<_>>();
        assert_eq!(kinds("ada"), ["Profile", "Token", "Search"]);
        assert_eq!(kinds("two words"), ["Search"]);
        assert_eq!(
            found("a/../b"),
            [
                ("Profile", "/p/test/explore/profiles/%40a%2F..%2Fb".to_owned()),
                ("Token", "/p/test/explore/tokens/%24a%2F..%2Fb".to_owned()),
                ("Search", "/p/test/explore?q=a%2F..%2Fb".to_owned()),
            ]
        );
        assert!(found("").is_empty());
    }

    #[test]
    fn pages_are_found_by_all_words() {
        let names = |frame: &Frame, home, words: &str| {
            let words: Vec<_> = words.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
            let mut links = pages(frame, home, false);
            links.retain(|link| link.has(&words));
            links.into_iter().map(|link| link.name).collect::<Vec<_>>()
        };
        let frame = Frame { environment: "test", ..Frame::default() };
        assert_eq!(names(&frame, Some("/p"), "create key"), ["Create a key"]);
        assert_eq!(names(&frame, Some("/p"), "action alert"), ["Create an alert"]);
        assert!(names(&frame, None, "create key").is_empty());
        assert!(names(&frame, None, "").contains(&"Account".to_owned()));
    }
}
