//! A page of the documentation, with the frame that all have.

use askama::Template;

use super::markdown::escaped;

/// A heading of the second level, for the list of a page's parts.
#[derive(Debug)]
pub(super) struct Part {
    /// Its fragment.
    pub(super) id: String,
    /// Its text.
    pub(super) text: String,
}

/// A page of the documentation.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// Its path.
    pub(super) path: String,
    /// Its heading.
    pub(super) title: String,
    /// What it is about, as text.
    pub(super) summary: String,
    /// Its parts.
    pub(super) parts: Vec<Part>,
    /// All below the heading, as HTML.
    pub(super) body: String,
    /// Whether it needs the width of the lists beside it.
    pub(super) is_wide: bool,
    /// Files that its head loads.
    pub(super) scripts: Vec<String>,
    pub(super) styles: Vec<String>,
}

/// An entry of the list of all pages.
pub(super) struct Link {
    /// Where it leads.
    pub(super) path: &'static str,
    /// Its text.
    pub(super) title: &'static str,
}

/// A group of the list of all pages.
pub(super) struct Group {
    /// Its heading.
    pub(super) title: &'static str,
    /// Its pages.
    pub(super) links: &'static [Link],
}

#[derive(Template)]
#[template(path = "docs.html")]
struct Frame<'a> {
    page: &'a Page,
    groups: &'static [Group],
}

/// A list of pages: path, title and summary of each.
pub(super) fn cards<'a>(pages: impl Iterator<Item = (&'a str, &'a str, &'a str)>) -> String {
    let card = |(path, title, summary): (&str, &str, &str)| {
        let (title, summary) = (escaped(title), escaped(summary));
        format!("<li class=\"card\"><h3><a href=\"{path}\">{title}</a></h3><p>{summary}</p></li>\n")
    };
    format!("<ul class=\"cards\">{}</ul>\n", pages.map(card).collect::<String>())
}

impl Page {
    /// The whole page.
    pub(super) fn html(&self) -> String {
        let frame = Frame { page: self, groups: super::guides::GROUPS };
        frame.render().expect("texts always render")
    }
}
