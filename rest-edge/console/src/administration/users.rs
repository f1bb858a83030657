//! The users who can sign in.

use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use prost_types::Timestamp;
use serde::{Deserialize, Serialize};
use thesis_proto::{
    time::{from_millis, to_millis},
    v1,
};

use super::{ACTIVE, USERS, listing::Listing};
use crate::{
    HOME, Page,
    failure::{Failed, see_other},
    form::{Faults, NoFields, Posted},
    page_query::PageQuery,
    question::Question,
    shown,
    view::{Layout, Moment, moment, render},
    visit::{Administrator, SignedIn},
};

/// The page with a link that was created.
pub(super) const LINK: &str = "/console/administration/users/link";

const NOTICES: &[(&str, &str)] = &[
    ("administrator-made", "The user is an administrator now."),
    ("administrator-unmade", "The user is no administrator any more."),
    ("confirmed", "The e-mail is confirmed."),
    ("factors-removed", "The second factors of the user are removed."),
];

#[derive(Template)]
#[template(path = "administration_users.html")]
struct UsersPage {
    layout: Layout,
    tab: &'static str,
    find: String,
    users: Listing<v1::User>,
    faults: Faults,
    /// The invitation form as the administrator typed it.
    typed: InvitationForm,
}

/// The page with a link.
#[derive(Template)]
#[template(path = "administration_link.html")]
struct LinkPage {
    layout: Layout,
    tab: &'static str,
    created: CreatedLink,
    expires_at: Moment,
}

/// A new link, which the form passes to the page that shows it.
#[derive(Serialize, Deserialize)]
struct CreatedLink {
    title: String,
    /// Explains the link's purpose and how to use it.
    text: String,
    link: String,
    /// Unix milliseconds.
    expires_at: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct InvitationForm {
    email: String,
    /// A checkbox: present if it is ticked.
    administrator: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct UserForm {
    email: String,
    /// Present if the administrator pressed the button for a link that keeps memberships.
    keep_memberships: Option<String>,
}

async fn page(signed_in: &SignedIn, query: &PageQuery, (typed, faults): (InvitationForm, Faults)) -> Page {
    let request = signed_in.request(v1::ListUsersRequest {});
    let all = signed_in.core().admin.list_users(request).await?.into_inner().data;
    let wanted = all.into_iter().filter(|user| query.wants(&[&user.id, &user.email])).collect();
    let page = UsersPage {
        layout: Layout::of(signed_in, "Users", ACTIVE).with_notice(query.text("done"), NOTICES),
        tab: USERS,
        find: query.text("find").to_owned(),
        users: query.part(USERS, wanted),
        faults,
        typed,
    };
    render(page.faults.status(), &page)
}

/// Shows the page again with core's faults.
async fn show_faults(signed_in: &SignedIn, status: &tonic::Status, typed: InvitationForm) -> Page {
    page(signed_in, &PageQuery::default(), (typed, Faults::of(status)?)).await
}

/// Redirects to the page with a link. No address has the link, because the browser's history would keep it.
fn link_page(signed_in: &SignedIn, title: &str, text: String, link: String, expires_at: Option<&Timestamp>) -> Page {
    let created = CreatedLink { title: title.to_owned(), text, link, expires_at: expires_at.map(to_millis) };
    shown::show(&signed_in.visit, LINK, &created)
}

/// Shows a link for ten minutes after its creation.
pub(super) async fn show_link(Administrator(signed_in): Administrator) -> Page {
    let Some(created) = shown::read::<CreatedLink>(&signed_in.visit) else { return Ok(see_other(USERS)) };
    let layout = Layout::of(&signed_in, &created.title, ACTIVE);
    let expires_at = moment(created.expires_at.map(from_millis).as_ref());
    render(StatusCode::OK, &LinkPage { layout, tab: USERS, created, expires_at })
}

/// The user with an id.
async fn find(signed_in: &SignedIn, id: &str) -> Result<v1::User, Failed> {
    let request = signed_in.request(v1::ListUsersRequest {});
    let users = signed_in.core().admin.list_users(request).await?.into_inner().data;
    users.into_iter().find(|user| user.id == id).ok_or_else(Failed::missing)
}

/// Asks before a change of a user, whose form is sent to the path of the question.
fn ask(signed_in: &SignedIn, title: &str, consequence: String, button: &'static str) -> Page {
    let question = Question {
        layout: Layout::of(signed_in, title, ACTIVE),
        consequence,
        action: signed_in.visit.path.clone(),
        button,
        name: None,
        reason: None,
        back: USERS.to_owned(),
        faults: Faults::none(),
    };
    question.ask()
}

pub(super) async fn ask_to_remove_factors(Administrator(signed_in): Administrator, Path(id): Path<String>) -> Page {
    let email = find(&signed_in, &id).await?.email;
    let consequence = format!(
        "{email} signs in with the password alone until they add a second factor again. Do this for a person who has \
         lost all factors, once you know that it is them who ask."
    );
    ask(&signed_in, &format!("Remove all second factors of {email}?"), consequence, "Remove second factors")
}

pub(super) async fn remove_factors(
    Administrator(signed_in): Administrator,
    Path(id): Path<String>,
    Posted(NoFields {}): Posted<NoFields>,
) -> Page {
    let email = find(&signed_in, &id).await?.email;
    let request = signed_in.request(v1::RemoveSecondFactorsRequest { email });
    match signed_in.change(signed_in.core().admin.remove_second_factors(request)).await {
        Ok(_) => Ok(see_other(&format!("{USERS}?done=factors-removed"))),
        Err(status) => show_faults(&signed_in, &status, InvitationForm::default()).await,
    }
}

pub(super) async fn show(Administrator(signed_in): Administrator, query: PageQuery) -> Page {
    page(&signed_in, &query, (InvitationForm::default(), Faults::none())).await
}

pub(super) async fn invite(Administrator(signed_in): Administrator, Posted(typed): Posted<InvitationForm>) -> Page {
    let message = v1::CreateUserRequest { email: typed.email.clone(), administrator: typed.administrator.is_some() };
    let created = match signed_in.change(signed_in.core().admin.create_user(signed_in.request(message))).await {
        Ok(answer) => answer.into_inner(),
        Err(status) => return show_faults(&signed_in, &status, typed).await,
    };
    let text = format!(
        "By this link {} sets a password. It is also sent to them, where this installation sends mail.",
        typed.email.trim()
    );
    link_page(&signed_in, "Invitation link", text, created.link, created.expires_at.as_ref())
}

pub(super) async fn make_administrator(
    Administrator(signed_in): Administrator,
    Posted(UserForm { email, .. }): Posted<UserForm>,
) -> Page {
    let message = v1::SetAdministratorRequest { email, administrator: true };
    match signed_in.change(signed_in.core().admin.set_administrator(signed_in.request(message))).await {
        Ok(_) => Ok(see_other(&format!("{USERS}?done=administrator-made"))),
        Err(status) => show_faults(&signed_in, &status, InvitationForm::default()).await,
    }
}

pub(super) async fn ask_to_unmake_administrator(
    Administrator(signed_in): Administrator,
    Path(id): Path<String>,
) -> Page {
    let email = find(&signed_in, &id).await?.email;
    let consequence = if is_visitor(&signed_in, &id) {
        "You no longer see the pages of the administration. Another administrator can make you one again.".to_owned()
    } else {
        format!("{email} no longer sees the pages of the administration. Their organizations stay as they are.")
    };
    ask(&signed_in, &format!("Remove {email} as administrator?"), consequence, "Remove as administrator")
}

pub(super) async fn unmake_administrator(
    Administrator(signed_in): Administrator,
    Path(id): Path<String>,
    Posted(NoFields {}): Posted<NoFields>,
) -> Page {
    let email = find(&signed_in, &id).await?.email;
    let message = v1::SetAdministratorRequest { email, administrator: false };
    match signed_in.change(signed_in.core().admin.set_administrator(signed_in.request(message))).await {
        // These pages are missing for somebody who is no administrator any more.
        Ok(_) if is_visitor(&signed_in, &id) => Ok(see_other(HOME)),
        Ok(_) => Ok(see_other(&format!("{USERS}?done=administrator-unmade"))),
        Err(status) => show_faults(&signed_in, &status, InvitationForm::default()).await,
    }
}

/// True if the visitor is the user with this id.
fn is_visitor(signed_in: &SignedIn, id: &str) -> bool {
    signed_in.account.user.as_ref().is_some_and(|user| user.id == id)
}

pub(super) async fn confirm(
    Administrator(signed_in): Administrator,
    Posted(UserForm { email, .. }): Posted<UserForm>,
) -> Page {
    match signed_in
        .change(signed_in.core().admin.confirm_user(signed_in.request(v1::ConfirmUserRequest { email })))
        .await
    {
        Ok(_) => Ok(see_other(&format!("{USERS}?done=confirmed"))),
        Err(status) => show_faults(&signed_in, &status, InvitationForm::default()).await,
    }
}

pub(super) async fn make_reset_link(
    Administrator(signed_in): Administrator,
    Posted(UserForm { email, keep_memberships, .. }): Posted<UserForm>,
) -> Page {
    let keep_memberships = keep_memberships.is_some();
    let message = v1::CreateResetLinkRequest { email: email.clone(), keep_memberships };
    let created = match signed_in.change(signed_in.core().admin.create_reset_link(signed_in.request(message))).await {
        Ok(answer) => answer.into_inner(),
        Err(status) => return show_faults(&signed_in, &status, InvitationForm::default()).await,
    };
    let effect = match (created.email_confirmed, created.ends_memberships) {
        (true, _) => "",
        (false, true) => {
            " Nobody ever confirmed this e-mail, so somebody else may have signed up with it: with the new password the \
             account leaves all its organizations."
        }
        (false, false) => " Nobody ever confirmed this e-mail. The link confirms it, and memberships stay.",
    };
    let text = format!(
        "By this link {email} sets a new password. Hand it over to nobody else. When it is used, no other link of theirs works any more.{effect}"
    );
    link_page(&signed_in, "Reset link", text, created.link, created.expires_at.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actions(is_administrator: bool, is_confirmed: bool) -> [bool; 4] {
        let (email, email_confirmed_at) = ("ada@example.com".to_owned(), is_confirmed.then(Timestamp::default));
        let row = v1::User { email, administrator: is_administrator, email_confirmed_at, ..v1::User::default() };
        let layout = Layout {
            title: String::new(),
            heading: String::new(),
            csrf: String::new(),
            once: String::new(),
            user: None,
            frame: None,
            is_administrator: true,
            unconfirmed: None,
            sends_mail: false,
            notice: None,
            active: ACTIVE,
        };
        let page = UsersPage {
            layout,
            tab: USERS,
            find: String::new(),
            users: PageQuery::default().part(USERS, vec![row]),
            faults: Faults::none(),
            typed: InvitationForm::default(),
        };
        let text = page.render().unwrap();
        ["Confirm e-mail:", "Remove as administrator:", "Make administrator:", "Reset link that keeps memberships for"]
            .map(|label| text.contains(&format!("aria-label=\"{label} ada@example.com\"")))
    }

    #[test]
    fn an_unconfirmed_administrator_can_be_confirmed_too() {
        assert_eq!(actions(true, false), [true, true, false, true]);
        assert_eq!(actions(true, true), [false, true, false, false]);
        assert_eq!(actions(false, false), [true, false, false, true]);
        assert_eq!(actions(false, true), [false, false, true, false]);
    }
}
