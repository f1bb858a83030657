//! The paths of theses, profiles and tokens, and the formats of their values.

use prost_types::Timestamp;

use crate::{page_query::encoded, view::group_digits, workspace::Workspace};

/// One name and value of the details panel.
pub(super) struct Fact {
    pub(super) name: &'static str,
    /// The value, unless it is a time.
    pub(super) text: String,
    pub(super) at: Option<Timestamp>,
    /// True for ids and addresses, which people copy.
    pub(super) is_code: bool,
}

impl Fact {
    pub(super) fn text(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, text: text.into(), at: None, is_code: false }
    }

    pub(super) fn code(name: &'static str, text: impl Into<String>) -> Self {
        Self { is_code: true, ..Self::text(name, text) }
    }

    pub(super) fn time(name: &'static str, at: Option<Timestamp>) -> Self {
        Self { at, ..Self::text(name, "never") }
    }
}

impl Workspace {
    pub(super) fn thesis_path(&self, id: &str) -> String {
        self.path(&format!("/explore/theses/{}", encoded(id)))
    }

    pub(super) fn profile_path(&self, reference: &str) -> String {
        self.path(&format!("/explore/profiles/{}", encoded(reference)))
    }

    pub(super) fn token_path(&self, reference: &str) -> String {
        self.path(&format!("/explore/tokens/{}", encoded(reference)))
    }
}

/// Accepts a link to a page of another site; none for other schemes.
pub(super) fn outside(url: Option<String>) -> Option<String> {
    url.filter(|url| url.starts_with("https://") || url.starts_with("http://"))
}

/// Formats a number that may be unknown.
pub(super) fn number(number: Option<i64>) -> String {
    number.map_or_else(|| "unknown".to_owned(), group_digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_sites_are_linked_to() {
        for (url, is_linked) in
            [("https://a.example/b", true), ("http://a.example", true), ("javascript:alert(1)", false), ("//a", false)]
        {
            assert_eq!(outside(Some(url.to_owned())).is_some(), is_linked, "{url}");
        }
    }

    #[test]
    fn values_are_said() {
        assert_eq!((number(Some(1_234)), number(None)), ("1,234".to_owned(), "unknown".to_owned()));
    }
}
