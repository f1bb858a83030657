//! The menus of the documentation. Those who use the API and those who run the service have separate ones.

use super::{HOME, site::REFERENCE};

/// A part of the documentation with a menu of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Guides,
    Reference,
    Operate,
}

impl Section {
    pub(super) const ALL: [Self; 3] = [Self::Guides, Self::Reference, Self::Operate];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Guides => "Guides",
            Self::Reference => "Reference",
            Self::Operate => "Operate",
        }
    }

    /// The path of its first page.
    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Guides => HOME,
            Self::Reference => REFERENCE,
            Self::Operate => "/docs/operators",
        }
    }
}

pub(super) struct MenuLink {
    pub(super) path: String,
    pub(super) title: String,
    /// The method of an operation; empty for other pages.
    pub(super) method: &'static str,
}

pub(super) struct MenuGroup {
    pub(super) section: Section,
    pub(super) title: String,
    pub(super) links: Vec<MenuLink>,
}

pub(super) struct Menu(Vec<MenuGroup>);

impl Menu {
    pub(super) fn new(groups: Vec<MenuGroup>) -> Self {
        Self(groups)
    }

    /// The section of a page. A page that no menu lists belongs to the page above it.
    pub(super) fn section_of(&self, path: &str) -> Section {
        let is_of = |link: &MenuLink| {
            path.strip_prefix(&*link.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let group = self.0.iter().find(|group| group.links.iter().any(is_of));
        group.map_or(Section::Guides, |group| group.section)
    }

    pub(super) fn groups(&self, section: Section) -> impl Iterator<Item = &MenuGroup> {
        self.0.iter().filter(move |group| group.section == section)
    }

    /// The pages before and after one, in the order of its section's menu.
    pub(super) fn neighbours(&self, path: &str) -> (Option<&MenuLink>, Option<&MenuLink>) {
        let links: Vec<_> = self.groups(self.section_of(path)).flat_map(|group| &group.links).collect();
        let Some(at) = links.iter().position(|link| link.path == path) else { return (None, None) };
        let before = at.checked_sub(1).and_then(|at| links.get(at).copied());
        (before, links.get(at + 1).copied())
    }
}
