//! A page of the documentation, with the frame of all pages.

use askama::Template;
use pulldown_cmark_escape::escape_html;

/// A heading of the second level, for the page's table of contents.
#[derive(Debug)]
pub(super) struct PagePart {
    pub(super) id: String,
    pub(super) text: String,
}

#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) path: String,
    pub(super) title: String,
    /// One sentence about its content, as text.
    pub(super) summary: String,
    pub(super) parts: Vec<PagePart>,
    /// The HTML below the heading.
    pub(super) body: String,
    /// True if the page uses the width of the lists at its sides.
    pub(super) is_wide: bool,
    /// Paths of the scripts that its head loads.
    pub(super) scripts: Vec<String>,
    pub(super) styles: Vec<String>,
}

pub(super) struct PageLink {
    pub(super) path: &'static str,
    pub(super) title: &'static str,
    /// The Markdown of a guide; none for pages that are built.
    pub(super) source: Option<&'static str>,
}

pub(super) struct PageGroup {
    pub(super) title: &'static str,
    pub(super) links: &'static [PageLink],
}

#[derive(Template)]
#[template(path = "docs.html")]
struct Frame<'a> {
    page: &'a Page,
    groups: &'static [PageGroup],
}

/// Escapes a text for HTML content and attributes.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    escape_html(&mut out, text).expect("memory takes every text");
    out
}

/// Renders path, title and summary of several pages.
pub(super) fn cards<'a>(pages: impl Iterator<Item = (&'a str, &'a str, &'a str)>) -> String {
    let card = |(path, title, summary): (&str, &str, &str)| {
        let (title, summary) = (escaped(title), escaped(summary));
        format!("<li class=\"card\"><h3><a href=\"{path}\">{title}</a></h3><p>{summary}</p></li>\n")
    };
    format!("<ul class=\"cards\">{}</ul>\n", pages.map(card).collect::<String>())
}

impl Page {
    /// The complete HTML, with the list of all pages.
    pub(super) fn html(&self, groups: &'static [PageGroup]) -> String {
        Frame { page: self, groups }.render().expect("texts always render")
    }
}
