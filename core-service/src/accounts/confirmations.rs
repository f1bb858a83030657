//! Links that confirm an e-mail. A link is a signed text with its expiry, so no row holds it, and it works until then.

use super::Accounts;
use crate::{
    accounts::{mail::Letter, resets::no_link},
    control::ControlState,
    domain::account::{CONFIRMATION_MS, User, folded_email},
    error::Result,
    shared::Shared,
};

/// Prefix of the text that the link signs.
const PREFIX: &str = "confirm.";

/// A link that this service issued. It may have expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirmation {
    pub user_id: String,
    /// Keyed hash of that e-mail.
    email_hash: String,
    /// Unix milliseconds.
    pub expires_at: i64,
}

/// Creates the token of a new link that confirms a user's e-mail.
pub fn token(shared: &Shared, user: &User) -> String {
    let email_hash = shared.keys.email_hash(&folded_email(&user.email));
    let expires_at = shared.clock.now_ms() + CONFIRMATION_MS;
    shared.keys.link_token(&format!("{PREFIX}{}.{email_hash}.{expires_at}", user.id))
}

/// Reads the text that a link signs; none if the link is for something else.
pub fn parse(text: &str) -> Option<Confirmation> {
    let (user_id, rest) = text.strip_prefix(PREFIX)?.split_once('.')?;
    let (email_hash, expires_at) = rest.split_once('.')?;
    let expires_at = expires_at.parse().ok()?;
    Some(Confirmation { user_id: user_id.to_owned(), email_hash: email_hash.to_owned(), expires_at })
}

/// Finds the user whose e-mail a link confirms: the link has not expired, and is for the user's present e-mail.
pub fn user_of(shared: &Shared, state: &ControlState, link: &Confirmation) -> Result<User> {
    let user = state.people().user(&link.user_id).ok_or_else(no_link)?;
    let is_theirs = shared.keys.email_hash(&folded_email(&user.email)) == link.email_hash;
    if !is_theirs || shared.clock.now_ms() >= link.expires_at {
        return Err(no_link());
    }
    Ok(User::clone(user))
}

pub fn post(accounts: &Accounts, shared: &Shared, user: &User) {
    if let Some(mail) = &accounts.mail {
        mail.post(Letter::confirmation(&user.email, &accounts.link(&token(shared, user))));
    }
}
