//! The frame around the pages of a signed-in user: the switcher of organization, project and environment, the sidebar
//! and the breadcrumbs. All of it follows from the page's address, so every page has it.

use thesis_proto::{
    metadata::{LIVE, TEST},
    v1::{self, Role},
};

use crate::{
    page_query::{PageQuery, link},
    visit::SignedIn,
};

/// The pages of a project's data: name, path in the environment, and icon. Deeper pages begin with the same path.
pub(crate) const DATA_PAGES: [(&str, &str, &str); 5] = [
    ("Events", "/events", "activity"),
    ("Webhooks", "/webhooks", "webhook"),
    ("Alerts", "/alerts", "bell"),
    ("Requests", "/requests", "scroll-text"),
    ("Explore", EXPLORE, "compass"),
];
const EXPLORE: &str = "/explore";
const VERIFY: &str = "/explore/verify";

/// A link whose name is not fixed, such as the name of a project.
pub(crate) struct NamedLink {
    pub(crate) name: String,
    pub(crate) href: String,
    /// True if the page is the link's target or below it.
    pub(crate) is_current: bool,
}

/// A link of the sidebar.
pub(crate) struct SideLink {
    pub(crate) name: &'static str,
    pub(crate) href: String,
    pub(crate) icon: &'static str,
    pub(crate) is_current: bool,
}

/// An organization in the switcher, with its projects if the page has read them.
pub(crate) struct SwitcherEntry {
    pub(crate) organization: NamedLink,
    pub(crate) projects: Vec<NamedLink>,
}

#[derive(Default)]
pub(crate) struct Frame {
    pub(crate) places: Vec<SwitcherEntry>,
    /// The project or organization of the page; empty elsewhere.
    pub(crate) here: String,
    /// The organization of that project; empty elsewhere.
    pub(crate) above: String,
    /// The id of the project; empty elsewhere.
    pub(crate) project_id: String,
    /// The environment of the page; empty outside of projects.
    pub(crate) environment: &'static str,
    /// Links to the same page in each environment.
    pub(crate) environments: Vec<SideLink>,
    pub(crate) links: Vec<SideLink>,
    /// The pages above this one, the outermost first.
    pub(crate) crumbs: Vec<NamedLink>,
}

/// The environment of a page that concerns a whole project: the one that the query chooses, or else live once it is
/// approved.
pub(crate) fn chosen_environment(query: &PageQuery, project: &v1::Project) -> &'static str {
    match query.text("in") {
        LIVE => LIVE,
        TEST => TEST,
        _ if project.live_approved => LIVE,
        _ => TEST,
    }
}

/// The address of a page, in parts.
struct Address<'a> {
    path: &'a str,
    query: PageQuery,
    /// The first part, such as `projects`.
    kind: &'a str,
    id: &'a str,
    /// The parts after the id.
    rest: Vec<&'a str>,
}

impl<'a> Address<'a> {
    fn of(path_and_query: &'a str) -> Self {
        let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
        let mut parts = path.split('/').skip(2);
        let (kind, id) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        Self { path, query: PageQuery::read(query), kind, id, rest: parts.collect() }
    }

    /// The id of the page's project. The search page has it in its query.
    fn project(&self) -> &str {
        match self.kind {
            "projects" => self.id,
            "find" => self.query.text("project"),
            _ => "",
        }
    }

    fn organization(&self) -> &str {
        if self.kind == "organizations" { self.id } else { "" }
    }

    /// The environment in the path.
    fn environment(&self) -> Option<&'static str> {
        match self.rest.first() {
            Some(&LIVE) if self.kind == "projects" => Some(LIVE),
            Some(&TEST) if self.kind == "projects" => Some(TEST),
            _ => None,
        }
    }

    /// The part at an index after the project or organization, and after the environment if the path has one.
    fn part(&self, at: usize) -> &str {
        let skipped = usize::from(self.environment().is_some());
        self.rest.get(skipped + at).copied().unwrap_or_default()
    }
}

impl Frame {
    pub(crate) fn of(signed_in: &SignedIn) -> Self {
        let address = Address::of(&signed_in.visit.path);
        let projects = signed_in.projects.get().map(Vec::as_slice).unwrap_or_default();
        let project = projects.iter().find(|project| project.id == address.project());
        let organization_id = project.map_or(address.organization(), |project| project.organization_id.as_str());
        let membership = signed_in.membership(organization_id).ok();
        let mut frame =
            Self { places: places(signed_in, projects, organization_id, address.project()), ..Self::default() };
        match (membership, project) {
            (Some(membership), Some(project)) => frame.enter_project(&address, membership, project),
            (Some(membership), None) => frame.enter_organization(&address, membership),
            (None, _) => {}
        }
        frame
    }

    fn enter_organization(&mut self, address: &Address<'_>, membership: &v1::Membership) {
        let organization = membership.organization.as_ref();
        let (id, name) = organization.map(|row| (row.id.as_str(), row.name.as_str())).unwrap_or_default();
        let home = format!("/console/organizations/{id}");
        let pages = [
            ("Projects", "", "folder"),
            ("Members", "/members", "users"),
            ("Audit log", "/audit", "scroll-text"),
            ("Settings", "/settings", "settings"),
        ];
        let part = address.part(0);
        let shown = pages.into_iter().filter(|(_, page, _)| *page != "/audit" || membership.role() == Role::Owner);
        self.links = shown
            .map(|(name, page, icon)| {
                let is_current = page.trim_start_matches('/') == part;
                SideLink { name, href: format!("{home}{page}"), icon, is_current }
            })
            .collect();
        name.clone_into(&mut self.here);
        if !part.is_empty() {
            self.crumbs = vec![crumb(name, home)];
        }
    }

    fn enter_project(&mut self, address: &Address<'_>, membership: &v1::Membership, project: &v1::Project) {
        let organization = membership.organization.as_ref();
        let (organization_id, above) = organization.map(|row| (row.id.as_str(), row.name.as_str())).unwrap_or_default();
        let default = chosen_environment(&PageQuery::default(), project);
        let environment = address.environment().unwrap_or_else(|| chosen_environment(&address.query, project));
        let home = format!("/console/projects/{}", project.id);
        let chosen = if environment == default { "" } else { environment };
        let whole = |page: &str| link(&format!("{home}{page}"), &[("in", chosen)]);
        let data = |page: &str| format!("{home}/{environment}{page}");
        let (is_data, part) = (address.environment().is_some(), address.part(0));
        let is_verify = is_data && VERIFY == format!("/{part}/{}", address.part(1));

        let side = |name, href, icon, is_current| SideLink { name, href, icon, is_current };
        let is_overview = address.kind == "projects" && part.is_empty();
        self.links.push(side("Overview", whole(""), "layout-dashboard", is_overview));
        if !project.archived {
            self.links.extend(DATA_PAGES.map(|(name, page, icon)| {
                let is_current = is_data && page[1..] == *part && !is_verify;
                side(name, data(page), icon, is_current)
            }));
            self.links.push(side("Verify", data(VERIFY), "badge-check", is_verify));
        }
        self.links.push(side("Keys", format!("{}#keys", whole("")), "key-round", !is_data && part == "keys"));
        self.links.push(side("Usage", whole("/usage"), "chart-column", !is_data && part == "usage"));
        self.links.push(side("Settings", whole("/settings"), "settings", !is_data && part == "settings"));

        self.crumbs = vec![crumb(above, format!("/console/organizations/{organization_id}"))];
        if !is_overview {
            self.crumbs.push(crumb(&project.name, whole("")));
        }
        let tab = DATA_PAGES.into_iter().find(|(_, page, _)| is_data && page[1..] == *part);
        if let Some((name, page, _)) = tab.filter(|_| !address.part(1).is_empty()) {
            self.crumbs.push(crumb(name, data(page)));
        }
        self.environments = [("Test", TEST), ("Live", LIVE)]
            .map(|(name, other)| side(name, in_environment(address, other, is_data), "", other == environment))
            .into();
        project.name.clone_into(&mut self.here);
        above.clone_into(&mut self.above);
        project.id.clone_into(&mut self.project_id);
        self.environment = environment;
    }
}

/// The address of a page in another environment. For a resource, which exists in one environment only, it is the list.
fn in_environment(address: &Address<'_>, environment: &str, is_data: bool) -> String {
    let home = format!("/console/projects/{}", address.project());
    if !is_data {
        let page: &str = if address.kind == "projects" { address.path } else { &home };
        return link(page, &[("in", environment)]);
    }
    let part = address.part(0);
    let is_verify = VERIFY == format!("/{part}/{}", address.part(1));
    let page = if is_verify { VERIFY.to_owned() } else { format!("/{part}") };
    format!("{home}/{environment}{page}")
}

fn crumb(name: &str, href: String) -> NamedLink {
    NamedLink { name: name.to_owned(), href, is_current: false }
}

fn places(
    signed_in: &SignedIn,
    projects: &[v1::Project],
    organization_id: &str,
    project_id: &str,
) -> Vec<SwitcherEntry> {
    let organizations = signed_in.account.memberships.iter().filter_map(|row| row.organization.as_ref());
    let place = |organization: &v1::Organization| SwitcherEntry {
        organization: NamedLink {
            name: organization.name.clone(),
            href: format!("/console/organizations/{}", organization.id),
            is_current: organization.id == organization_id,
        },
        projects: projects
            .iter()
            .filter(|project| project.organization_id == organization.id && !project.archived)
            .map(|project| NamedLink {
                name: project.name.clone(),
                href: format!("/console/projects/{}", project.id),
                is_current: project.id == project_id,
            })
            .collect(),
    };
    organizations.map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(live_approved: bool) -> v1::Project {
        v1::Project {
            id: "prj_1".to_owned(),
            name: "Hive".to_owned(),
            organization_id: "org_1".to_owned(),
            live_approved,
            ..v1::Project::default()
        }
    }

    fn membership(role: Role) -> v1::Membership {
        let organization =
            v1::Organization { id: "org_1".to_owned(), name: "Acme".to_owned(), ..v1::Organization::default() };
        v1::Membership { organization: Some(organization), role: role.into() }
    }

    fn inside(path: &str, live_approved: bool) -> Frame {
        let mut frame = Frame::default();
        frame.enter_project(&Address::of(path), &membership(Role::Viewer), &project(live_approved));
        frame
    }

    fn current(frame: &Frame) -> Vec<&'static str> {
        frame.links.iter().filter(|link| link.is_current).map(|link| link.name).collect()
    }

    fn crumbs(frame: &Frame) -> Vec<&str> {
        frame.crumbs.iter().map(|crumb| crumb.name.as_str()).collect()
    }

    #[test]
    fn each_page_has_its_place() {
        for (path, link, above) in [
            ("/console/projects/prj_1", "Overview", vec!["Acme"]),
            ("/console/projects/prj_1/usage?days=30", "Usage", vec!["Acme", "Hive"]),
            ("/console/projects/prj_1/keys", "Keys", vec!["Acme", "Hive"]),
            ("/console/projects/prj_1/settings", "Settings", vec!["Acme", "Hive"]),
            ("/console/projects/prj_1/test/webhooks", "Webhooks", vec!["Acme", "Hive"]),
            ("/console/projects/prj_1/test/webhooks/wh_1", "Webhooks", vec!["Acme", "Hive", "Webhooks"]),
            ("/console/projects/prj_1/test/requests/1/req_1", "Requests", vec!["Acme", "Hive", "Requests"]),
            ("/console/projects/prj_1/live/explore/tokens/tk_1", "Explore", vec!["Acme", "Hive", "Explore"]),
            ("/console/projects/prj_1/live/explore/verify?handle=a", "Verify", vec!["Acme", "Hive", "Explore"]),
        ] {
            let frame = inside(path, true);
            assert_eq!((current(&frame), crumbs(&frame)), (vec![link], above), "{path}");
        }
    }

    #[test]
    fn the_environment_is_that_of_the_page() {
        for (path, approved, environment) in [
            ("/console/projects/prj_1", false, TEST),
            ("/console/projects/prj_1", true, LIVE),
            ("/console/projects/prj_1?in=test", true, TEST),
            ("/console/projects/prj_1/usage?in=live", false, LIVE),
            ("/console/projects/prj_1/test/events", true, TEST),
            ("/console/find?project=prj_1&in=test", true, TEST),
        ] {
            let frame = inside(path, approved);
            assert_eq!(frame.environment, environment, "{path}");
            let events = frame.links.iter().find(|link| link.name == "Events").map(|link| link.href.as_str());
            assert_eq!(events, Some(&*format!("/console/projects/prj_1/{environment}/events")), "{path}");
        }
        // Links carry an environment that is not the default.
        let hrefs = |frame: &Frame| [frame.links[0].href.clone(), frame.links[7].href.clone()];
        let chosen = inside("/console/projects/prj_1/test/events", true);
        assert_eq!(hrefs(&chosen), ["/console/projects/prj_1?in=test", "/console/projects/prj_1?in=test#keys"]);
        assert_eq!(hrefs(&inside("/console/projects/prj_1", false))[0], "/console/projects/prj_1");
    }

    #[test]
    fn the_other_environment_has_the_same_page() {
        let other = |path: &str| inside(path, true).environments[0].href.clone();
        for (path, href) in [
            ("/console/projects/prj_1/live/events?types=a", "/console/projects/prj_1/test/events"),
            ("/console/projects/prj_1/live/webhooks/wh_1", "/console/projects/prj_1/test/webhooks"),
            ("/console/projects/prj_1/live/explore/verify?token=a", "/console/projects/prj_1/test/explore/verify"),
            ("/console/projects/prj_1/usage?days=30", "/console/projects/prj_1/usage?in=test"),
            ("/console/find?project=prj_1&q=a", "/console/projects/prj_1?in=test"),
        ] {
            assert_eq!(other(path), href);
        }
    }

    #[test]
    fn owners_alone_see_the_audit_log() {
        for (role, sees) in [(Role::Owner, true), (Role::Developer, false)] {
            let mut frame = Frame::default();
            frame.enter_organization(&Address::of("/console/organizations/org_1/members"), &membership(role));
            assert_eq!(frame.links.iter().any(|link| link.name == "Audit log"), sees, "{role:?}");
            assert_eq!((current(&frame), crumbs(&frame)), (vec!["Members"], vec!["Acme"]));
        }
    }
}
