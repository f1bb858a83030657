//! The page that asks for confirmation before a destructive action. It works without scripts, and on a small screen it
//! shows only the question.

use askama::Template;
use serde::Deserialize;

use crate::{
    Page,
    form::Faults,
    view::{Layout, render},
};

/// Asks before an action that cannot be undone, or that stops programs of the customer.
#[derive(Template)]
#[template(path = "question.html")]
pub(crate) struct Question {
    pub(crate) layout: Layout,
    /// The consequence of the action, in a sentence.
    pub(crate) consequence: String,
    /// The path that the form is sent to.
    pub(crate) action: String,
    pub(crate) button: &'static str,
    /// The name that the user must type; none where the button is enough.
    pub(crate) name: Option<String>,
    /// The typed reason; none for an action without one.
    pub(crate) reason: Option<String>,
    /// The path of the page to which the user returns without the action.
    pub(crate) back: String,
    pub(crate) faults: Faults,
}

/// The name that the user typed below a question.
#[derive(Deserialize)]
pub(crate) struct TypedName {
    #[serde(default)]
    confirm: String,
}

/// A text as a page shows it: line ends and several spaces are one space there.
fn as_shown(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl TypedName {
    /// The faults of the form, if the typed name is not the required one.
    pub(crate) fn faults(&self, name: Option<&str>) -> Option<Faults> {
        let is_it = name.is_none_or(|name| as_shown(&self.confirm) == as_shown(name));
        (!is_it).then(|| Faults::wrong("confirm", "must be the name as it stands above"))
    }
}

impl Question {
    pub(crate) fn ask(self) -> Page {
        render(self.faults.status(), &self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_itself_confirms() {
        let typed = |confirm: &str, name| TypedName { confirm: confirm.to_owned() }.faults(name).is_none();
        assert!(
            typed("", None) && typed("production", Some("production")) && typed(" production ", Some("production"))
        );
        assert!(!typed("", Some("production")) && !typed("Production", Some("production")));
        assert!(typed("a b c", Some("a\nb \t c")) && typed("a  b", Some("a b")) && !typed("ab", Some("a b")));
        let faults = TypedName { confirm: String::new() }.faults(Some("a")).unwrap();
        assert_eq!((faults.status().as_u16(), faults.field("confirm").is_some()), (422, true));
    }
}
