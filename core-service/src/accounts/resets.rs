//! One-time links for a new password. A user may have several: a request of a stranger voids none of them. The use of
//! one of them voids all.

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
/// Open links of a user. [`super::attempts::RESET_OF_ACCOUNT`] lets strangers request fewer in a link's 24 hours, so only
/// an operator reaches this; then the oldest goes.
const MAX_OPEN_LINKS: usize = 300;

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
    /// The version of the row of the user's links.
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

/// Makes a link by which a user sets a new password, beside those made before. Changes beside it go with it.
///
/// # Errors
/// When the store does not answer.
pub async fn make(shared: &Shared, user: &User, is_mailed: bool, beside: Vec<Change>) -> Result<NewReset> {
    let nonce = id::random(if is_mailed { MAILED } else { "" }, shared.ids.as_ref());
    let now_ms = shared.clock.now_ms();
    let expires_at = now_ms + RESET_MS;
    let token = shared.keys.link_token(&format!("{}.{nonce}", user.id));
    let mut consistency = Consistency::Quorum;
    loop {
        let found = rows::resets(&shared.backend, &user.id, consistency).await?;
        let (before, mut resets) = found.map_or_else(Default::default, |(version, resets)| (Some(version), resets));
        resets.links.retain(|link| now_ms < link.expires_at);
        resets.links.push(Reset { nonce: nonce.clone(), expires_at });
        resets.links.drain(..resets.links.len().saturating_sub(MAX_OPEN_LINKS));
        if rows::set_resets(&shared.backend, &user.id, before, &resets, beside.clone()).await? {
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
    let found = rows::resets(&shared.backend, user_id, consistency).await?;
    let (version, resets) = found.ok_or_else(no_link)?;
    let now_ms = shared.clock.now_ms();
    let mut links = resets.links.into_iter();
    let open = links.find(|link| link.nonce == nonce && now_ms < link.expires_at).ok_or_else(no_link)?;
    let is_mailed = nonce.starts_with(MAILED);
    Ok(FoundReset { user_id: user_id.to_owned(), version, expires_at: open.expires_at, is_mailed })
}
