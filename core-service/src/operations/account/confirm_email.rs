//! Confirms an e-mail by a link.

#[cfg(test)]
mod tests;

use thesis_proto::{error::ErrorCode, v1};

use super::get_link::{Link, read_link};
use crate::{
    accounts::{Person, confirmations, resets::no_link},
    control::ControlState,
    convert,
    domain::control::ControlChange,
    error::{Error, Result},
    service::Core,
};

/// Uses a link that confirms the e-mail of the session's user. The link proves that its holder reads the mail. The
/// session proves that the same person chose the password. A second use changes nothing.
///
/// # Errors
/// `LINK_NOT_FOUND`, `INSUFFICIENT_ROLE` if the link is for another user, or if the store does not answer.
pub async fn confirm_email(
    core: &Core,
    person: &Person,
    message: &v1::ConfirmEmailRequest,
) -> Result<v1::ConfirmEmailResponse> {
    let shared = &core.shared;
    let Link::Confirmation(link) = read_link(&shared.keys, &message.token)? else { return Err(no_link()) };
    let confirm = |state: &ControlState| {
        let before = confirmations::user_of(shared, state, &link)?;
        if before.id != person.user.id {
            let text = "this link confirms another e-mail than the one you are signed in with; sign out first";
            return Err(Error::new(ErrorCode::InsufficientRole, text));
        }
        let after = before.confirmed(person.now_ms);
        let changes = if before.is_confirmed() { Vec::new() } else { vec![ControlChange::User(after.clone())] };
        Ok((changes, after))
    };
    let user = shared.control.change(person.actor.does("user.email_confirmed"), confirm).await?;
    Ok(v1::ConfirmEmailResponse { user: Some(convert::account::user(&user)) })
}
