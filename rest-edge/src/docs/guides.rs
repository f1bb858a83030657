//! The guides, and the list of all pages.

use super::{
    HOME, grpc,
    markdown::{self, GuideSource},
    page::{Page, PageGroup, PageLink, cards},
    reference,
};

/// All pages in the order of the list.
pub(super) const GROUPS: &[PageGroup] = &[
    PageGroup {
        title: "Begin",
        links: &[
            PageLink { path: "/docs/quick-start", title: "Quick start" },
            PageLink { path: "/docs/keys-and-environments", title: "Keys and environments" },
            PageLink { path: "/docs/sandbox", title: "Sandbox" },
        ],
    },
    PageGroup {
        title: "Use",
        links: &[
            PageLink { path: "/docs/pagination", title: "Pagination" },
            PageLink { path: "/docs/filters-and-references", title: "Filters and references" },
            PageLink { path: "/docs/verifying-a-thesis", title: "Verifying a thesis" },
            PageLink { path: "/docs/streams", title: "Streams" },
            PageLink { path: "/docs/webhooks", title: "Webhooks" },
            PageLink { path: "/docs/errors-and-limits", title: "Errors and limits" },
            PageLink { path: "/docs/going-live", title: "Going live" },
        ],
    },
    PageGroup {
        title: "Look up",
        links: &[
            PageLink { path: reference::PATH, title: "API reference" },
            PageLink { path: grpc::PATH, title: "gRPC" },
            PageLink { path: "/docs/errors", title: "Errors" },
        ],
    },
    PageGroup {
        title: "Run it",
        links: &[
            PageLink { path: "/docs/operators", title: "For operators" },
            PageLink { path: "/docs/deploy", title: "Deploy and upgrade" },
            PageLink { path: "/docs/data", title: "Data and backups" },
            PageLink { path: "/docs/observability", title: "Observability" },
            PageLink { path: "/docs/upstream", title: "The upstream" },
            PageLink { path: "/docs/capacity", title: "Capacity" },
            PageLink { path: "/docs/measurements", title: "Measurements" },
        ],
    },
];

macro_rules! sources {
    ($($name:literal $file:literal;)+) => {
        const SOURCES: &[GuideSource] =
            &[$(GuideSource { name: $name, text: include_str!(concat!("../../../docs/", $file)) }),+];
    };
}

sources! {
    "quick-start" "guides/quick-start.md";
    "keys-and-environments" "guides/keys-and-environments.md";
    "sandbox" "guides/sandbox.md";
    "pagination" "guides/pagination.md";
    "filters-and-references" "guides/filters-and-references.md";
    "verifying-a-thesis" "guides/verifying-a-thesis.md";
    "streams" "guides/streams.md";
    "webhooks" "guides/webhooks.md";
    "errors-and-limits" "guides/errors-and-limits.md";
    "going-live" "guides/going-live.md";
    "errors" "guides/errors.md";
    "operators" "guides/operators.md";
    "deploy" "guides/deploy.md";
    "data" "guides/data.md";
    "observability" "guides/observability.md";
    "capacity" "capacity.md";
    "measurements" "measurements.md";
    "upstream" "upstream.md";
}

pub(super) fn pages(public_url: &str) -> Vec<Page> {
    SOURCES.iter().map(|source| markdown::page(source, public_url)).collect()
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
