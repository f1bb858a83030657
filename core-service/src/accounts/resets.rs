//! One-time links for a new password. A user may have several: a stranger's request voids none of them. The use of one
//! voids all.

use thesis_proto::error::ErrorCode;

use crate::{
    control::People,
    domain::{
        account::{OPERATOR, RESET_MS, User},
        id,
    },
    error::{Error, Result},
    shared::Shared,
    store::{Change, Consistency},
    tables::account::{self as rows, Reset},
};

/// Open links of a user. [`super::attempts::RESET_OF_ACCOUNT`] lets strangers request fewer within the 24 hours of a
/// link, so only an operator reaches this limit; then the oldest link is dropped.
const MAX_OPEN_LINKS: usize = 300;

/// Creator of a link that the service mails: nobody, and nobody vouches for the memberships of its user.
pub const MAILED: (Option<&str>, bool) = (None, false);

pub struct FoundReset {
    pub user_id: String,
    /// The version of the row of the user's links.
    pub version: i64,
    pub link: Reset,
}

/// The error for a link that never existed, was used, or has expired.
pub fn no_link() -> Error {
    Error::new(ErrorCode::LinkNotFound, "this link was used already, is over, or is not whole; ask for a new one")
}

/// True if the use of a link ends memberships of a user: nobody confirmed the e-mail, so a stranger may have created
/// them.
pub fn ends_memberships(people: &People, user: &User, keeps_memberships: bool) -> bool {
    !keeps_memberships && !user.is_confirmed() && people.memberships(&user.id).next().is_some()
}

/// True if the creator of a link is still authorized. The links of a removed administrator do not work.
fn is_authorized(people: &People, link: &Reset) -> bool {
    let is_administrator = |id: &str| people.user(id).is_some_and(|user| user.administrator);
    link.creator.as_deref().is_none_or(|creator| creator == OPERATOR || is_administrator(creator))
}

/// Creates a link by which a user sets a new password: one that is mailed, or that its creator hands over. Earlier
/// links stay. The changes in `beside` are written with it. Returns the token of the link and its expiry.
pub async fn create_link(
    shared: &Shared,
    user: &User,
    (creator, keeps_memberships): (Option<&str>, bool),
    beside: Vec<Change>,
) -> Result<(String, i64)> {
    let nonce = id::random("", shared.ids.as_ref());
    let now_ms = shared.clock.now_ms();
    let expires_at = now_ms + RESET_MS;
    let token = shared.keys.link_token(&format!("{}.{nonce}", user.id));
    let new = Reset { nonce, expires_at, creator: creator.map(str::to_owned), keeps_memberships };
    let mut consistency = Consistency::Quorum;
    loop {
        let found = rows::resets(&shared.backend, &user.id, consistency).await?;
        let (before, mut resets) = found.map_or_else(Default::default, |(version, resets)| (Some(version), resets));
        resets.links.retain(|link| now_ms < link.expires_at);
        resets.links.push(new.clone());
        resets.links.drain(..resets.links.len().saturating_sub(MAX_OPEN_LINKS));
        if rows::set_resets(&shared.backend, &user.id, before, &resets, beside.clone()).await? {
            return Ok((token, expires_at));
        }
        consistency = Consistency::Serial;
    }
}

/// Finds the open link of a token, which holds `user.nonce`. The caller has refreshed the control state.
pub async fn find(shared: &Shared, link: &str, consistency: Consistency) -> Result<FoundReset> {
    let (user_id, nonce) = link.split_once('.').ok_or_else(no_link)?;
    let found = rows::resets(&shared.backend, user_id, consistency).await?;
    let (version, resets) = found.ok_or_else(no_link)?;
    let now_ms = shared.clock.now_ms();
    let state = shared.control.state();
    let is_open = |link: &Reset| link.nonce == nonce && now_ms < link.expires_at && is_authorized(state.people(), link);
    let link = resets.links.into_iter().find(is_open).ok_or_else(no_link)?;
    Ok(FoundReset { user_id: user_id.to_owned(), version, link })
}
