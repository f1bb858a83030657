//! A page of the documentation, with the frame of all pages.

use askama::Template;
use pulldown_cmark_escape::escape_html;
use thesis_proto::error::ErrorCode;

use super::{
    SEARCH,
    menu::{Menu, MenuGroup, MenuLink, Section},
};

/// A heading of the second or third level, for the table of contents and the search.
#[derive(Debug, Default)]
pub(super) struct PagePart {
    pub(super) id: String,
    pub(super) title: String,
    /// True for the third level.
    pub(super) is_inner: bool,
    /// The text below the heading, without code blocks.
    pub(super) text: String,
}

impl PagePart {
    pub(super) fn new(id: impl Into<String>, title: impl Into<String>) -> Self {
        Self { id: id.into(), title: title.into(), ..Self::default() }
    }
}

#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) path: String,
    pub(super) title: String,
    /// One sentence about its content, as text.
    pub(super) summary: String,
    /// The text above the first part, without code blocks.
    pub(super) intro: String,
    pub(super) parts: Vec<PagePart>,
    /// The HTML below the heading.
    pub(super) body: String,
    /// The HTML that stands beside the body in place of the table of contents.
    pub(super) aside: String,
    /// The page as Markdown, which is served too; empty for none.
    pub(super) markdown: String,
    /// Paths of the scripts that its head loads, in addition to those of all pages.
    pub(super) scripts: Vec<String>,
}

/// A link to a section, in the bar above each page.
struct SectionLink {
    title: &'static str,
    path: &'static str,
    is_here: bool,
}

#[derive(Template)]
#[template(path = "docs.html")]
struct Frame<'a> {
    page: &'a Page,
    public_url: &'a str,
    /// The link of the bar that leads here.
    place: &'static str,
    sections: [SectionLink; 3],
    index: &'static str,
    groups: Vec<&'a MenuGroup>,
    previous: Option<&'a MenuLink>,
    next: Option<&'a MenuLink>,
}

/// Escapes a text for HTML content and attributes.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    escape_html(&mut out, text).expect("memory takes every text");
    out
}

/// Turns text in backticks into code. Error codes link to their paragraph.
pub(super) fn coded(text: &str) -> String {
    let mut out = String::new();
    for (index, part) in text.split('`').enumerate() {
        let shown = escaped(part);
        if index.is_multiple_of(2) {
            out.push_str(&shown);
        } else if ErrorCode::parse(part).is_some() {
            let id = part.to_lowercase();
            out.push_str(&format!("<a href=\"/docs/errors#{id}\"><code>{shown}</code></a>"));
        } else {
            out.push_str(&format!("<code>{shown}</code>"));
        }
    }
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
    /// The complete HTML, with the menu of its section.
    pub(super) fn html(&self, menu: &Menu, public_url: &str) -> String {
        let section = menu.section_of(&self.path);
        let (previous, next) = menu.neighbours(&self.path);
        let sections =
            Section::ALL.map(|one| SectionLink { title: one.title(), path: one.path(), is_here: one == section });
        let groups = menu.groups(section).collect();
        let place = if section == Section::Reference { Section::Reference.title() } else { "Documentation" };
        let frame = Frame { page: self, public_url, place, sections, index: SEARCH, groups, previous, next };
        frame.render().expect("texts always render")
    }
}
