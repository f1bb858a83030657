//! Confirms the e-mail of a user without a link. The operator vouches for the person. Repeating it changes nothing.

use thesis_proto::v1;

use super::set_administrator::no_user;
use crate::{
    control::ControlState,
    convert,
    domain::{account::Actor, control::ControlChange},
    error::Result,
    service::Core,
};

pub async fn confirm_user(
    core: &Core,
    actor: &Actor,
    message: &v1::ConfirmUserRequest,
) -> Result<v1::ConfirmUserResponse> {
    let now_ms = core.shared.clock.now_ms();
    let confirm = |state: &ControlState| {
        let before = state.people().user_by_email(&message.email).ok_or_else(no_user)?;
        let after = before.confirmed(now_ms);
        let changes = if before.is_confirmed() { Vec::new() } else { vec![ControlChange::User(after.clone())] };
        Ok((changes, v1::ConfirmUserResponse { user: Some(convert::account::user(&after)) }))
    };
    core.shared.control.change(actor.does("user.confirmed"), confirm).await
}
