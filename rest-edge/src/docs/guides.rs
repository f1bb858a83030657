//! The guides, the list of all pages, and the first page.

use super::{
    HOME, grpc, markdown,
    menu::{Menu, MenuGroup, MenuLink, Section},
    page::{Page, cards, escaped},
    site::{REFERENCE, Site},
};

struct PageLink {
    path: &'static str,
    title: &'static str,
    /// The Markdown of a guide; none for pages that are built.
    source: Option<&'static str>,
}

struct PageGroup {
    section: Section,
    title: &'static str,
    links: &'static [PageLink],
}

/// A guide: its title in the list, the last segment of its path, and its file.
macro_rules! guide {
    ($title:literal, $name:literal, $file:literal) => {
        PageLink {
            path: concat!("/docs/", $name),
            title: $title,
            source: Some(include_str!(concat!("../../../docs/", $file))),
        }
    };
}

/// All pages but those of the operations, in the order of the menus.
const GROUPS: &[PageGroup] = &[
    PageGroup {
        section: Section::Guides,
        title: "Get started",
        links: &[
            guide!("Quick start", "quick-start", "guides/quick-start.md"),
            guide!("Keys and environments", "keys-and-environments", "guides/keys-and-environments.md"),
            guide!("Sandbox", "sandbox", "guides/sandbox.md"),
            guide!("SDKs", "sdks", "guides/sdks.md"),
        ],
    },
    PageGroup {
        section: Section::Guides,
        title: "Guides",
        links: &[
            guide!("Streams", "streams", "guides/streams.md"),
            guide!("Streams in a browser", "streams-browser", "guides/streams-browser.md"),
            guide!("Streams over WebSocket", "streams-websocket", "guides/streams-websocket.md"),
            guide!("Streams over gRPC", "streams-grpc", "guides/streams-grpc.md"),
            guide!("Streams in depth", "streams-in-depth", "guides/streams-in-depth.md"),
            guide!("Webhooks", "webhooks", "guides/webhooks.md"),
            guide!("Webhook deliveries", "webhook-deliveries", "guides/webhook-deliveries.md"),
            guide!("Webhook settings", "webhook-settings", "guides/webhook-settings.md"),
            guide!("Alerts", "alerts", "guides/alerts.md"),
            guide!("Verifying a thesis", "verifying-a-thesis", "guides/verifying-a-thesis.md"),
            guide!("Receipts", "receipts", "guides/receipts.md"),
            guide!("Archive", "archive", "guides/archive.md"),
            guide!("Filters and references", "filters-and-references", "guides/filters-and-references.md"),
            guide!("Pagination", "pagination", "guides/pagination.md"),
            guide!("Errors and limits", "errors-and-limits", "guides/errors-and-limits.md"),
            guide!("Going live", "going-live", "guides/going-live.md"),
        ],
    },
    PageGroup {
        section: Section::Reference,
        title: "Reference",
        links: &[
            PageLink { path: REFERENCE, title: "API reference", source: None },
            guide!("Errors", "errors", "guides/errors.md"),
            PageLink { path: grpc::PATH, title: "gRPC", source: None },
            guide!("Stream conformance", "stream-conformance", "stream-conformance.md"),
        ],
    },
    PageGroup {
        section: Section::Operate,
        title: "Operate",
        links: &[
            guide!("For operators", "operators", "guides/operators.md"),
            guide!("Deploy and upgrade", "deploy", "guides/deploy.md"),
            guide!("Data and backups", "data", "guides/data.md"),
            guide!("Observability", "observability", "guides/observability.md"),
            guide!("The upstream", "upstream", "upstream.md"),
            guide!("Capacity", "capacity", "capacity.md"),
            guide!("Measurements", "measurements", "measurements.md"),
            guide!("Simulation", "simulation", "simulation.md"),
        ],
    },
];

/// The menus without the operations.
pub(super) fn menu() -> Vec<MenuGroup> {
    let link = |link: &PageLink| MenuLink { path: link.path.to_owned(), title: link.title.to_owned(), method: "" };
    let group = |group: &PageGroup| MenuGroup {
        section: group.section,
        title: group.title.to_owned(),
        links: group.links.iter().map(link).collect(),
    };
    GROUPS.iter().map(group).collect()
}

pub(super) fn pages(site: &Site) -> Vec<Page> {
    let links = GROUPS.iter().flat_map(|group| group.links);
    links.filter_map(|link| Some(markdown::page(link.path, link.source?, site))).collect()
}

/// The first page: what the service is, and every page but those of the operations.
pub(super) fn home(site: &Site, pages: &[Page]) -> Page {
    let mut page = markdown::page(HOME, include_str!("home.md"), site);
    for group in GROUPS {
        let links = group.links.iter().map(|link| {
            let page = pages.iter().find(|page| page.path == link.path);
            (link.path, link.title, page.map_or("", |page| &*page.summary))
        });
        let id = group.title.to_lowercase().replace(' ', "-");
        page.body.push_str(&format!("<h2 id=\"{id}\">{}</h2>{}", escaped(group.title), cards(links.clone())));
        page.markdown.push_str(&format!("\n## {}\n\n", group.title));
        for (path, title, summary) in links {
            page.markdown.push_str(&format!("- [{title}]({}{path}.md): {summary}\n", site.public_url));
        }
    }
    page
}

/// The page for paths without a document.
pub(super) fn missing(public_url: &str) -> String {
    let body = "<p>There is no page here. The menu lists all pages, and the search finds their parts.</p>".to_owned();
    Page { title: "Page not found".to_owned(), body, ..Page::default() }.html(&Menu::new(menu()), public_url)
}
