//! Shows a form that the browser kept while the user signed in or confirmed, with a button that sends it.

use askama::Template;
use http::StatusCode;

use super::safe_next;
use crate::{
    HOME, Page,
    failure::see_other,
    form::label,
    kept::{HEADERS, KeptForm},
    view::{Layout, cut, render},
    visit::SignedIn,
};

/// Maximum number of characters of a shown value.
const MAX_SHOWN: usize = 200;
/// Hidden fields, which nobody typed.
const HIDDEN: [&str; 3] = ["once", "revision", "username"];

/// A field that the page shows.
struct ShownField {
    name: String,
    value: String,
}

#[derive(Template)]
#[template(path = "again.html")]
struct AgainPage {
    layout: Layout,
    action: String,
    /// The kept fields of the form.
    fields: Vec<(String, String)>,
    /// True if the form has headers, which were not kept.
    has_headers: bool,
    shown: Vec<ShownField>,
}

/// Shows the kept form, unless another user sent it.
pub(super) async fn show(signed_in: SignedIn) -> Page {
    let id = signed_in.account.user.as_ref().map(|user| user.id.as_str());
    let is_ours = |form: &KeptForm| id == Some(&*form.user) && safe_next(Some(&form.path)) == form.path;
    let Some(form) = KeptForm::read(&signed_in.visit).filter(is_ours) else { return Ok(see_other(HOME)) };
    let KeptForm { path: action, mut fields, .. } = form;
    let count = fields.len();
    fields.retain(|(name, _)| name != HEADERS);
    let has_headers = fields.len() < count;
    let typed = fields.iter().filter(|(name, value)| !HIDDEN.contains(&name.as_str()) && !value.is_empty());
    let shown = typed.map(|(name, value)| ShownField { name: label(name), value: cut(value, MAX_SHOWN) });
    let shown = shown.collect();
    let layout = Layout::of(&signed_in, "Send your form", "");
    render(StatusCode::OK, &AgainPage { layout, action, fields, has_headers, shown })
}
