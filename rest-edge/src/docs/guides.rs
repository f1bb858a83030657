//! The guides, and the list of all pages.

use super::{
    HOME, grpc, markdown,
    page::{Page, PageGroup, PageLink, cards},
    reference,
};

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

/// All pages in the order of the list.
pub(super) const GROUPS: &[PageGroup] = &[
    PageGroup {
        title: "Begin",
        links: &[
            guide!("Quick start", "quick-start", "guides/quick-start.md"),
            guide!("Keys and environments", "keys-and-environments", "guides/keys-and-environments.md"),
            guide!("Sandbox", "sandbox", "guides/sandbox.md"),
        ],
    },
    PageGroup {
        title: "Use",
        links: &[
            guide!("Pagination", "pagination", "guides/pagination.md"),
            guide!("Filters and references", "filters-and-references", "guides/filters-and-references.md"),
            guide!("Verifying a thesis", "verifying-a-thesis", "guides/verifying-a-thesis.md"),
            guide!("Receipts", "receipts", "guides/receipts.md"),
            guide!("Archive", "archive", "guides/archive.md"),
            guide!("Streams", "streams", "guides/streams.md"),
            guide!("Streams in a browser", "streams-browser", "guides/streams-browser.md"),
            guide!("Streams over WebSocket", "streams-websocket", "guides/streams-websocket.md"),
            guide!("Streams over gRPC", "streams-grpc", "guides/streams-grpc.md"),
            guide!("Streams in depth", "streams-in-depth", "guides/streams-in-depth.md"),
            guide!("Webhooks", "webhooks", "guides/webhooks.md"),
            guide!("Webhook deliveries", "webhook-deliveries", "guides/webhook-deliveries.md"),
            guide!("Webhook settings", "webhook-settings", "guides/webhook-settings.md"),
            guide!("Alerts", "alerts", "guides/alerts.md"),
            guide!("Errors and limits", "errors-and-limits", "guides/errors-and-limits.md"),
            guide!("Going live", "going-live", "guides/going-live.md"),
        ],
    },
    PageGroup {
        title: "Look up",
        links: &[
            PageLink { path: reference::PATH, title: "API reference", source: None },
            PageLink { path: grpc::PATH, title: "gRPC", source: None },
            guide!("Errors", "errors", "guides/errors.md"),
            guide!("Stream conformance", "stream-conformance", "stream-conformance.md"),
        ],
    },
    PageGroup {
        title: "Run it",
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

pub(super) fn pages(public_url: &str) -> Vec<Page> {
    let links = GROUPS.iter().flat_map(|group| group.links);
    links.filter_map(|link| Some(markdown::page(link.path, link.source?, public_url))).collect()
}

/// The index of all pages.
pub(super) fn index(pages: &[Page]) -> Page {
    let mut body = String::new();
    for group in GROUPS {
        let links = group.links.iter().map(|link| {
            let page = pages.iter().find(|page| page.path == link.path);
            (link.path, link.title, page.map_or(reference::SUMMARY, |page| &*page.summary))
        });
        body.push_str(&format!("<h2>{}</h2>{}", group.title, cards(links)));
    }
    let summary = "Trade theses, profiles, tokens and their events: how to read them, follow them and verify them.";
    Page {
        path: HOME.to_owned(),
        title: "Documentation".to_owned(),
        summary: summary.to_owned(),
        body,
        ..Page::default()
    }
}

/// The page for paths without a document.
pub(super) fn missing() -> Page {
    let body = "<p>There is no page here. The list of all pages may have the one that is meant.</p>".to_owned();
    Page { title: "Page not found".to_owned(), body, ..Page::default() }
}
