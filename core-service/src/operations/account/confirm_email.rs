//! Uses a link that confirms an e-mail.

#[cfg(test)]
mod tests;

use thesis_proto::v1;

use super::get_link::{Link, read_link};
use crate::{
    accounts::{confirmations, resets::no_link},
    convert,
    domain::{account::Actor, control::ControlChange},
    error::Result,
    operations::Core,
    shared::control::ControlState,
};

/// Uses a link that confirms an e-mail. Using it again changes nothing.
///
/// # Errors
/// `LINK_NOT_FOUND`, or when the store does not answer.
pub async fn confirm_email(
    core: &Core,
    address: Option<&str>,
    message: &v1::ConfirmEmailRequest,
) -> Result<v1::ConfirmEmailResponse> {
    let shared = &core.shared;
    let Link::Confirmation(link) = read_link(&shared.keys, &message.token)? else { return Err(no_link()) };
    let now_ms = shared.clock.now_ms();
    let confirm = |state: &ControlState| {
        let before = confirmations::user_of(shared, state, &link)?;
        let after = before.confirmed(now_ms);
        let changes = if before.is_confirmed() { Vec::new() } else { vec![ControlChange::User(after.clone())] };
        Ok((changes, after))
    };
    // Whoever has the link is the user.
    let actor = Actor { id: link.user_id.clone(), address: address.map(str::to_owned), is_member: true };
    let user = shared.control.change(actor.does("user.email_confirmed"), confirm).await?;
    Ok(v1::ConfirmEmailResponse { user: Some(convert::account::user(&user)) })
}
