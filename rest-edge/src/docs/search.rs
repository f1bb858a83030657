//! The index of the search, which `docs.js` fetches when somebody searches for the first time. It contains the text of
//! every page, so that the search needs no other request.

use serde::Serialize;

use super::{menu::Menu, page::Page};

/// A part of a page that a search can find.
#[derive(Serialize)]
struct Entry<'a> {
    /// Path and fragment.
    path: String,
    section: &'static str,
    page: &'a str,
    /// The heading; empty for the beginning of a page.
    part: &'a str,
    text: String,
}

/// The index as JSON.
pub(super) fn index(menu: &Menu, pages: &[Page]) -> Vec<u8> {
    let entries: Vec<Entry<'_>> = pages.iter().flat_map(|page| entries(menu, page)).collect();
    serde_json::to_vec(&entries).expect("texts always serialise")
}

fn entries<'a>(menu: &Menu, page: &'a Page) -> impl Iterator<Item = Entry<'a>> {
    let section = menu.section_of(&page.path).title();
    let entry = move |path: String, part: &'a str, text: &str| Entry {
        path,
        section,
        page: &page.title,
        part,
        text: text.split_whitespace().collect::<Vec<_>>().join(" "),
    };
    let begin = if page.intro.is_empty() { &page.summary } else { &page.intro };
    let parts = page.parts.iter();
    std::iter::once(entry(page.path.clone(), "", begin))
        .chain(parts.map(move |part| entry(format!("{}#{}", page.path, part.id), &part.title, &part.text)))
}
