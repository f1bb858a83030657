//! The page that asks before something ends. It works without scripts, and on a small screen the question is all there
//! is.

use askama::Template;
use serde::Deserialize;

use crate::{
    Page,
    form::Faults,
    view::{Layout, render},
};

/// A question about an action that cannot be taken back, or that stops programs of the customer.
#[derive(Template)]
#[template(path = "question.html")]
pub(crate) struct Question {
    pub(crate) layout: Layout,
    /// What follows from the action.
    pub(crate) consequence: String,
    /// The path that the form is sent to.
    pub(crate) action: String,
    pub(crate) button: &'static str,
    /// The name to type; none where the button is enough.
    pub(crate) name: Option<String>,
    /// The reason as typed; none where nobody reads one.
    pub(crate) reason: Option<String>,
    /// The path of the page without the action.
    pub(crate) back: String,
    pub(crate) faults: Faults,
}

/// The name as typed below a question.
#[derive(Deserialize)]
pub(crate) struct TypedName {
    #[serde(default)]
    confirm: String,
}

impl TypedName {
    /// The faults of the form, if a name had to be typed and another one was.
    pub(crate) fn faults(&self, name: Option<&str>) -> Option<Faults> {
        let is_it = name.is_none_or(|name| self.confirm.trim() == name.trim());
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
        let faults = TypedName { confirm: String::new() }.faults(Some("a")).unwrap();
        assert_eq!((faults.status().as_u16(), faults.field("confirm").is_some()), (422, true));
    }
}
