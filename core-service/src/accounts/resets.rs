//! One-time links for a new password.

use thesis_proto::error::ErrorCode;

use crate::{
    domain::{
        account::{RESET_MS, User},
        id,
    },
    error::{Error, Result},
    shared::Shared,
    store::{Change, Consistency},
    tables::account::{self as rows, Reset},
};

/// Begins the nonce of a link that was mailed, not handed over.
const MAILED: &str = "mail_";

/// The token of a new link, and when the link ends.
#[derive(Clone, PartialEq, Eq)]
pub struct NewReset {
    /// The last part of the link.
    pub token: String,
    /// Unix milliseconds.
    pub expires_at: i64,
}

/// What a link is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundReset {
    /// Its user.
    pub user_id: String,
    /// The version of its row.
    pub version: i64,
    /// Unix milliseconds.
    pub expires_at: i64,
    /// True if it was mailed to the user; otherwise an operator handed it over.
    pub is_mailed: bool,
}

/// The error for a link that was never made, was used, or is over.
#[must_use]
pub fn no_link() -> Error {
    Error::new(ErrorCode::LinkNotFound, "this link was used already, is over, or is not whole; ask for a new one")
}

/// Makes a link by which a user sets a new password, in place of one made before. Changes beside it go with it.
///
/// # Errors
/// When the store does not answer.
pub async fn make(shared: &Shared, user: &User, is_mailed: bool, beside: Vec<Change>) -> Result<NewReset> {
    let nonce = id::random(if is_mailed { MAILED } else { "" }, shared.ids.as_ref());
    let expires_at = shared.clock.now_ms() + RESET_MS;
    let token = shared.keys.link_token(&format!("{}.{nonce}", user.id));
    let reset = Reset { nonce, expires_at };
    let mut consistency = Consistency::Quorum;
    loop {
        let before = rows::reset(&shared.backend, &user.id, consistency).await?.map(|(version, _)| version);
        if rows::set_reset(&shared.backend, &user.id, before, &reset, beside.clone()).await? {
            return Ok(NewReset { token, expires_at });
        }
        consistency = Consistency::Serial;
    }
}

/// Finds the open link of a token that was read from it as `user.nonce`.
///
/// # Errors
/// `LINK_NOT_FOUND`, or when the store does not answer.
pub async fn find(shared: &Shared, link: &str, consistency: Consistency) -> Result<FoundReset> {
    let (user_id, nonce) = link.split_once('.').ok_or_else(no_link)?;
    let found = rows::reset(&shared.backend, user_id, consistency).await?;
    let (version, reset) = found.ok_or_else(no_link)?;
    if reset.nonce != nonce || shared.clock.now_ms() >= reset.expires_at {
        return Err(no_link());
    }
    let is_mailed = nonce.starts_with(MAILED);
    Ok(FoundReset { user_id: user_id.to_owned(), version, expires_at: reset.expires_at, is_mailed })
}
