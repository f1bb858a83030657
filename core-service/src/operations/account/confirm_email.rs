//! Confirms the e-mail of the session's user by a link. The link proves that its holder reads the mail. The session
//! proves that the same person chose the password. A second use changes nothing.

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
        Ok((changes, v1::ConfirmEmailResponse { user: Some(convert::account::user(&after)) }))
    };
    shared.control.change(person.actor.does("user.email_confirmed"), confirm).await
}
