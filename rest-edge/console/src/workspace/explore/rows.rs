//! Theses, profiles and tokens as rows of lists, and the formats of their values.

use thesis_proto::v1;

use crate::{
    page_query::encoded,
    view::{cut, group_digits, time},
    workspace::Workspace,
};

/// A row cuts a text after this many characters.
const MAX_TEXT: usize = 200;

pub(super) type Fact = (&'static str, String);

pub(super) fn thesis_path(workspace: &Workspace, id: &str) -> String {
    workspace.path(&format!("/explore/theses/{}", encoded(id)))
}

pub(super) fn profile_path(workspace: &Workspace, reference: &str) -> String {
    workspace.path(&format!("/explore/profiles/{}", encoded(reference)))
}

pub(super) fn token_path(workspace: &Workspace, reference: &str) -> String {
    workspace.path(&format!("/explore/tokens/{}", encoded(reference)))
}

/// Accepts a link to a page of another site; none for other schemes.
pub(super) fn outside(url: Option<String>) -> Option<String> {
    url.filter(|url| url.starts_with("https://") || url.starts_with("http://"))
}

/// Formats a number that may be unknown.
pub(super) fn number(number: Option<i64>) -> String {
    number.map_or_else(|| "unknown".to_owned(), group_digits)
}

pub(super) struct ThesisRow {
    pub(super) href: String,
    pub(super) created: String,
    pub(super) text: String,
    pub(super) handle: String,
    pub(super) profile_href: String,
    pub(super) symbol: String,
    pub(super) token_href: String,
    pub(super) likes: String,
}

impl ThesisRow {
    fn new(workspace: &Workspace, thesis: v1::Thesis) -> Self {
        let (profile, token) = (thesis.profile.unwrap_or_default(), thesis.token.unwrap_or_default());
        Self {
            href: thesis_path(workspace, &thesis.id),
            created: time(thesis.created_at.as_ref()),
            text: cut(&thesis.text, MAX_TEXT),
            profile_href: profile_path(workspace, &profile.id),
            handle: profile.handle,
            token_href: token_path(workspace, &token.id),
            symbol: token.symbol,
            likes: number(thesis.likes),
        }
    }

    pub(super) fn all(workspace: &Workspace, theses: Vec<v1::Thesis>) -> Vec<Self> {
        theses.into_iter().map(|thesis| Self::new(workspace, thesis)).collect()
    }
}

pub(super) struct ProfileRow {
    pub(super) href: String,
    pub(super) handle: String,
    pub(super) name: String,
    pub(super) bio: String,
}

impl ProfileRow {
    fn new(workspace: &Workspace, profile: v1::Profile) -> Self {
        Self {
            href: profile_path(workspace, &profile.id),
            handle: profile.handle,
            name: profile.display_name.unwrap_or_default(),
            bio: cut(&profile.bio.unwrap_or_default(), MAX_TEXT),
        }
    }

    pub(super) fn all(workspace: &Workspace, profiles: Vec<v1::Profile>) -> Vec<Self> {
        profiles.into_iter().map(|profile| Self::new(workspace, profile)).collect()
    }
}

pub(super) struct TokenRow {
    pub(super) href: String,
    pub(super) symbol: String,
    pub(super) name: String,
    pub(super) chain: String,
    pub(super) address: String,
    pub(super) theses: String,
}

impl TokenRow {
    fn new(workspace: &Workspace, token: v1::Token) -> Self {
        Self {
            href: token_path(workspace, &token.id),
            symbol: token.symbol,
            name: token.name.unwrap_or_default(),
            chain: token.chain,
            address: token.address,
            theses: group_digits(token.thesis_count),
        }
    }

    pub(super) fn all(workspace: &Workspace, tokens: Vec<v1::Token>) -> Vec<Self> {
        tokens.into_iter().map(|token| Self::new(workspace, token)).collect()
    }
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
